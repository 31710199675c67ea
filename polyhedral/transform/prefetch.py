"""Prefetch: vector loops ask for what they read of a tensor before it is due.

    for i: for j:                       for i: for j:
      S: y[i, j] = f(x[i, j])     →       ask for x[i, j + 128]; S: …       prefetch("x", 1024)

Hardware prefetchers stop at the end of each page, and a long computation leaves few loads in
flight. What is asked for takes room in the first cache until it is due. Also known as: Halide
``prefetch``; TVM has ``software_pipeline`` for copies to local memories, Exo an instruction of the
user's own.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import replace

from weft.ir.schedule_tree import Prefetched, statements_below
from weft.polyhedral.analysis.nests import nests
from weft.polyhedral.proof.memory_claims import claim_refused
from weft.polyhedral.transform.scheduled import (
    Scheduled,
    path_to,
    positive,
    transformation,
    with_claim,
)


@transformation
def prefetch(scheduled: Scheduled, tensor: str, ahead: int, statements: Seq[str] = ()) -> Scheduled:
    """Vector loops that read ``tensor`` in order ask for it ``ahead`` bytes before, in nests that
    do not write it; nests with prefetches of their own (``RegisterTile.ahead``) do with those.
    ``statements``: which readers ask, by default all.

    Raises ``IllegalScheduleError``: WEFT-E0452 where there is no such tensor, E0460 where ``ahead``
    is no positive number, E0425 where every nest that reads the tensor writes it, or its storage is
    reused, E0451 where there is no such statement.
    """
    scheduled.tensor(tensor)
    for name in statements:
        path_to(scheduled.tree, name)
    claim = Prefetched(tensor, positive("ahead", ahead))
    readers: set[str] = set()
    for part in nests(scheduled.scop, scheduled.tree):
        inside = [scheduled.scop.statement(name) for name in statements_below(part)]
        if all(write.tensor != tensor for s in inside for write in s.writes):
            readers |= {s.name for s in inside if tensor in {r.tensor for r in s.reads}}
    readers &= {*(statements or readers)}
    if not readers:
        raise claim_refused(claim, "no nest reads it without writing it")
    return replace(scheduled, tree=with_claim(scheduled.tree, claim, readers))
