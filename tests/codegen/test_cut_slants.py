"""Loops around sliding rows are cut where all rows run; what runs stays the same."""

from __future__ import annotations

import pytest

from tests.codegen.marked_loops import innermost, kernel, m, mark, n, same
from weft.codegen.cut_slants import cut_slants
from weft.codegen.loop_ir import For, Kernel
from weft.frontend.scalar_expr import Expr, Literal, Var, apply, literal


def rows(lower: Expr, upper: Expr) -> Kernel:
    """``s`` serial, rows ``p`` unrolled inside: row p is at column s - 2·p."""
    s, p = Var("s"), Var("p")
    row = For("p", lower, upper, "unrolled", mark(1, p, s - p * 2))
    return kernel(For("s", literal(0), n + m, "serial", row))


s = Var("s")
SLANTS = {
    "both ends": rows(
        apply("max", literal(0), (s - n + 2) // 2), apply("min", literal(4), (s + 2) // 2)
    ),
    "start": rows(literal(0), apply("min", literal(4), (s + 2) // 2)),
    "end": rows(apply("max", literal(0), (s - n + 2) // 2), literal(4)),
    "few rows": rows(
        apply("max", literal(0), (s - n + 2) // 2),
        apply("min", apply("min", literal(4), m), (s + 2) // 2),
    ),
}


@pytest.mark.parametrize("name", SLANTS)
def test_rows_that_all_run_are_written_out(name: str) -> None:
    before = SLANTS[name]
    after = cut_slants(before)
    same(before, after)
    constant = [
        x for x in innermost(after) if isinstance(x.lower, Literal) and isinstance(x.upper, Literal)
    ]
    assert any(int(x.upper.value) - int(x.lower.value) == 4 for x in constant)  # type: ignore[union-attr]


def test_rows_without_an_end_are_left_alone() -> None:
    before = rows(literal(0), (s + 2) // 2)
    after = cut_slants(before)
    same(before, after)
    assert len(innermost(after)) == 1


def test_rows_within_rows_are_left_alone() -> None:
    """Where the inner rows are full depends on the outer row, which nothing in front knows."""
    q, p = Var("q"), Var("p")
    lower = apply("max", literal(0), s * -2 - q + 1)
    inner = For("p", lower, literal(2), "unrolled", mark(1, p, q, s))
    upper = apply("min", literal(2), (n + 1) // 2 - s * 2)
    outer = For("q", literal(0), upper, "unrolled", inner)
    before = kernel(For("s", literal(0), n + 1, "serial", outer))
    after = cut_slants(before)
    same(before, after)
