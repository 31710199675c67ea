"""Innermost loops are cut where conditions change; what runs stays the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.marked_loops import (
    SIDE,
    SIZES,
    free,
    i,
    innermost,
    j,
    kernel,
    m,
    mark,
    n,
    nest,
    same,
)
from weft.codegen.cut_ranges import cut_ranges
from weft.ir import dtypes
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import Block, Buffer, For, If, Kind, Stmt, Store, expressions, walk
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Expr, Load, Select, literal, select
from weft.ir.scalar_expr import walk as walk_expr

RANGES = {
    "from": If(j >= 2, mark(1, i, j)),
    "up to": If(j < n - 1, mark(1, i, j)),
    "between": If((j >= i - 1) & (j <= i + 3), mark(1, i, j)),
    "two": Block((If(j > 0, mark(1, i, j)), If(j * 2 <= n + i, mark(2, i, j)), mark(3, i, j))),
    "halves": If(j // 2 >= i, mark(1, i, j)),
    "backwards": If(i - j * 3 >= -7, mark(1, i, j), mark(2, i, j)),
    "never": If(j >= m, mark(1, i, j)),
}


@pytest.mark.parametrize("kind", ["serial", "vector"])
@pytest.mark.parametrize("name", RANGES)
def test_loops_are_cut_where_conditions_change(name: str, kind: Kind) -> None:
    before = nest(Block((RANGES[name], mark(5, i, j))), kind)
    after = cut_ranges(before)
    same(before, after)
    assert name == "never" or any(map(free, innermost(after)))


def _pick(at: Expr) -> Stmt:
    """y[i, j] gathers what is at ``at`` of its row."""
    old = Load("x", (i + 8, j + 8), dtypes.int64)
    return Store("x", (i + 8, j + 8), old * 3 + Load("w", (at,), dtypes.int64))


CHOICES = {
    "load": Store("x", (i + 8, j + 8), select(j >= 1, Load("w", (j - 1,), dtypes.int64), 7)),
    "place": _pick(select(j >= 1, j - 1, literal(0))),
    "most turns otherwise": _pick(select(j < 2, 2 - j, j - 2)),
    "both ends": _pick(select((j * 2 >= 3) & (j < m - 2), j, select(j < m - 2, -j + 4, m - 1))),
    "inside of a case": _pick(select(j >= 1, select(j < m - 1, j + 1, m - 1), literal(3))),
    "inside of a seldom case": _pick(select(j < 1, select(j > 5, j - 6, literal(2)), j)),
    "open which": _pick(select((i * j >= 4) & (j >= 1), j - 1, literal(1))),
    "what follows": _pick(select((j >= 1) & (j - 1 >= 0), select(j <= 0, -j, j - 1), literal(2))),
}


@pytest.mark.parametrize("kind", ["serial", "vector"])
@pytest.mark.parametrize("name", CHOICES)
def test_loops_are_cut_where_other_elements_are_loaded(name: str, kind: Kind) -> None:
    weights = Buffer("w", dtypes.int64, (literal(SIDE),), (literal(1),), writable=False)
    before = nest(CHOICES[name], kind)
    before = replace(before, buffers=(*before.buffers, weights))
    after = cut_ranges(before)
    verify_kernel(after)
    for rows, columns in SIZES:
        results = []
        for each in (before, after):
            x, w = np.arange(SIDE * SIDE), np.arange(SIDE) ** 3
            interpret(each, {"n": rows, "m": columns}, {"x": x, "w": w})
            results.append(x)
        np.testing.assert_array_equal(results[1], results[0], err_msg=f"n={rows} m={columns}")
    chosen = [sum(isinstance(e, Select) for e in _all(loop)) for loop in innermost(after)]
    assert name == "open which" or 0 in chosen


def _all(loop: For) -> list[Expr]:
    return [e for s in walk(loop.body) for top in expressions(s) for e in walk_expr(top)]


def test_loops_of_constant_length_are_not_cut() -> None:
    body = For("j", literal(0), literal(8), "vector", If(j < n, mark(1, i, j)))
    before = kernel(For("i", literal(0), m, "serial", body))
    assert len(innermost(cut_ranges(before))) == 1


def test_outer_loops_are_not_cut() -> None:
    body = Block((If(i >= 2, mark(1, i, i)), For("j", literal(0), m, "vector", mark(2, i, j))))
    before = kernel(For("i", literal(0), n, "serial", body))
    after = cut_ranges(before)
    same(before, after)
    assert len([s for s in walk(after.body) if isinstance(s, For) and s.var == "i"]) == 1
