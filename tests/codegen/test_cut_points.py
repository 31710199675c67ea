"""Loops around short point loops are cut where these are full, and still do the same."""

from __future__ import annotations

import numpy as np
import pytest

from weft import dtypes
from weft.codegen.cut_points import cut_points
from weft.codegen.loop_interpreter import interpret
from weft.codegen.loop_ir import Buffer, For, Kernel, Stmt, Update, walk
from weft.codegen.loop_verifier import verify_kernel
from weft.frontend.build import monoid
from weft.frontend.scalar_expr import Expr, Literal, Var, apply, literal

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
        assert cut_points(original) is original


def test_constant_points_need_no_cut() -> None:
    original = kernel(literal(0), n, literal(0), literal(4))
    assert cut_points(original) is original


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
