"""Temporaries that only name a value are computed where they are used.

    for i: for j: { s = a[i] == b[j]; H[i, j] = f(H[i, j-1], s) }
    →
    for i: for j: H[i, j] = f(H[i, j-1], a[i] == b[j])

Expansion has given every iteration an element of its own; a loop of its own for a few cheap
operations would write and read as many elements as there are iterations.
"""

from __future__ import annotations

from collections.abc import Collection

from weft.polyhedral.analysis.work import operations
from weft.polyhedral.scop import Access, Scop, Statement
from weft.polyhedral.transform.edit import accesses_of
from weft.polyhedral.transform.inline_producer import inline_producer, why_not_inline

READERS = 2  # accesses that each compute the value anew
CHEAP = 2  # operations of that: less than to store it and to load it again


def without_names(scop: Scop, kept: Collection[str] = ()) -> Scop:
    """``scop`` with cheap values inlined that statements right beside them use, but for tensors
    that are ``kept``."""
    for name in [s.name for s in scop.statements]:
        producer = scop.statement(name)
        touched = {a.tensor for a in (*producer.reads, *producer.writes)}
        if touched.isdisjoint(kept) and _is_name(scop, producer):
            scop = inline_producer(scop, name)
    return scop


def _is_name(scop: Scop, producer: Statement) -> bool:
    if why_not_inline(scop, producer) or operations(producer) > CHEAP:
        return False
    if any(read.guard or read.may for read in producer.reads):
        return False
    uses = [(s, a) for s, a, write in accesses_of(scop, producer.writes[0].tensor) if not write]
    beside = all(_beside(producer, s, access) for s, access in uses)
    return beside and 0 < len(uses) <= READERS


def _beside(producer: Statement, reader: Statement, access: Access) -> bool:
    """Whether ``reader`` uses the value of its own turn of the producer's innermost loop."""
    loops = producer.position[:-1]
    return (
        any(isinstance(p, str) for p in loops)
        and reader.position[:-1] == loops
        and access.indices == producer.writes[0].indices
    )
