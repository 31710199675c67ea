"""Closed bounds against enumeration."""

from __future__ import annotations

import pytest

from tests.polyhedral.scops import at, box, evaluate, instances, scop, statement, tensor
from weft.ir.scalar_expr import Expr, Var, literal
from weft.ir.scop import Constraint, Scop, Statement
from weft.polyhedral.analysis.bounds import bounds

i, j, n, m = (Var(name) for name in "ijnm")
Case = tuple[tuple[Constraint, ...], Expr]


def made(
    domain: tuple[Constraint, ...], dims: tuple[str, ...] = ("i", "j")
) -> tuple[Scop, Statement]:
    s = statement("s", domain, at("Y", 0), dims=dims)
    context = (Constraint(n), Constraint(m))
    return scop((tensor("Y", 1, role="output"),), s, parameters=("n", "m"), context=context), s


CASES: dict[str, Case] = {
    "box": (box(i=n, j=m), i),
    "tile": (box(i=n, j=m), i // 4),
    "difference": (box(i=n, j=m), i - j),
    "triangle": ((*box(i=n), Constraint(j - i), Constraint(n - 1 - j)), j - i),
    "inner": (box(i=(2, n - 1), j=m), i),
    "both": ((*box(i=n, j=m), Constraint(i - j)), j),
    "below zero": (box(i=(-n, 2), j=1), i),
    "fixed": (box(i=7, j=3), 2 * i + j),
}


@pytest.mark.parametrize("case", CASES)
def test_bounds(case: str) -> None:
    domain, value = CASES[case]
    of, s = made(domain)
    found = bounds(of, [(s, value)])
    zero = bounds(of, [(s, value)], from_zero=True)
    assert found is not None and zero is not None
    for sizes in ({"n": 0, "m": 0}, {"n": 5, "m": 3}, {"n": 3, "m": 7}):
        values = [evaluate(value, point) for point in instances(s, sizes, -8, 9)]
        low, high, size = (evaluate(e, sizes) for e in (found.lower, found.upper, found.size))
        assert size >= max(0, high - low + 1)
        if values:
            assert low <= min(values) and max(values) <= high
        if sizes["n"] == 5:
            assert max(values) == high or case in ("both",)
        if isinstance(zero.lower, type(literal(0))):
            assert evaluate(zero.lower, sizes) <= 0


def test_several_statements() -> None:
    of, s = made(box(i=n, j=m))
    found = bounds(of, [(s, i), (s, j)])
    assert found is not None
    assert evaluate(found.upper, {"n": 9, "m": 2}) >= 8
    assert evaluate(found.upper, {"n": 2, "m": 9}) >= 8


def test_the_bound_of_a_loop_may_be_anything() -> None:
    """A number of the caller's, which nothing says is not negative, is no size of storage."""
    s = statement("s", box(i=n), at("Y", 0), dims=("i",))
    of = scop((tensor("Y", 1, role="output"),), s, parameters=("n",))
    assert bounds(of, [(s, i)]) is None
    found = bounds(of, [(s, i)], stored=False)
    assert found is not None and evaluate(found.size, {"n": 7}) == 7


def test_no_bounds() -> None:
    of, s = made((Constraint(i), Constraint(j), Constraint(m - j)))
    assert bounds(of, [(s, i)]) is None
    nothing = bounds(of, [])
    assert nothing is not None and evaluate(nothing.size, {}) == 0
