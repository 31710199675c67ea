"""What happens to a Scop before it is scheduled: pointwise producers move into their readers."""

from __future__ import annotations

from math import prod

from weft.polyhedral.analysis.linear import extent, hull
from weft.polyhedral.analysis.work import operations
from weft.polyhedral.scop import Access, Scop, Statement
from weft.polyhedral.transform.edit import accesses_of
from weft.polyhedral.transform.hoist_constants import hoist_constants
from weft.polyhedral.transform.inline_producer import inline_producer, why_not_inline

MAX_READS = 64  # of one statement, so that bodies stay small


def prepare(scop: Scop) -> Scop:
    """``scop`` with producers inlined that their readers recompute at no loss."""
    for pays in (_is_copy, _pays):  # so that readers see what is stored before it is converted
        for name in [s.name for s in scop.statements]:
            producer = scop.statement(name)
            if not why_not_inline(scop, producer) and _few(scop, producer) and pays(scop, producer):
                scop = inline_producer(scop, name)
    for statement in scop.statements:
        if statement.update is None:
            scop = hoist_constants(scop, statement.name)
    return scop


def _few(scop: Scop, producer: Statement) -> bool:
    """Whether its readers, which come later, have not too many reads then."""
    uses = _uses(scop, producer)
    if not uses or any(len(s.reads) + len(producer.reads) > MAX_READS for s, _ in uses):
        return False
    return all(s.position[0] != producer.position[0] for s, _ in uses)


def _is_copy(scop: Scop, producer: Statement) -> bool:
    """Whether ``producer`` copies, or converts: to read through it always pays."""
    plain = not any(a.guard or a.may for a in producer.reads)
    return plain and operations(producer) == 0


def _pays(scop: Scop, producer: Statement) -> bool:
    """Whether reading through the body costs no more than storing and loading the value.

    A mere copy always pays. Otherwise each value must be read about once: one access in one reader
    with no more instances than the producer, or a few cheap operations.
    """
    if _is_copy(scop, producer):
        return True
    uses = _uses(scop, producer)
    repeated = max(_instances(s) for s, _ in uses) > 1.5 * _instances(producer)
    if repeated:
        return False
    plain = not any(a.guard or a.may for a in producer.reads)
    return len(uses) == 1 or (operations(producer) <= 2 and plain and len(uses) <= 3)


def _uses(scop: Scop, producer: Statement) -> list[tuple[Statement, Access]]:
    """The reads of what ``producer`` writes, each with its statement."""
    tensor = producer.writes[0].tensor
    return [(s, a) for s, a, is_write in accesses_of(scop, tensor) if not is_write]


def _instances(s: Statement) -> int:
    bounds = hull(s)
    return prod(extent(bounds[d]) if d in bounds else 16 for d in s.dims)
