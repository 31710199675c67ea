"""Dependences are exactly the conflicting pairs of instances, in the initial order."""

from __future__ import annotations

from random import Random

import islpy as isl
import pytest

from tests.polyhedral.example_scops import gemm, lstm, softmax
from tests.polyhedral.scops import SUM, Constraint, Var, at, box, scop, statement, tensor
from tests.properties.brute_force import all_parameters, conflicts
from tests.properties.random_scops import random_scop
from weft.ir import dtypes
from weft.ir.named_isl import constrained, domain_set
from weft.ir.scalar_expr import Load, literal
from weft.ir.scop import Access, Scop
from weft.ir.tensor_expr import Monoid
from weft.polyhedral.proof.dependences import dependences, reassociable

i, j, k, n, t = (Var(name) for name in "ijknt")


def pairs_of(
    of: Scop, parameters: dict[str, int], *, implied: bool = True
) -> set[tuple[object, ...]]:
    found: set[tuple[object, ...]] = set()
    for d in dependences(of, implied=implied):
        here = tuple(Constraint(Var(p) - v, equality=True) for p, v in parameters.items())
        fixed = d.map.intersect_params(
            isl.Set(constrained(domain_set(of, d.source).params().get_space(), (), here)).params()
            if here
            else d.map.params()
        )
        split = len(d.source.dims)
        flat = fixed.wrap().flatten()
        points: list[isl.Point] = []
        flat.foreach_point(points.append)
        for point in points:
            values = tuple(
                point.get_coordinate_val(isl.dim_type.set, q).to_python()
                for q in range(flat.dim(isl.dim_type.set))
            )
            found.add((d.source.name, values[:split], d.sink.name, values[split:], d.reduction))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_random_scops_against_enumeration(seed: int) -> None:
    of = random_scop(Random(seed))
    for parameters in all_parameters(of):
        expected = {(*a.instance, *b.instance): free for a, b, free in conflicts(of, parameters)}
        found = pairs_of(of, parameters)
        assert {pair[:4] for pair in found} == set(expected)
        for pair, free in expected.items():
            kinds = {p[4] for p in found if p[:4] == pair}
            assert kinds == {True} if free else False in kinds


def _described(of: Scop) -> list[str]:
    return [str(d) for d in dependences(of)]


def test_kinds_and_order_are_deterministic() -> None:
    assert _described(gemm(8)) == [
        "flow init -> mac on C",
        "flow mac -> mac on C, reduction",
    ]
    assert _described(softmax(4, 4)) == [
        "flow m0 -> m1 on m",
        "flow m0 -> exp on m",
        "flow m1 -> m1 on m, reduction",
        "flow m1 -> exp on m",
        "flow exp -> d1 on E",
        "flow exp -> div on E",
        "flow d0 -> d1 on d",
        "flow d0 -> div on d",
        "flow d1 -> d1 on d, reduction",
        "flow d1 -> div on d",
    ]


def test_in_place_has_anti_and_output_dependences() -> None:
    whole = scop(
        (tensor("A", 8),),
        statement("read", box(i=7), at("A", i), (at("A", i + 1),)),
        statement("over", box(i=8), at("A", i), position=1),
    )
    assert _described(whole) == [
        "anti read -> read on A",
        "anti read -> over on A",
        "output read -> over on A",
    ]


def test_a_scan_depends_on_its_last_step() -> None:
    kinds = {str(d): d for d in dependences(lstm(4, 2))}
    step = kinds["flow c1 -> c1 on c"].map
    assert step.is_equal(isl.Map("{ S_c1[t, i] -> S_c1[t + 1, i] : 0 <= t <= 2 and 0 <= i <= 1 }",
                                 context=step.get_ctx()))  # fmt: skip


_ORDERED = Monoid(SUM.name, SUM.left, SUM.right, SUM.combined, SUM.identity, frozenset())


