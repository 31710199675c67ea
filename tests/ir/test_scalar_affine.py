"""Quasi-affine forms equal the expressions they come from, by brute force, negatives included."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.ir import dtypes
from weft.ir import scalar_affine as affine
from weft.ir.scalar_expr import Apply, Expr, Load, Var, apply, cast, literal, select, walk
from weft.ir.scalar_interpreter import evaluate
from weft.ir.scalar_simplify import simplify

i, j, k, n = (Var(name) for name in "ijkn")


@st.composite
def expressions(draw, depth=4, quasi_affine=True):
    kind = draw(st.integers(0, 7 if quasi_affine else 10)) if depth else 0
    inner = expressions(depth=depth - 1, quasi_affine=quasi_affine)
    if kind <= 1:
        return draw(st.sampled_from([i, j, k, literal(draw(st.integers(-9, 9)))]))
    if kind in (2, 3, 4):
        op = draw(st.sampled_from(["add", "sub"]))
        return apply(op, draw(inner), draw(inner))
    if kind == 5:
        return draw(inner) * draw(st.integers(-6, 6))
    if kind in (6, 7):
        op = draw(st.sampled_from(["floordiv", "mod"]))
        return apply(op, draw(inner), literal(draw(st.integers(-6, 12))))
    if kind == 8:
        return select(draw(inner) < draw(inner), draw(inner), draw(inner))
    op = draw(st.sampled_from(["min", "max", "mul", "floordiv", "mod"]))
    return apply(op, draw(inner), draw(inner))


@st.composite
def boxes(draw):
    found = {}
    for name in "ijk":
        low = draw(st.integers(-8, 8))
        found[name] = (low, low + draw(st.integers(0, 8)))
    return found


def points(box):
    grid = itertools.product(*(range(low, high + 1) for low, high in box.values()))
    columns = np.array(list(grid), np.int64).T
    return dict(zip(box, columns, strict=True))


def values(expr, at):
    return np.broadcast_to(evaluate(expr, at), at["i"].shape)


@settings(max_examples=300)
@given(expressions(), boxes())
def test_normal_forms_have_the_same_value(expr, box):
    at = points(box)
    plain, known = affine.to_affine(expr), affine.to_affine(expr, box)
    assert plain is not None and known is not None
    np.testing.assert_array_equal(values(affine.to_expr(plain), at), values(expr, at))
    np.testing.assert_array_equal(values(affine.to_expr(known), at), values(expr, at))


@settings(max_examples=300)
@given(expressions(quasi_affine=False), boxes())
def test_simplified_expressions_have_the_same_value_and_bounds_hold(expr, box):
    at = points(box)
    expected = values(expr, at)
    np.testing.assert_array_equal(values(simplify(expr, box), at), expected)
    low, high = affine.bounds(expr, box)
    assert low is None or low <= expected.min()
    assert high is None or high >= expected.max()


@settings(max_examples=100)
@given(st.lists(st.integers(-5, 5), min_size=4, max_size=4), boxes())
def test_bounds_of_linear_forms_are_exact(weights, box):
    a, b, c, d = weights
    expr = i * a + j * b + k * c + d
    found = values(expr, points(box))
    assert affine.bounds(expr, box) == (found.min(), found.max())


def test_forms_that_are_known_are_those_of_this_expression_without_ranges(monkeypatch):
    """More expressions than are remembered, of which all but one go at once."""
    monkeypatch.setattr(affine, "_KNOWN", 3)
    x = Var("x")
    kept = x // 4 + 1
    assert affine.to_affine(kept, {"x": (0, 3)}) == affine.Affine((), 1)
    for k in range(2, 20):
        form = affine.to_affine(x * k + 1)
        assert form == affine.Affine((("x", k),), 1) == affine.to_affine(x * k + 1)
        assert str(affine.to_affine(kept)) == "x // 4 + 1"
        assert affine.to_affine(kept, {"x": (4, 7)}) == affine.Affine((), 2)


def test_what_is_not_quasi_affine():
    for expr in (i * j, i // j, i % (j + 1), apply("min", i, j), Load("x", (i,), dtypes.int64),
                 Var("x", dtypes.float32), i.astype("int32")):  # fmt: skip
        assert affine.to_affine(expr) is None


def test_long_sums_are_neither_deep_recursion_nor_quadratic():
    total: Expr = i
    for step in range(3000):
        total = total + j * (step % 3) - 1
    assert affine.to_affine(total) == affine.Affine((("i", 1), ("j", 3000 - 0)), -3000)
    assert sum(1 for _ in walk(simplify(total))) < 10
    assert isinstance(simplify(total), Apply)


@pytest.mark.parametrize("dtype", [dtypes.uint8, dtypes.int8, dtypes.uint16, dtypes.int32])
def test_what_is_loaded_stays_within_its_dtype(dtype):
    value = cast(Load("x", (i,), dtype), dtypes.int64)
    least, most = int(dtype.lowest), int(dtype.highest)
    assert affine.bounds(value, {}) == (least, most)
    for condition, holds in (
        (value >= least, True), (value < most + 1, True),
        (value > most, False), (value < least, False),
    ):  # fmt: skip
        assert simplify(condition) == literal(holds, dtypes.bool_)
    for open_ in (value >= least + 1, value < most, value + i >= least):
        assert simplify(open_) == open_
    wrapped = cast(Load("x", (i,), dtypes.uint64), dtypes.int64)  # may be anything
    assert simplify(wrapped >= 0) == (wrapped >= 0)
