"""isl objects mean what the Scop's expressions mean, whatever names the user chose."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import islpy as isl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ir.test_quasi_affine import expressions
from tests.polyhedral.scops import (
    Constraint,
    Statement,
    Var,
    at,
    box,
    evaluate,
    instances,
    scop,
    statement,
    tensor,
)
from weft.ir import named_isl
from weft.ir.errors import CompileError
from weft.ir.quasi_affine import affine
from weft.ir.scalar_expr import Expr, Load, literal
from weft.ir.scop import Access

i, j, n = Var("i"), Var("j"), Var("n")


def points_of(points: isl.Set) -> set[tuple[int, ...]]:
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
    found = points_of(named_isl.domain_set(scop((tensor("A", 7),), small), small))
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
    assert points_of(read.domain()) == {(2,), (3,), (4,), (5,)}
    assert points_of(read.range()) == {(1,), (3,), (5,), (7,)}


def test_may_access_touches_what_its_subscripts_allow() -> None:
    data = Load(0, (), literal(0).dtype)
    small = _small(box(i=2), Access("A", (), may=True, body_indices=(data, i + 1)))
    read = named_isl.access_map(scop((tensor("A", 3, 4),), small), small, small.reads[0])
    assert points_of(read.wrap().flatten()) == {(k, a, k + 1) for k in range(2) for a in range(3)}


def test_dimensions_come_and_go() -> None:
    small = _small(box(i=3, j=(i, 4)), dims=("i", "j"))
    points = named_isl.domain_set(scop((tensor("A", 3),), small), small)
    assert points_of(named_isl.projected(points, ("i", "j"), ("j",))) == {(k,) for k in range(4)}
    outer = named_isl.shortened(points, 1)
    assert points_of(outer) == {(k,) for k in range(3)}
    times = named_isl.with_first(named_isl.to_constants(outer, (7, 8)), 6)
    assert points_of(times.range()) == {(6, 7, 8)} and named_isl.target_rank(times) == 3
    pairs = isl.Map.from_domain_and_range(points, points)
    equal = named_isl.where_equal(named_isl.where_less(pairs, 0, 0), 1, 1)
    assert points_of(equal.wrap().flatten()) == {
        (a, b, c, b) for c in range(3) for a in range(c) for b in range(c, 4)
    }
    twice = isl.Map("{ [a, b] -> [c, d] : 0 <= a, b, c, d < 3 and a = 2b }")
    texts = ("a = 0 and c = 0 and b = 0 and d = 0", "a = 2 and b = 1 and c = 2 and d = 1")
    same = isl.Map("{ [a, b] -> [c, d] : " + " or ".join(f"({text})" for text in texts) + " }")
    assert named_isl.where_same(twice, (0, 1)) == same
    assert named_isl.where_different(twice, (0, 1)) == twice.subtract(same)
    assert named_isl.whoever_first(twice, 0) == isl.Set("{ [a, b] : 0 <= b <= 1 }")


def test_which_sizes_are_bounded() -> None:
    limits = (Constraint(9 - n), Constraint(n), Constraint(Var("m") - n))
    whole = replace(scop((), parameters=("n", "m")), context=limits)
    sizes = named_isl.context_set(whole)
    assert named_isl.parameter_is_bounded(sizes, 0)
    assert not named_isl.parameter_is_bounded(sizes, 1)


def test_scalars_and_statements_without_dims() -> None:
    one = statement("one", (), at("A"), (at("A"),))
    whole = scop((tensor("A"),), one)
    assert points_of(named_isl.domain_set(whole, one)) == {()}
    assert not named_isl.access_map(whole, one, one.reads[0]).is_empty()


def test_names_of_users_never_clash() -> None:
    hostile = "a]; {#include <b>\n'\""
    both = statement(hostile, box(i=(0, Var(hostile))), at(hostile, i), dims=("i",))
    whole = scop((tensor(hostile, Var(hostile)),), both, parameters=(hostile,))
    assert not named_isl.access_map(whole, both, both.writes[0]).is_empty()
    values, point = named_isl.sample(named_isl.domain_set(whole, both)) or ({}, ())
    assert point[0] < values[hostile]


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
