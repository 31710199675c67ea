"""Stream: stores to a tensor go past the caches.

    for i: for j:                       for i: for j:
      S: y[i, j] = f(x[i, j])     →       S: y[i, j] = f(x[i, j])   past the caches     stream("y")

A store that misses the caches loads its line first, which stores of whole lines past them do not;
but who reads the line later waits for memory. So nests that read the tensor store it as before.
Also known as: non-temporal stores; Halide and TVM have no counterpart, Exo an instruction of the
user's own.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import replace

from weft.ir.errors import IllegalScheduleError
from weft.ir.schedule_tree import Streamed, statements_below
from weft.polyhedral.analysis.nests import nests
from weft.polyhedral.proof.memory_claims import claim_refused
from weft.polyhedral.transform.scheduled import Scheduled, positive, transformation, with_claim


@transformation
def stream(scheduled: Scheduled, tensors: str | Seq[str], nest: int = 0, own: int = 0) -> Scheduled:
    """Stores to ``tensors``, one or several, go past the caches, where vector loops write whole
    lines of them.

    ``nest`` and ``own``, in bytes: only where all tensors of the nest are larger than the one, and
    the tensor itself than the other. Raises ``IllegalScheduleError``: WEFT-E0452 where there is no
    such tensor, or none at all, E0460 for a negative size, E0425 where every nest that writes one
    reads it, or its storage is reused.
    """
    names = [tensors] if isinstance(tensors, str) else list(tensors)
    if not names:
        raise IllegalScheduleError("WEFT-E0452", "stream without a tensor", hint='stream("y")')
    for name in names:
        scheduled = _stream(scheduled, name, nest, own)
    return scheduled


def _stream(scheduled: Scheduled, tensor: str, nest: int, own: int) -> Scheduled:
    scheduled.tensor(tensor)
    claim = Streamed(tensor, positive("nest", nest, 0), positive("own", own, 0))
    writers: set[str] = set()
    for part in nests(scheduled.scop, scheduled.tree):
        inside = [scheduled.scop.statement(name) for name in statements_below(part)]
        if all(read.tensor != tensor for s in inside for read in s.reads):
            writers |= {s.name for s in inside if tensor in {w.tensor for w in s.writes}}
    if not writers:
        raise claim_refused(claim, "no nest writes it without reading it")
    return replace(scheduled, tree=with_claim(scheduled.tree, claim, writers))
