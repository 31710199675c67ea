"""What counts as unchanged flows the same way: verdicts agree with running both programs on terms.

The transformed programs keep their statements, so that nothing but the order, or one access or
domain, tells the two apart: the places where a comparison that looks too little would go wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product

import pytest

from tests.polyhedral.loop_programs import PROGRAMS, program
from tests.properties.symbolic import Symbolic
from weft.ir.errors import IllegalScheduleError
from weft.ir.scalar_expr import Var
from weft.ir.scop import Access, Origin, Scop, Statement
from weft.polyhedral.proof.flow import FINAL, Read
from weft.polyhedral.proof.unchanged import Unchanged
from weft.polyhedral.proof.validation import validate
from weft.polyhedral.transform.initial import initial

SMALL = [name for name in PROGRAMS if name not in ("heat-3d", "adi", "ludcmp", "correlation")]


def _swapped(of: Scop) -> Iterator[Scop]:
    """``of`` with two statements or nests of one loop exchanged."""
    places = sorted({s.position[: 2 * k + 1] for s in of.statements for k in range(len(s.dims) + 1)
                     if len(s.position) > 2 * k}, key=str)  # fmt: skip
    for one, two in combinations(places, 2):
        if len(one) == len(two) and one[:-1] == two[:-1]:
            yield _moved(of, one, two)


def _moved(of: Scop, one: tuple[int | str, ...], two: tuple[int | str, ...]) -> Scop:
    def move(s: Statement) -> Statement:
        for old, new in ((one, two), (two, one)):
            if s.position[: len(old)] == old:
                return replace(s, position=(*new, *s.position[len(old) :]))
        return s

    moved = tuple(map(move, of.statements))
    order = sorted(range(len(moved)), key=lambda k: [
        (isinstance(p, str), str(p)) for p in moved[k].position
    ])  # fmt: skip
    return replace(of, statements=tuple(moved[k] for k in order))


def _same(original: Scop, transformed: Scop, low: int = 3, high: int = 5) -> bool:
    symbolic = Symbolic()
    for values in product(range(low, high), repeat=len(original.parameters)):
        parameters = dict(zip(original.parameters, values, strict=True))
        before = symbolic.run(original, original, parameters, high=high + 1)
        if before != symbolic.run(transformed, original, parameters, high=high + 1):
            return False
    return True


def _accepted(original: Scop, transformed: Scop) -> bool:
    try:
        validate(original, transformed, initial(transformed).tree)
    except IllegalScheduleError:
        return False
    return True


@pytest.mark.long
@pytest.mark.parametrize("name", SMALL)
def test_statements_that_change_places(name: str) -> None:
    of = program(name)
    for other in _swapped(of):
        assert _accepted(of, other) == _same(of, other), [s.position for s in other.statements]


@pytest.mark.long
def test_the_exchanges_tell_something() -> None:
    verdicts = [
        _accepted(program(name), other) for name in SMALL for other in _swapped(program(name))
    ]
    assert verdicts.count(True) > 3 and verdicts.count(False) > 20


def _find(of: Scop) -> Unchanged:
    return _between(of, of)


def _between(of: Scop, other: Scop) -> Unchanged:
    return Unchanged(of, other, {
        s.name: s.origin or Origin(s.name, tuple(map(Var, s.dims))) for s in other.statements
    })  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_changes_by_itself(name: str) -> None:
    of = program(name)
    found = _find(of)
    assert all(found.statement(s.name) for s in of.statements)
    assert all(found.read(Read(t.name, FINAL)) for t in of.tensors)
    assert all(found.read(Read(s.name, k)) for s in of.statements for k in range(len(s.reads) + 1))


def _with(of: Scop, name: str, **changes: object) -> Scop:
    return replace(of, statements=tuple(
        replace(s, **changes) if s.name == name else s for s in of.statements  # type: ignore
    ))  # fmt: skip


def test_a_changed_read_leaves_the_others() -> None:
    of = program("jacobi-1d")
    reads = of.statement("S0").reads
    found = _between(of, _with(of, "S0", reads=(reads[1], reads[1], reads[2])))
    assert [found.read(Read("S0", k)) for k in range(3)] == [False, True, True]
    assert all(found.read(Read("S1", k)) for k in range(3))
    assert found.read(Read("A", FINAL)) and found.read(Read("B", FINAL))


def test_a_changed_write_changes_all_that_reads_its_tensor() -> None:
    of = program("jacobi-1d")
    found = _between(of, _with(of, "S0", writes=(Access("B", (Var("i") - 1,)),)))
    assert found.statement("S0")
    assert found.read(Read("S0", 0)) and not found.read(Read("S1", 0))
    assert found.read(Read("A", FINAL)) and not found.read(Read("B", FINAL))


def test_a_changed_domain_changes_the_statement_and_what_it_writes() -> None:
    of = program("jacobi-1d")
    found = _between(of, _with(of, "S0", domain=of.statement("S0").domain[1:]))
    assert not found.statement("S0") and found.statement("S1")
    assert not found.read(Read("S0", 0)) and not found.read(Read("S1", 0))
    assert not found.read(Read("B", FINAL))


def test_a_writer_more_or_less() -> None:
    of = program("gemm")
    less = replace(of, statements=of.statements[1:])
    assert not _between(of, less).read(Read("C", FINAL))
    again = replace(of.statements[0], name="again", origin=of.statements[0].origin)
    more = replace(of, statements=(*of.statements, again))
    found = _between(of, more)
    assert not found.statement("S0") and not found.statement("again")
    assert not found.read(Read("C", FINAL))


def test_another_context_changes_everything() -> None:
    of = program("gemm")
    found = _between(of, replace(of, context=of.context[1:]))
    assert not any(found.statement(s.name) for s in of.statements)
