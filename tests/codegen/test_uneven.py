"""Uneven loops are those whose turns differ by more than a partial tile."""

from __future__ import annotations

import pytest

from weft.codegen.map_loops import is_uneven
from weft.ir.dtypes import int64
from weft.ir.loop_ir import Block, For, If, Let, Stmt, Store, While
from weft.ir.scalar_expr import Expr, Load, Var, apply, literal

i, j, k, n, m = map(Var, "ijknm")


def loop(var: str, lower: Expr, upper: Expr, body: Stmt, step: int = 1) -> For:
    return For(var, lower, upper, "serial", body, step)


WORK = Store("A", (literal(0),), literal(1))
ZERO = literal(0)

EVEN = {
    "one statement": WORK,
    "a rectangle": loop("j", ZERO, n, WORK),
    "a band": loop("j", i, i + 3, WORK),
    "a window moved": loop("j", i * 4 - 2, i * 4 + m, WORK),
    "a partial tile": loop("j", i * 32, apply("min", i * 32 + 32, n), WORK),
    "a tile cut on both sides": loop(
        "j", apply("max", i * 8, m), apply("min", i * 8 + 8, apply("min", n, i + n)), WORK
    ),
    "rectangles in a tile": loop("j", i * 8, i * 8 + 8, loop("k", j, j + 8, WORK)),
    "a condition": If(i < n, WORK),
    "a name used again": Let("j", i, loop("j", ZERO, n, loop("k", ZERO, j, WORK))),
}
UNEVEN = {
    "a triangle": loop("j", ZERO, i, WORK),
    "the other triangle": loop("j", i + 1, n, WORK),
    "behind a let": Let("k", n - i, loop("j", ZERO, k, WORK)),
    "a triangle of tiles": loop("j", ZERO, (i * 32 + 31) // 32, WORK),
    "deep inside": Block((WORK, loop("k", ZERO, m, If(k < n, loop("j", i, n, WORK))))),
    "a triangle in a tile": loop("j", i * 8, i * 8 + 8, loop("k", ZERO, j, WORK)),
    "sparse rows": loop("j", Load("R", (i,), int64), Load("R", (i + 1,), int64), WORK),
    "until convergence": While(Load("R", (i,), int64) > 0, WORK),
    "a triangle of tiles, cut at the last": loop(
        "j", ZERO, apply("min", (n + 95) // 96, i * 2 + 3), WORK
    ),
    "cut, but a triangle": loop("j", ZERO, apply("min", i, n - i), WORK),
}


@pytest.mark.parametrize("name", EVEN)
def test_even(name: str) -> None:
    assert not is_uneven(For("i", ZERO, n, "parallel", EVEN[name]))


@pytest.mark.parametrize("name", UNEVEN)
def test_uneven(name: str) -> None:
    assert is_uneven(For("i", ZERO, n, "parallel", UNEVEN[name]))
