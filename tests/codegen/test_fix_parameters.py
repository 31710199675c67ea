from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.random_kernels import Generator
from weft.codegen.c_printer import fix_parameters
from weft.ir.dtypes import float64
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import Allocate, Buffer, For, Kernel, Store
from weft.ir.loop_printer import print_kernel
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Load, Var, literal


def test_bounds_and_shapes_become_numbers() -> None:
    n, i = Var("n"), Var("i")
    row = Buffer("row", float64, (n,), (literal(1),), scope="local")
    a = Buffer("a", float64, (n, n + 1), (n + 1, literal(1)))
    body = For(
        "i", literal(0), n - 1, "serial", Store("a", (i, i + n - 4), Load("row", (i,), float64))
    )
    fixed = fix_parameters(Kernel("f", ("n", "m"), (a,), Allocate(row, body)), {"n": 7})
    assert print_kernel(fixed) == (
        "kernel f(m)\n"
        "  a: float64[7, 8]\n"
        "  allocate row: float64[7] local\n"
        "  for i in 0 .. 6 serial:\n"
        "    a[i, i + 3] = row[i]"
    )


@pytest.mark.parametrize("seed", range(40))
def test_the_kernel_still_does_the_same(seed: int) -> None:
    kernel, parameters, arrays = Generator(seed).kernel()
    fixed = fix_parameters(kernel, parameters)
    assert fixed.parameters == ()
    verify_kernel(fixed)
    expected = {name: array.copy() for name, array in arrays.items()}
    actual = {name: array.copy() for name, array in arrays.items()}
    assert interpret(kernel, parameters, expected).code == interpret(fixed, {}, actual).code
    for name, array in expected.items():
        np.testing.assert_array_equal(actual[name], array)
