"""Innermost loops are cut where conditions change; what runs stays the same."""

from __future__ import annotations

import pytest

from tests.codegen.marked_loops import free, i, innermost, j, kernel, m, mark, n, nest, same
from weft.codegen.cut_ranges import cut_ranges
from weft.codegen.loop_ir import Block, For, If, Kind, walk
from weft.frontend.scalar_expr import literal

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
