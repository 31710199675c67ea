"""Rows that are read together: the same sums, for any number of rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.kernel_runner import check
from weft.codegen.rows_side_by_side import rows_side_by_side
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.loop_ir import Allocate, Block, Buffer, For, Kernel, Scope, Store, Update
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Expr, Load, Var, literal

F32 = dtypes.float32
i, k = Var("i"), Var("k")


def buffer(name: str, *shape: int, scope: Scope = "global") -> Buffer:
    strides = tuple(int(np.prod(shape[d + 1 :], dtype=int)) for d in range(len(shape)))
    known = Buffer(name, F32, tuple(map(literal, shape)), tuple(map(literal, strides)))
    return replace(known, scope=scope)


def product(count: int, width: int, low: int = 0, x: tuple[Expr, ...] = (i, k)) -> Kernel:
    """s[i] = 1 + sum of x[i, k] * v[k], by way of a sum of each iteration's own"""
    term = Load("x", x, F32) * Load("v", (k,), F32)
    add = Update((("sum", ()),), monoid("add", F32), (term,))
    along = For("k", literal(0), literal(width), "vector", add)
    last = Store("s", (i,), Load("sum", (), F32) + literal(1.0, F32))
    body = Block((Store("sum", (), literal(0.0, F32)), along, last))
    rows = For(
        "i", literal(low), literal(count), "parallel", Allocate(buffer("sum", scope="local"), body)
    )
    buffers = (buffer("x", count, max(count, width)), buffer("v", width), buffer("s", count))
    return Kernel("k", (), buffers, rows)


@pytest.mark.parametrize("width", [1, 17, 100])
@pytest.mark.parametrize(("count", "low"), [(32, 0), (33, 0), (61, 3), (35, 0)])
def test_as_many_rows_together_as_asked_for(count: int, low: int, width: int) -> None:
    given = product(count, width, low)
    other = rows_side_by_side(given, 3, 256)
    assert other != given
    verify_kernel(other)
    (loop,) = [other.body]
    assert isinstance(loop, For)
    assert (loop.lower, loop.upper) == (literal(0), literal((count - low) // 3))
    rng = np.random.default_rng(1)
    x = rng.uniform(1, 2, (count, max(count, width))).astype(np.float32)
    v = rng.uniform(1, 2, width).astype(np.float32)
    found = check(other, {}, {"x": x.ravel(), "v": v, "s": np.zeros(count, np.float32)}, rtol=1e-5)
    expected = 1 + x[:, :width].astype(float) @ v
    np.testing.assert_allclose(found["s"][low:], expected[low:], rtol=1e-5)


def test_rows_that_are_stored_are_left_alone() -> None:
    """More streams of stores than a core has buffers for take five times as long."""
    given = product(64, 100)
    loop = given.body
    assert isinstance(loop, For) and rows_side_by_side(given, 4, 256) != given
    scaled = Load("x", (i, k), F32) * Load("s", (i,), F32)
    for store in (
        Store("y", (i, k), scaled),
        Update((("y", (i, k)),), monoid("add", F32), (scaled,)),
    ):
        last = For("k", literal(0), literal(100), "vector", store)
        buffers = (*given.buffers, buffer("y", 64, 100))
        other = replace(given, buffers=buffers, body=replace(loop, body=Block((loop.body, last))))
        assert rows_side_by_side(other, 4, 256) == other


def test_only_many_rows_that_are_large_and_lie_apart() -> None:
    given = product(64, 64)
    assert rows_side_by_side(given, 4, 1 << 20) == given  # it is in a cache
    assert rows_side_by_side(given, 4, 256, threads=3) == given  # too few turns of each thread
    across = product(64, 64, x=(k, i))
    assert rows_side_by_side(across, 4, 256) == across  # these are columns
    assert rows_side_by_side(product(31, 64), 4, 256) == product(31, 64)
