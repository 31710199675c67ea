"""Which updates fold partial results, and which folds may be opened."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.transform.integer_programs import read
from weft.ir.scalar_expr import Load, literal
from weft.ir.scop import Body, Origin, Scop, Statement
from weft.polyhedral.proof.dependences import folding
from weft.polyhedral.proof.validation import is_identity, opened, why_not_combining
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.rfactor import rfactor
from weft.polyhedral.transform.tile import tile


def total(start: int = 0) -> Scop:
    return read(f"s[0] = {start}\nfor i in range(N):\n s[0] += A[i]", A="in N", s="out 1")


def factored() -> tuple[Scop, dict[str, Origin], frozenset[str]]:
    now = rfactor(tile(initial(total()), {"i": 4}), "S1", "i_t", name="P")
    origins = {s.name: s.origin for s in now.scop.statements if s.origin}
    return now.scop, origins, folding(now.original)


def judged(scop: Scop, origins: dict[str, Origin], folds: frozenset[str]) -> str:
    return why_not_combining(scop, scop.statement("finish_P"), origins, folds)


def changed(scop: Scop, statement: Statement) -> Scop:
    return replace(
        scop,
        statements=tuple(statement if s.name == statement.name else s for s in scop.statements),
    )


def test_partial_results() -> None:
    assert judged(*factored()) == ""


@pytest.mark.parametrize("which", ["start", "body", "updates", "plain", "role", "let"])
def test_what_is_none(which: str) -> None:
    scop, origins, folds = factored()
    finish, start, update = (scop.statement(n) for n in ("finish_P", "start_P", "S1"))
    assert finish.update is not None
    match which:
        case "start":
            scop, reason = changed(scop, replace(start, body=Body((), (literal(3),)))), "start_P"
        case "body":
            more = Body((), (Load(0, (), finish.body.results[0].dtype) + 1,))
            scop, reason = changed(scop, replace(finish, body=more)), "no bare partial results"
        case "updates":
            folds, reason = frozenset(), "S1 writes there"
        case "plain":
            scop, reason = changed(scop, replace(update, update=None)), "S1 writes there"
        case "role":
            tensors = tuple(replace(t, role="output") for t in scop.tensors)
            scop, reason = replace(scop, tensors=tensors), "no temporary"
        case _:
            body = replace(finish.body, lets=(("x", literal(1)),))
            scop, reason = changed(scop, replace(finish, body=body)), "no bare partial results"
    assert reason in judged(scop, origins, folds)


def test_another_monoid() -> None:
    scop, origins, folds = factored()
    finish = scop.statement("finish_P")
    assert finish.update is not None
    monoid = replace(finish.update.monoid, name="other")
    scop = changed(scop, replace(finish, update=replace(finish.update, monoid=monoid)))
    assert judged(scop, origins, folds) != ""


def test_identities() -> None:
    start, update = total().statements
    assert update.update is not None
    assert is_identity(start, update.update.monoid)
    assert not is_identity(total(2).statements[0], update.update.monoid)
    assert not is_identity(update, update.update.monoid)


def test_opened() -> None:
    for scop, starts in ((total(), ("S0",)), (total(1), None)):
        found = opened(scop, scop.statements[1], folding(scop))
        assert (found and found.starts) == starts
    assert opened(total(), total().statements[0], folding(total())) is None
