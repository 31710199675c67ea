"""isl objects mean what the Scop's expressions mean, whatever names the user chose."""

from __future__ import annotations

from itertools import product

import islpy as isl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.polyhedral.analysis.test_quasi_affine import expressions
from tests.polyhedral.scops import (
    Band,
    Constraint,
    Leaf,
    Sequence,
    Statement,
    Var,
    at,
    box,
    evaluate,
    instances,
    loop,
    scop,
    statement,
    tensor,
)
from weft.errors import BudgetError, CompileError
from weft.frontend.scalar_expr import Expr, literal
from weft.polyhedral import named_isl
from weft.polyhedral.analysis.quasi_affine import affine
from weft.polyhedral.scop import Access

i, j, n = Var("i"), Var("j"), Var("n")


def _points(points: isl.Set) -> set[tuple[int, ...]]:
    found = set()
    while (one := named_isl.sample(points)) is not None:
        found.add(one[1])
        space = points.get_space()
        here = [Constraint(Var(f"d{k}") - value, equality=True) for k, value in enumerate(one[1])]
        names = [f"d{k}" for k in range(len(one[1]))]
        points = points.subtract(isl.Set(named_isl.constrained(space, names, here)))
    return found


def _small(
    domain: tuple[Constraint, ...], *reads: Access, dims: tuple[str, ...] | None = None
) -> Statement:
    return statement("S", domain, at("A", i), reads, dims=dims)


@given(st.text(max_size=12), st.text(max_size=12))
def test_identifiers_are_c_identifiers_one_to_one(a: str, b: str) -> None:
    first, second = named_isl.encode("S", a), named_isl.encode("S", b)
    assert first.isascii() and first.isidentifier()
    assert named_isl.decode(first) == a
    assert (first == second) == (a == b)


@given(expressions)
def test_expressions_survive_the_way_through_isl(expr: Expr) -> None:
    space = named_isl.tuple_space(scop(()), "S", 2)
    aff = named_isl.to_aff(expr, ("i", "j"), space)
    back = named_isl.from_aff(aff, ("i", "j"))
    for a, b in product(range(-7, 8, 3), repeat=2):
        env = {"i": a, "j": b}
        assert evaluate(back, env) == evaluate(expr, env)


def test_numbers_beyond_64_bits_are_exact() -> None:
    space = named_isl.tuple_space(scop(()), "S", 1)
    form = affine(i).scaled(2**70)
    assert named_isl.affine_of(named_isl.to_aff(form, ("i",), space), ("i",)) == form


def test_domain_has_exactly_the_instances() -> None:
    domain = (*box(i=7, j=(1, i + 1)), Constraint((i + 2 * j) % 3, equality=True))
    small = _small(domain)
    found = _points(named_isl.domain_set(scop((tensor("A", 7),), small), small))
    assert found == {(e["i"], e["j"]) for e in instances(small, {})}
    assert len(found) > 3


