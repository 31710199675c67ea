"""Random kernels as affine statements, instance by instance, against the Python functions."""

import linecache

import numpy as np
import pytest

import weft
from tests.frontend.loops.random_kernels import random_kernel
from weft.ir.scop_interpreter import interpret


def compiled(seed: int) -> weft.Kernel:
    """The kernel of ``seed``, its text where Python looks for that of a notebook's cell."""
    text, file = random_kernel(seed), f"<random kernel {seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, object] = {"__name__": "random_kernels"}
    exec(compile(text, file, "exec"), names)
    kernel = names["kernel"]
    assert isinstance(kernel, weft.Kernel)
    return kernel


@pytest.mark.long
@pytest.mark.parametrize("seed", range(16))
def test_random_kernel(seed: int) -> None:
    kernel, data = compiled(seed), np.random.default_rng(seed)
    for n, m in ((0, 3), (4, 2), (3, 6)):
        A, B = data.integers(-99, 99, 7), data.integers(-99, 99, (5, 7))
        C = data.integers(0, 99, 6).astype("int32")
        wanted = A.copy(), B.copy()
        with np.errstate(all="ignore"):
            kernel.python(*wanted, C, n, m)
        results = interpret(kernel.lowered.scop, {"A": A, "B": B, "C": C}, {"N": n, "M": m})
        np.testing.assert_array_equal(results["A"], wanted[0])
        np.testing.assert_array_equal(results.get("B", B), wanted[1])
