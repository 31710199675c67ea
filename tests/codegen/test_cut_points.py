"""Loops around short point loops are cut where these are full, and still do the same."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen import marked_loops
from tests.codegen.marked_loops import innermost, mark, same
from weft.codegen.cut_points import cut_points
from weft.codegen.simplify import simplify_kernel
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import Buffer, For, Kernel, Stmt, Update, walk
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Expr, Literal, Var, apply, literal

w, p, n, m = map(Var, "wpnm")
SIDE = 64


def count_at(w_: Expr, p_: Expr) -> Stmt:
    """Counts visits of (w, p), and remembers their order."""
    times = Update((("x", (w_ + 8, p_ + 8)),), monoid("add", dtypes.int64), (literal(1),))
    return times


def kernel(low: Expr, high: Expr, first: Expr, last: Expr) -> Kernel:
    point = For("p", first, last, "unrolled", count_at(w, p))
    buffer = Buffer("x", dtypes.int64, (literal(SIDE),) * 2, (literal(SIDE), literal(1)))
    return Kernel("k", ("n", "m"), (buffer,), For("w", low, high, "serial", point), ())


def least(*values: Expr) -> Expr:
    return values[0] if len(values) == 1 else apply("min", values[0], least(*values[1:]))


def most(*values: Expr) -> Expr:
    return values[0] if len(values) == 1 else apply("max", values[0], most(*values[1:]))


LOOPS = {
    "wave": (literal(0), n + 3, most(literal(0), w - n + 1), least(literal(4), w + 1)),
    "floors": (
        literal(2),
        n + n,
        most(literal(0), (w + 1) // 2 - n),
        least(least(literal(5), n), (w + 1) // 2),
    ),
    "falling": (literal(0), n, literal(0), least(literal(4), n - w)),
    "steep": (literal(0), n, most(literal(1), 9 - w * 3), least(literal(4), w * 2 + 1)),
    "other sizes": (literal(0), n, literal(0), least(literal(4), m, w + 1)),
    "starts later": (m, n, most(literal(0), 6 - w), literal(4)),
}


@pytest.mark.parametrize("name", LOOPS)
def test_same_visits(name: str) -> None:
    original = kernel(*LOOPS[name])
    changed = cut_points(original)
    verify_kernel(changed)
    for size in range(14):
        for other in (0, 1, 3, 8):
            expected, actual = np.zeros((2, SIDE * SIDE), np.int64)
            interpret(original, {"n": size, "m": other}, {"x": expected})
            interpret(changed, {"n": size, "m": other}, {"x": actual})
            np.testing.assert_array_equal(actual, expected, err_msg=f"{size} {other}")


@pytest.mark.parametrize("name", LOOPS)
def test_the_middle_is_written_out(name: str) -> None:
    changed = cut_points(kernel(*LOOPS[name]))
    full = [s for s in walk(changed.body) if isinstance(s, For) and s.kind == "unrolled"]
    constant = [s for s in full if isinstance(s.lower, Literal) and isinstance(s.upper, Literal)]
    assert len(constant) == 1
    assert int(constant[0].upper.value) >= 4  # type: ignore[union-attr]


def test_what_is_not_understood_is_left_alone() -> None:
    for last in (least(literal(4), w * w), least(literal(4), w % 3 + 1), w + 1):
        original = kernel(literal(0), n, literal(0), last)
        assert cut_points(simplify_kernel(original)) == simplify_kernel(original)


def test_constant_points_need_no_cut() -> None:
    original = kernel(literal(0), n, literal(0), literal(4))
    assert cut_points(simplify_kernel(original)) == simplify_kernel(original)


def test_short_vectors_inside_other_loops() -> None:
    i, k = Var("i"), Var("k")
    lanes = For("k", most(literal(0), w - 3), least(literal(4), m), "vector", count_at(i, k))
    nest = For("w", literal(0), n, "serial", For("i", literal(0), m, "serial", lanes))
    original = Kernel("k", ("n", "m"), kernel(literal(0), n, literal(0), n).buffers, nest, ())
    changed = cut_points(original)
    verify_kernel(changed)
    full = [s for s in walk(changed.body) if isinstance(s, For) and s.kind == "vector"]
    assert any((s.lower, s.upper) == (literal(0), literal(4)) for s in full)
    for size in range(9):
        for other in (0, 1, 3, 4, 8):
            expected, actual = np.zeros((2, SIDE * SIDE), np.int64)
            interpret(original, {"n": size, "m": other}, {"x": expected})
            interpret(changed, {"n": size, "m": other}, {"x": actual})
            np.testing.assert_array_equal(actual, expected)


# ---- rows side by side, each behind the one before -----------------------------------------------

s = Var("s")


def rows(lower: Expr, upper: Expr) -> Kernel:
    """``s`` serial, rows ``p`` unrolled inside: row p is at column s - 2·p."""
    row = For("p", lower, upper, "unrolled", mark(1, p, s - p * 2))
    return marked_loops.kernel(For("s", literal(0), n + m, "serial", row))


SLANTS = {
    "both ends": rows(most(literal(0), (s - n + 2) // 2), least(literal(4), (s + 2) // 2)),
    "start": rows(literal(0), least(literal(4), (s + 2) // 2)),
    "end": rows(most(literal(0), (s - n + 2) // 2), literal(4)),
    "few rows": rows(most(literal(0), (s - n + 2) // 2), least(literal(4), m, (s + 2) // 2)),
}


@pytest.mark.parametrize("name", SLANTS)
def test_rows_that_all_run_are_written_out(name: str) -> None:
    before = SLANTS[name]
    after = cut_points(before)
    same(before, after)
    constant = [
        x for x in innermost(after) if isinstance(x.lower, Literal) and isinstance(x.upper, Literal)
    ]
    assert any(int(x.upper.value) - int(x.lower.value) == 4 for x in constant)  # type: ignore[union-attr]


def test_rows_without_an_end_are_left_alone() -> None:
    before = rows(literal(0), (s + 2) // 2)
    after = cut_points(before)
    same(before, after)
    assert len(innermost(after)) == 1


def test_rows_within_rows_are_left_alone() -> None:
    """Where the inner rows are full depends on the outer row, which nothing in front knows."""
    q = Var("q")
    lower = most(literal(0), s * -2 - q + 1)
    inner = For("p", lower, literal(2), "unrolled", mark(1, p, q, s))
    upper = least(literal(2), (n + 1) // 2 - s * 2)
    outer = For("q", literal(0), upper, "unrolled", inner)
    before = marked_loops.kernel(For("s", literal(0), n + 1, "serial", outer))
    same(before, cut_points(before))
