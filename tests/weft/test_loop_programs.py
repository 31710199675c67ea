"""``@weft.kernel``: compiled kernels do to the caller's arrays what the Python function does.

Those of PolyBench do in ``tests/benchmarks``, in Python and compiled.
"""

import numpy as np
import pytest

from tests.frontend.loops.kernels import PROGRAMS, SIZES, in_python

POLYBENCH = {"lu", "cholesky", "nussinov"}


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in POLYBENCH])
def test_machine_code_computes_what_the_function_does(name: str) -> None:
    kernel, make = PROGRAMS[name]
    for n in SIZES:
        given = make(n)
        wanted = in_python(kernel, given)
        assert kernel(*given) is None
        for argument, value, result in zip(kernel.lowered.arguments, wanted, given, strict=True):
            what = f"{argument.name}, {n}"
            np.testing.assert_allclose(result, value, rtol=1e-5, atol=1e-9, err_msg=what)
