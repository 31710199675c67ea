"""What isl says of the last writes is believed only where it is right."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import islpy as isl
import pytest

from tests.polyhedral.example_scops import gemm
from tests.properties.random_scops import random_scop
from weft.ir.errors import BudgetError
from weft.ir.isl_context import CONTEXT, bounded
from weft.ir.scop import Scop
from weft.polyhedral.proof import last_writes as module
from weft.polyhedral.proof.flow import flow
from weft.polyhedral.proof.last_writes import Answer, Uses, last_writes


def union(text: str) -> isl.UnionMap:
    return isl.UnionMap(text, context=CONTEXT)


USES = Uses(
    union("[n] -> { R[i] -> A[i] : 0 <= i < n }"),
    union("[n] -> { W[j, i] -> A[i] : 0 <= j < 3 and 1 <= i < n }"),
    union("[n] -> { C[j, i] -> A[i] : 0 <= j < 5 and 0 <= i < n }"),
    union("{ R[i] -> [9, i, 0]; W[j, i] -> [j, i, 0]; C[j, i] -> [j, i, 1] }"),
)
RIGHT = Answer(
    union(
        "[n] -> { W[2, i] -> [R[i] -> A[i]] : 1 <= i < n;"
        " C[j, i] -> [R[i] -> A[i]] : 2 <= j < 5 and 1 <= i < n;"
        " C[j, 0] -> [R[0] -> A[0]] : 0 <= j < 5 and n > 0 }"
    ),
    union("[n] -> { R[0] -> A[0] : n > 0 }"),
)
WRONG = {
    "an earlier write": Answer(
        union(
            "[n] -> { W[1, i] -> [R[i] -> A[i]] : 1 <= i < n;"
            " C[j, i] -> [R[i] -> A[i]] : 1 <= j < 5 and 1 <= i < n;"
            " C[j, 0] -> [R[0] -> A[0]] : 0 <= j < 5 and n > 0 }"
        ),
        RIGHT.initial,
    ),
    "an earlier write for one size": Answer(
        RIGHT.seen.subtract(union("[n] -> { W[2, 3] -> [R[3] -> A[3]] : n = 7 }")).union(
            union("[n] -> { W[1, 3] -> [R[3] -> A[3]] : n = 7 }")
        ),
        RIGHT.initial,
    ),
    "a write too many": Answer(
        RIGHT.seen.union(union("[n] -> { W[1, 1] -> [R[1] -> A[1]] : n > 1 }")), RIGHT.initial
    ),
    "a write of another element": Answer(
        RIGHT.seen.union(union("[n] -> { W[2, 2] -> [R[1] -> A[1]] : n > 2 }")), RIGHT.initial
    ),
    "a contribution that is hidden": Answer(
        RIGHT.seen.union(union("[n] -> { C[1, 1] -> [R[1] -> A[1]] : n > 1 }")), RIGHT.initial
    ),
    "a contribution less": Answer(
        RIGHT.seen.subtract(union("[n] -> { C[3, 1] -> [R[1] -> A[1]] : n > 1 }")), RIGHT.initial
    ),
    "a read less": Answer(
        RIGHT.seen.subtract(union("[n] -> { W[2, 1] -> [R[1] -> A[1]] : n > 1 }")), RIGHT.initial
    ),
    "an initial element less": Answer(RIGHT.seen, union("[n] -> { }")),
    "an initial element that is written": Answer(
        RIGHT.seen, RIGHT.initial.union(union("[n] -> { R[1] -> A[1] : n > 1 }"))
    ),
}


def _equal(one: Answer, other: Answer) -> bool:
    return bool(one.seen.is_equal(other.seen) and one.initial.is_equal(other.initial))


def test_the_last_write_and_all_contributions_since() -> None:
    assert _equal(last_writes(USES), RIGHT)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_answer_is_not_believed(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_by_analysis", lambda *_: WRONG[wrong])
    assert _equal(last_writes(USES), RIGHT)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_program_is_refused_where_all_answers_are_wrong(
    wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for find in ("_by_analysis", "_by_difference"):
        monkeypatch.setattr(module, find, lambda *_: WRONG[wrong])
    with pytest.raises(BudgetError) as caught:
        last_writes(USES)
    assert caught.value.code == "WEFT-E0402"


def _asked(of: Scop) -> Iterator[Uses]:
    """What the flow of ``of`` asks for."""
    asked: list[Uses] = []

    def noted(uses: Uses) -> Answer:
        asked.append(uses)
        return last_writes(uses)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("weft.polyhedral.proof.flow.last_writes", noted)
        flow(of, folds=lambda s: s.update is not None)
    yield from asked


@pytest.mark.parametrize("seed", range(12))
def test_both_ways_find_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for uses in _asked(random_scop(Random(seed))):
        with bounded():
            one = last_writes(uses)
            with monkeypatch.context() as patch:
                patch.setattr(module, "_by_analysis", lambda *_: None)
                assert _equal(last_writes(uses), one)


def test_where_isl_fails_differences_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """isl fails on some programs with floors (`fuzz --only 902816`)."""
    wanted = flow(gemm())

    def fail(problem: isl.UnionAccessInfo) -> isl.UnionFlow:
        raise isl.Error(f"call to isl_union_access_info_compute_flow failed: {module.UNDECIDED}")

    monkeypatch.setattr(isl.UnionAccessInfo, "compute_flow", fail)
    found = flow(gemm())
    assert found.sources.keys() == wanted.sources.keys()
    for read, sources in wanted.sources.items():
        assert found.sources[read].is_equal(sources)


@pytest.mark.parametrize("wrong", ["a read less", "an initial element less"])
def test_no_read_is_lost_where_the_check_takes_too_long(
    wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHECK", 1)
    monkeypatch.setattr(module, "_by_analysis", lambda *_: RIGHT)
    monkeypatch.setattr(module, "_by_difference", lambda *_: WRONG[wrong])
    assert last_writes(USES) is RIGHT
    monkeypatch.undo()
    monkeypatch.setattr(module, "CHECK", 1)
    monkeypatch.setattr(module, "_by_analysis", lambda *_: WRONG[wrong])
    assert _equal(last_writes(USES), RIGHT)
