from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.random_kernels import Generator
from weft.codegen.trim_parameters import trim_parameters
from weft.ir.dtypes import float64
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import Allocate, Buffer, For, Kernel, Store
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Var, literal


@pytest.mark.parametrize("used", ["bound", "index", "shape", "stride", "allocation", ""])
def test_what_a_kernel_mentions_stays(used: str) -> None:
    n, one, seven = Var("n"), literal(1), literal(7)
    a = Buffer("a", float64, (n if used == "shape" else seven,), (n if used == "stride" else one,))
    row = Buffer("row", float64, (n if used == "allocation" else seven,), (one,), scope="local")
    store = Store("a", (n if used == "index" else literal(0),), literal(1.0, float64))
    loop = For("i", literal(0), n if used == "bound" else seven, "serial", store)
    trimmed = trim_parameters(Kernel("f", ("m", "n"), (a,), Allocate(row, loop)))
    assert trimmed.parameters == (("n",) if used else ())


@pytest.mark.parametrize("seed", range(40))
def test_the_kernel_still_does_the_same(seed: int) -> None:
    kernel, parameters, arrays = Generator(seed).kernel()
    trimmed = trim_parameters(kernel)
    verify_kernel(trimmed)
    expected = {name: array.copy() for name, array in arrays.items()}
    actual = {name: array.copy() for name, array in arrays.items()}
    kept = {name: parameters[name] for name in trimmed.parameters}
    assert interpret(kernel, parameters, expected).code == interpret(trimmed, kept, actual).code
    for name, array in expected.items():
        np.testing.assert_array_equal(actual[name], array)