@pytest.mark.parametrize("laws", [frozenset(), {"associative"}, {"commutative"}])
def test_a_monoid_without_its_laws_keeps_its_order(laws: frozenset[str]) -> None:
    monoid = Monoid("m", SUM.left, SUM.right, SUM.combined, SUM.identity, frozenset(laws))
    fold = statement("f", box(i=4, k=4), at("A", i), reduce=("k",), monoid=monoid)
    assert [d.reduction for d in dependences(scop((tensor("A", 4),), fold))] == [False]


def test_only_reduction_dims_are_free() -> None:
    """A[i + r]: the same element is folded into from several i, which the update does not name."""
    fold = statement("f", box(i=4, r=2), at("A", i + Var("r")), reduce=("r",))
    whole = scop((tensor("A", 5),), fold)
    assert [d.reduction for d in dependences(whole)] == [False]


def test_an_update_that_reads_what_it_folds_into_keeps_that_order() -> None:
    fold = statement("f", box(i=4, k=4), at("A", i), (at("A", 3 - i),), reduce=("k",))
    assert False in [d.reduction for d in dependences(scop((tensor("A", 4),), fold))]


def test_components_must_stay_together() -> None:
    """(A[i], B[k]) cannot be folded in any order: B's elements would meet different A's."""
    together = statement("f", box(i=4, k=4), (at("A", i), at("B", i)), reduce=("k",))
    apart = statement("f", box(i=4, k=4), (at("A", i), at("B", k)), reduce=("k",))
    assert reassociable(together)
    assert not reassociable(apart)


def test_statements_that_share_an_access_are_not_one_update() -> None:
    """for k, i: A[i] += …; A[i] = 0, both by the very same access: their order is not free."""
    shared = at("A", i)
    fold = statement("f", box(k=4, i=4), shared, position=(0, "k", 0, "i", 0), reduce=("k",))
    zero = statement("z", box(k=4, i=4), shared, position=(0, "k", 0, "i", 1))
    found = dependences(scop((tensor("A", 4),), fold, zero))
    assert {str(d) for d in found if d.source is not d.sink} == {
        "output f -> z on A", "flow z -> f on A",
    }  # fmt: skip


def test_a_read_of_what_is_folded_into_is_no_fold() -> None:
    shared = at("A", i)
    fold = statement("f", box(i=4, k=4), shared, (shared,), reduce=("k",))
    found = [(d.kind, d.reduction) for d in dependences(scop((tensor("A", 4),), fold))]
    assert found == [("anti", False), ("flow", False), ("flow", True)]


def test_components_in_one_element_are_not_free() -> None:
    twice = statement("f", box(i=4, k=4), (at("A", i), at("A", i)), reduce=("k",))
    assert not reassociable(twice)


def test_data_leave_the_other_subscripts_as_they_are() -> None:
    """B[i, w] with w from data: any element of row i, and of no other."""
    known = Access(
        "B", (literal(0), literal(0)), may=True, body_indices=(i, Load(0, (), dtypes.int64))
    )
    write = statement("w", box(i=4, j=3), at("B", i, j), dims=("i", "j"))
    read = statement("r", box(i=4), at("C", i), (at("A", i), known), dims=("i",), position=1)
    whole = scop((tensor("A", 4), tensor("B", 4, 3), tensor("C", 4)), write, read)
    assert [d.kind for d in dependences(whole)] == ["flow"]
    rows = {(pair[1][0], pair[3][0]) for pair in pairs_of(whole, {})}  # type: ignore[index]
    assert rows == {(row, row) for row in range(4)} and len(pairs_of(whole, {})) == 4 * 3


def test_context_rules_out_pairs() -> None:
    write = statement("w", box(i=4), at("A", i), dims=("i",))
    read = statement("r", box(i=4), at("B", i), (at("A", i + n),), dims=("i",), position=1)
    tensors = (tensor("A", 99), tensor("B", 4))
    far = scop(tensors, write, read, parameters=("n",), context=(Constraint(n - 4),))
    near = scop(tensors, write, read, parameters=("n",), context=(Constraint(n - 3),))
    assert dependences(far) == ()
    assert _described(near) == ["flow w -> r on A"]


def test_asking_again_gives_the_same_objects() -> None:
    of = gemm(8)
    assert dependences(of) is dependences(of)