def test_constraints_come_back_from_a_set() -> None:
    domain = (*box(i=9, j=(1, n)), Constraint((i + 2 * j) % 3 - 1), Constraint(i - j - i // 2))
    small = _small(domain, dims=("i", "j"))
    whole = scop((tensor("A", 9),), small, parameters=("n",))
    [basic] = named_isl.domain_set(whole, small).get_basic_sets()
    again = named_isl.constraints_of(basic, small.dims)
    space = named_isl.statement_space(whole, small)
    assert isl.Set(named_isl.constrained(space, small.dims, again)).is_equal(
        named_isl.domain_set(whole, small)
    )


def test_access_is_restricted_to_domain_and_guard() -> None:
    small = _small(box(i=6), at("A", 2 * i - 3, guard=(Constraint(2 * i - 3),)))
    read = named_isl.access_map(scop((tensor("A", 7),), small), small, small.reads[0])
    assert _points(read.domain()) == {(2,), (3,), (4,), (5,)}
    assert _points(read.range()) == {(1,), (3,), (5,), (7,)}


def test_may_access_touches_the_whole_tensor() -> None:
    small = _small(box(i=2), Access("A", (), may=True, body_indices=(literal(0),)))
    read = named_isl.access_map(scop((tensor("A", 3),), small), small, small.reads[0])
    assert _points(read.wrap().flatten()) == set(product(range(2), range(3)))


def test_scalars_and_statements_without_dims() -> None:
    one = statement("one", (), at("A"), (at("A"),))
    whole = scop((tensor("A"),), one)
    assert _points(named_isl.domain_set(whole, one)) == {()}
    assert not named_isl.access_map(whole, one, one.reads[0]).is_empty()


def test_names_of_users_never_clash() -> None:
    hostile = "a]; {#include <b>\n'\""
    both = statement(hostile, box(i=(0, Var(hostile))), at(hostile, i), dims=("i",))
    whole = scop((tensor(hostile, Var(hostile)),), both, parameters=(hostile,))
    assert not named_isl.access_map(whole, both, both.writes[0]).is_empty()
    values, point = named_isl.sample(named_isl.domain_set(whole, both)) or ({}, ())
    assert point[0] < values[hostile]


def test_schedule_orders_as_the_tree_says() -> None:
    first = statement("F", box(i=4), at("A", i))
    second = statement("G", box(i=4), at("A", i))
    whole = scop((tensor("A", 4),), first, second)
    tree = Band((loop("t", F=i // 2, G=i // 2),), Sequence((
        Band((loop("p", F=i % 2),), Leaf("F")),
        Band((loop("q", G=3 - i),), Leaf("G")),
    )))  # fmt: skip
    times = named_isl.schedule_map(whole, tree)
    rows = {}
    for name in ("F", "G"):
        domain = named_isl.domain_set(whole, whole.statement(name))
        part = times.intersect_domain(domain.to_union_set())
        for row in _points(isl.Map.from_union_map(part).wrap().flatten()):
            rows[name, row[0]] = row[1:]
    assert sorted(rows, key=lambda key: rows[key]) == [
        ("F", 0), ("F", 1), ("G", 1), ("G", 0), ("F", 2), ("F", 3), ("G", 3), ("G", 2),
    ]  # fmt: skip


def test_budget_is_an_error_and_the_context_recovers() -> None:
    small = _small(box(i=1000, j=i))
    whole = scop((tensor("A", 1000),), small)
    with pytest.raises(BudgetError) as caught, named_isl.bounded(5, "counting"):
        named_isl.domain_set(whole, small).lexmin().is_empty()
    assert caught.value.code == "WEFT-E0400"
    assert "counting" in str(caught.value)
    assert not named_isl.domain_set(whole, small).is_empty()


@pytest.mark.parametrize("operations", range(1, 40, 3))
def test_wherever_the_budget_ends_the_error_is_the_same(operations: int) -> None:
    """isl reports an exhausted quota in several ways; all of them are one error here."""
    whole = scop((tensor("A", 1000),), _small((*box(i=1000), Constraint(i % 7))))
    with pytest.raises(BudgetError), named_isl.bounded(operations):
        named_isl.domain_set(whole, whole.statements[0]).complement().coalesce().lexmin()


def test_an_inner_budget_cannot_raise_the_outer_one() -> None:
    small = _small(box(i=1000, j=i))
    whole = scop((tensor("A", 1000),), small)
    with pytest.raises(BudgetError), named_isl.bounded(5), named_isl.bounded(10**9):
        named_isl.domain_set(whole, small).lexmin().is_empty()


def test_other_isl_errors_are_not_called_budget() -> None:
    space = named_isl.tuple_space(scop(()), "S", 1)
    with pytest.raises(isl.Error), named_isl.bounded():
        isl.Set.universe(space).intersect(isl.Set.universe(named_isl.tuple_space(scop(()), "T", 2)))


def test_data_dependent_index_is_refused() -> None:
    space = named_isl.tuple_space(scop(()), "S", 2)
    with pytest.raises(CompileError):
        named_isl.to_aff(i * j, ("i", "j"), space)


def test_constraints_of_nothing_never_hold() -> None:
    nothing = _small((*box(i=5), Constraint(i - 9)), dims=("i",))
    whole = scop((tensor("A", 5),), nothing)
    space = named_isl.statement_space(whole, nothing)
    again = named_isl.constraints_of(isl.BasicSet.empty(space), nothing.dims)
    assert isl.Set(named_isl.constrained(space, nothing.dims, again)).is_empty()
