"""The greatest and the least of lanes: NaN if any is, wherever it stands."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.kernel_runner import Compiled
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.dtypes import DType
from weft.ir.loop_ir import Block, Buffer, For, Kernel, Store, Update
from weft.ir.scalar_expr import Load, Var, literal

v, n = Var("v"), Var("n")


def extreme(name: str, dtype: DType) -> Compiled:
    one = monoid(name, dtype)
    x = Buffer("x", dtype, (n,), (literal(1),), writable=False)
    y = Buffer("y", dtype, (literal(1),), (literal(1),))
    fold = Update((("y", (literal(0),)),), one, (Load("x", (v,), dtype),))
    start = Store("y", (literal(0),), literal(one.identity[0], dtype))
    body = Block((start, For("v", literal(0), n, "vector", fold)))
    return Compiled(Kernel("k", ("n",), (x, y), body))


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
@pytest.mark.parametrize("name", ["max", "min"])
def test_of_any_number_with_and_without_nan(name: str, dtype: DType) -> None:
    compiled, fold = extreme(name, dtype), {"max": np.max, "min": np.min}[name]
    for size in (1, 2, 15, 16, 17, 63, 64, 65, 131):
        values = np.random.default_rng(size).normal(size=size).astype(dtype.numpy)
        values[size // 2] = -np.inf if name == "max" else np.inf
        for nan in (None, 0, size // 3, size - 1):
            given = values.copy()
            if nan is not None:
                given[nan] = -np.nan if size % 2 else np.nan
            found = compiled({"n": size}, {"x": given, "y": np.zeros(1, dtype.numpy)})[0]["y"]
            np.testing.assert_array_equal(found, fold(given))
