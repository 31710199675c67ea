"""Reads through copies see what the copies see."""

from __future__ import annotations

import islpy as isl
import pytest

from tests.polyhedral.scops import Constraint, Var, at, box, scop, statement, tensor
from weft.ir.errors import BudgetError, IllegalScheduleError
from weft.ir.isl_context import bounded
from weft.ir.named_isl import sample_named
from weft.ir.scop import Access, Scop
from weft.polyhedral.proof import flow as analysis
from weft.polyhedral.proof.flow import Read, Seen, flow, instances, reads_of

i = Var("i")


def _scop() -> Scop:
    """p → T, the first half of T → L by copy, the rest of L from X; c reads L."""
    return scop(
        (tensor("X", 8, role="input"), tensor("T", 8), tensor("L", 8), tensor("Y", 8)),
        statement("p", box(i=8), at("T", i), position=0),
        statement("near", box(i=4), at("L", i), (at("T", i),), position=1),
        statement("far", box(i=(4, 8)), at("L", i), (at("X", i),), position=2),
        statement("c", box(i=8), at("Y", i), (at("L", i),), position=3),
    )


def test_what_is_behind_copies() -> None:
    of = _scop()
    with bounded():
        seen = Seen(of, flow(of), [of.statement("near"), of.statement("far")])
        behind = seen.by([Read("c", 0)])
        here = instances(of, [of.statement("p")])
        assert (
            behind.intersect_range(here)
            .domain()
            .is_equal(instances(of, [statement("c", box(i=4), at("Y", i))]))
        )
        rest = behind.subtract_range(here)
        kind, name, _, point = sample_named(rest.range())
        assert (kind, name) == ("A", "X") and point[0] >= 4
        direct = seen.directly([Read("c", 0)]).range()
        assert direct.is_equal(instances(of, [of.statement("near"), of.statement("far")]))


def test_a_copy_onto_itself() -> None:
    """Every instance sees the same element behind all those before it."""
    of = scop(
        (tensor("T", 8, role="input"),),
        statement("slide", box(i=7), at("T", i + 1), (at("T", i),)),
    )
    with bounded():
        behind = Seen(of, flow(of), of.statements).by([Read("slide", 0)])
        assert behind.domain().is_equal(instances(of, of.statements))
        kind, name, _, point = sample_named(behind.range())
        assert (kind, name, point) == ("A", "T", (0,))
        assert behind.range().is_equal(isl.UnionSet.from_point(behind.range().sample_point()))


def test_copies_in_turns_that_no_closed_form_describes() -> None:
    """i sees i // 3, and so on: in the end the first ternary digit of i."""
    of = thirds(3**39)
    with bounded(), pytest.raises(IllegalScheduleError) as caught:
        Seen(of, flow(of), of.statements)
    assert caught.value.code == "WEFT-E0443"


def test_following_copies_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quota around it may allow for much more."""
    monkeypatch.setattr(analysis, "CHAINS", 200)
    of = thirds(3**39)
    with bounded(), pytest.raises(BudgetError):
        Seen(of, flow(of), of.statements)


def test_short_chains_of_copies() -> None:
    of = thirds(3**4)
    with bounded():
        seen = Seen(of, flow(of), of.statements).by([Read("slide", 0)])
        assert seen.domain().is_equal(instances(of, of.statements))
        digits = set()
        while not seen.is_empty():
            first = isl.UnionSet.from_point(seen.range().sample_point())
            digits.add(sample_named(first)[3])
            seen = seen.subtract_range(first)
        assert digits == {(1,), (2,)}


def thirds(size: int) -> Scop:
    return scop(
        (tensor("T", size, role="input"),),
        statement("slide", box(i=(3, size)), at("T", i), (at("T", i // 3),)),
    )


def test_implicit_reads() -> None:
    anywhere = Access("Y", (), may=True)
    plain = statement("s", box(i=8), at("Y", i), (at("X", i),))
    update = statement("s", box(i=8), at("Y", i), (at("X", i),), reduce=("i",))
    scatter = statement("s", box(i=8), anywhere, (at("X", i, guard=(Constraint(i),)),))
    assert reads_of(plain, folds=False) == [Read("s", 0)]
    assert reads_of(update, folds=False) == [Read("s", 0), Read("s", 1)]
    assert reads_of(update, folds=True) == [Read("s", 0)]
    assert reads_of(scatter, folds=False) == [Read("s", 0), Read("s", 1)]
