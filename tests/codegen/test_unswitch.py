"""Conditions that loops do not change are asked before them; what runs stays the same."""

from __future__ import annotations

import pytest

from tests.codegen.marked_loops import free, i, innermost, j, m, mark, n, nest, same
from weft.codegen.unswitch import unswitch
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.loop_ir import Block, For, If, Stmt, Update, walk
from weft.ir.scalar_expr import Load, Select, Var, literal, select
from weft.ir.scalar_expr import walk as walk_expr

INVARIANT: dict[str, Stmt] = {
    "one": If(i >= 3, mark(1, i, j)),
    "either": If(i >= 3, mark(1, i, j), mark(2, i, j)),
    "two": Block((If(i >= 3, mark(1, i, j)), If(n - i >= 2, mark(2, i, j)), mark(3, i, j))),
    "both": Block((If((i >= 3) & (m >= 4), mark(1, i, j)), mark(2, i, j))),
}


@pytest.mark.parametrize("name", INVARIANT)
def test_conditions_move_before_the_loop(name: str) -> None:
    before = nest(INVARIANT[name])
    after = unswitch(before)
    same(before, after)
    assert all(map(free, innermost(after)))


def test_not_more_than_two() -> None:
    parts = tuple(If(i >= k, mark(k, i, j)) for k in range(1, 6))
    before = nest(Block((*parts, mark(9, i, j))))
    after = unswitch(before)
    same(before, after)
    assert len(innermost(after)) <= 4


def test_a_loop_that_does_nothing_but_ask_goes_inside() -> None:
    row = For("q", literal(0), literal(3), "serial", mark(1, i, Var("q")))
    other = For("q", literal(0), literal(3), "serial", mark(2, i, Var("q")))
    before = nest(If(i >= 3, row, If(n - i >= 2, other)), "serial")
    after = unswitch(before)
    same(before, after)
    assert len(innermost(after)) == 2
    assert all(map(free, (s for s in walk(after.body) if isinstance(s, For) and s.var == "j")))


def test_conditions_that_the_loop_changes_stay() -> None:
    for condition in (j >= 2, Load("x", (j, literal(0)), dtypes.int64) >= 2):
        before = nest(If(condition, mark(1, i, j)), "serial")
        after = unswitch(before)
        same(before, after)
        assert not any(map(free, innermost(after)))


def test_what_a_stream_selects_by_is_asked_before_it() -> None:
    add = monoid("add", dtypes.int64)
    here = (i + 8, Var("p"))
    value = select(i >= 3, Load("x", (i, j), dtypes.int64), literal(2)) * 5
    sums: Stmt = Update((("x", here),), add, (value,))
    for kind, name in (("vector", "p"), ("unrolled", "q")):
        sums = For(name, literal(0), literal(4), kind, sums)  # type: ignore[arg-type]
    before = nest(sums, "serial")
    after = unswitch(before)
    same(before, after)
    updates = [s for s in walk(after.body) if isinstance(s, Update)]
    assert len(updates) == 2
    assert not any(isinstance(x, Select) for u in updates for v in u.values for x in walk_expr(v))
