"""What runs when compiling and what at each call."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.driver.assemble import Ports, Step, Storage, assemble
from weft.ir import dtypes
from weft.ir.loop_ir import Block, Buffer, Kernel
from weft.ir.scalar_expr import literal

STORAGE = Storage(dtypes.float32, (literal(4),))


def step(name: str, reads: str, writes: str, parameters: tuple[str, ...] = ()) -> Step:
    arguments = tuple(dict.fromkeys(reads + writes))
    buffers = tuple(
        Buffer(a, dtypes.float32, (literal(4),), (literal(1),), writable=a in writes)
        for a in arguments
    )
    kernel = Kernel(name, parameters, buffers, Block(()))
    return Step(kernel, arguments, frozenset(reads), frozenset(writes))


def split(steps: list[Step]) -> tuple[list[str], list[str]]:
    """Names of the kernels that run (when compiling, at each call)."""
    ports = Ports(("x",), ("y",), frozenset("c"))
    storage = dict.fromkeys(("x", "y", *(a for s in steps for a in s.arguments)), STORAGE)
    made = assemble(ports, steps, storage, {}, "g")
    once = [launch.kernel for launch in made.prepare.steps] if made.prepare else []
    return once, [launch.kernel for launch in made.main.steps]


def test_what_depends_on_constants_alone_runs_when_compiling() -> None:
    assert split([step("pack", "c", "p"), step("use", "px", "y")]) == (["pack"], ["use"])


def test_an_output_is_computed_at_each_call() -> None:
    assert split([step("copy", "c", "y")]) == ([], ["copy"])


def test_a_buffer_that_a_later_step_changes_is_not_constant_nor_what_is_read_from_it() -> None:
    steps = [
        step("zero", "", "t"),
        step("early", "t", "u"),
        step("late", "u", "v"),
        step("change", "xt", "t"),
        step("use", "tuvx", "y"),
    ]
    assert split(steps) == ([], ["zero", "early", "late", "change", "use"])


def test_sizes_are_not_known_when_compiling() -> None:
    steps = [step("table", "", "t", ("n",)), step("use", "tx", "y")]
    assert split(steps) == ([], ["table", "use"])


@pytest.mark.long
@pytest.mark.parametrize("size", [0, 1, 5, 40])
def test_a_table_over_a_symbolic_size(size: int) -> None:
    n = weft.var("n")
    x = weft.placeholder((n, n), name="x")
    table = weft.compute(
        (n, n), lambda i, j: weft.exp((i * j).astype("float32") * 0.001), name="table"
    )
    k = weft.reduce_axis((0, n), name="k")
    y = weft.compute((n, n), lambda i, j: weft.sum(x[i, k] * table[k, j], axis=k), name="y")
    run = weft.compile([y], options=weft.Options(cache=False))
    data = np.random.default_rng(size).standard_normal((size, size)).astype(np.float32)
    i, j = np.indices((size, size))
    expected = data.astype(np.float64) @ np.exp(i * j * 0.001)
    np.testing.assert_allclose(run(data), expected, rtol=1e-4, atol=1e-4)
