"""Comparisons that known ones decide, against every value that their variables may have."""

from __future__ import annotations

import itertools

import pytest

from weft.codegen.conditions import implied, opposite, slack
from weft.ir import dtypes
from weft.ir.loop_ir import Store
from weft.ir.scalar_expr import Apply, Expr, Literal, Var, cast, literal, select
from weft.ir.scalar_interpreter import evaluate

i, n = Var("i"), Var("n")
COMPARISONS = [i >= 1, i > 0, i < 1, i <= 0, i >= 2, i < 3, i <= n - 2, i < n, i > n, i * 2 >= 2]
KNOWN = [(i >= 1,), (i < n - 1,), (i >= 1, i < n - 1), (i <= -2,)]


def _value(expr: Expr, values: dict[str, int]) -> int:
    return int(evaluate(expr, values))


@pytest.mark.parametrize("known", range(len(KNOWN)))
@pytest.mark.parametrize("asked", range(len(COMPARISONS)))
def test_what_is_decided_is_so_wherever_the_known_holds(known: int, asked: int) -> None:
    forms = [form for condition in KNOWN[known] if (form := slack(condition)) is not None]
    assert len(forms) == len(KNOWN[known])
    value = cast(select(COMPARISONS[asked], literal(1), literal(2)), dtypes.float64)
    after = implied(Store("x", (i,), value), forms)
    assert isinstance(after, Store)
    for a, b in itertools.product(range(-4, 7), repeat=2):
        values = {"i": a, "n": b}
        if all(_value(condition, values) for condition in KNOWN[known]):
            assert _value(after.value, values) == _value(value, values)


def test_the_same_stronger_and_contrary_comparisons_are_decided() -> None:
    known = [form for c in (i >= 1, i < n - 1) if (form := slack(c)) is not None]
    for condition, holds in ((i > 0, True), (i >= 0, True), (i < 1, False), (i >= n, False)):
        after = implied(Store("x", (i,), select(condition, literal(1), literal(2))), known)
        assert isinstance(after, Store)
        assert after.value == literal(1 if holds else 2)
    open_ = select(i >= 2, literal(1), literal(2))
    assert implied(Store("x", (i,), open_), known) == Store("x", (i,), open_)


def test_the_opposite_holds_exactly_where_the_comparison_does_not() -> None:
    for condition in COMPARISONS:
        other = opposite(condition)
        assert other is not None
        for a, b in itertools.product(range(-4, 7), repeat=2):
            assert _value(other, {"i": a, "n": b}) != _value(condition, {"i": a, "n": b})


def test_floats_have_no_opposite_comparison_because_of_nan() -> None:
    x = Var("x", dtypes.float64)
    assert opposite(x < 1.0) is None
    assert slack(x < 1.0) is None
    assert opposite(Apply("eq", (i, n))) is None
    assert isinstance(literal(1), Literal)
