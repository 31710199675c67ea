"""Budgets of isl: one error wherever they end, and the context works afterwards."""

from __future__ import annotations

import islpy as isl
import pytest

from tests.polyhedral.scops import (
    Constraint,
    Statement,
    Var,
    at,
    box,
    scop,
    statement,
    tensor,
)
from weft.ir import named_isl
from weft.ir.errors import BudgetError
from weft.ir.isl_context import bounded

i = Var("i")


def small(domain: tuple[Constraint, ...]) -> Statement:
    return statement("S", domain, at("A", i))


def test_budget_is_an_error_and_the_context_recovers() -> None:
    one = small(box(i=1000, j=i))
    whole = scop((tensor("A", 1000),), one)
    with pytest.raises(BudgetError) as caught, bounded(5, "counting"):
        named_isl.domain_set(whole, one).lexmin().is_empty()
    assert caught.value.code == "WEFT-E0400"
    assert "counting" in str(caught.value)
    assert not named_isl.domain_set(whole, one).is_empty()


@pytest.mark.parametrize("operations", range(1, 40, 3))
def test_wherever_the_budget_ends_the_error_is_the_same(operations: int) -> None:
    """isl reports an exhausted quota in several ways; all of them are one error here."""
    whole = scop((tensor("A", 1000),), small((*box(i=1000), Constraint(i % 7))))
    with pytest.raises(BudgetError), bounded(operations):
        named_isl.domain_set(whole, whole.statements[0]).complement().coalesce().lexmin()


def test_an_inner_budget_cannot_raise_the_outer_one() -> None:
    one = small(box(i=1000, j=i))
    whole = scop((tensor("A", 1000),), one)
    with pytest.raises(BudgetError), bounded(5), bounded(10**9):
        named_isl.domain_set(whole, one).lexmin().is_empty()


def test_other_isl_errors_are_not_called_budget() -> None:
    space = named_isl.tuple_space(scop(()), "S", 1)
    with pytest.raises(isl.Error), bounded():
        isl.Set.universe(space).intersect(isl.Set.universe(named_isl.tuple_space(scop(()), "T", 2)))
