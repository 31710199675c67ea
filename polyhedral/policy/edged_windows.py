"""Windows over edges: what surrounds an operand is not stored where vectors know about it.

    P[i, l] = 0 <= i - 1 < n ? x[i - 1, l] : 0
    y[i, l] += P[i + r, l] * w[r, l]                 →    y[i, l] += (0 <= i + r - 1 < n ?
                                                                      x[i + r - 1, l] : 0) * w[r, l]

Along the lanes l the condition is the same, and where a register tile is written out, most of its
steps know it. So the copy P, as large as x, costs more than what it saves.

Images of at most a vector's width have their lanes along the width, and cross the edges; but each
step crosses them in the same lanes, which a constant mask leaves out. The copy would be waited
for: rows of P are loaded one element beside those that have just been stored (7 by 7 images under
3 by 3 taps take 3 times as long).
"""

from __future__ import annotations

from math import prod

from weft.polyhedral.analysis.linear import mentions
from weft.polyhedral.analysis.tile_domain import WRITTEN_OUT
from weft.polyhedral.machine import Machine
from weft.polyhedral.policy.lanes import jumps
from weft.polyhedral.policy.product import find_product, find_window
from weft.polyhedral.policy.product_costs import extents
from weft.polyhedral.scop import Scop, Statement
from weft.polyhedral.transform.edit import accesses_of
from weft.polyhedral.transform.inline_producer import inline_producer, why_not_inline


def edged_windows(scop: Scop, machine: Machine, kept: frozenset[str] = frozenset()) -> Scop:
    """``scop`` without the copies that windows read through as well, but for tensors ``kept``."""
    for producer in scop.statements:
        if not _surrounds(scop, producer) or producer.writes[0].tensor in kept:
            continue
        uses = accesses_of(scop, producer.writes[0].tensor)
        readers = [s for s, _, is_write in uses if not is_write]
        if len(readers) == 1 and _is_window(scop, readers[0], machine):
            changed = inline_producer(scop, producer.name)
            if _is_window(changed, changed.statement(readers[0].name), machine):
                scop = changed
    return scop


def _surrounds(scop: Scop, producer: Statement) -> bool:
    """Whether it copies one element under a condition, and may be done without."""
    one = len(producer.reads) == 1 and bool(producer.reads[0].guard)
    return one and not producer.reads[0].may and not why_not_inline(scop, producer)


def _is_window(scop: Scop, s: Statement, machine: Machine) -> bool:
    """Whether ``s`` is a window in tiles of several rows that are written out, no condition of
    which changes along the lanes, or each in the same way."""
    if s.update is None or find_product(scop, s, s.dims, machine) is not None:
        return False
    window, sizes = find_window(scop, s, s.dims, machine), extents(s)
    if window is None or not window.rows or window.tile is None or sizes is None:
        return False
    rows, lanes = window.tile
    if prod(rows) * lanes * prod(sizes[d] for d in window.stream) > WRITTEN_OUT:
        return False
    if sizes[window.lanes] <= machine.lanes(scop.tensor(s.writes[0].tensor).dtype):
        return not any(read.guard and jumps(read, window.lanes) for read in s.reads)
    guards = [c.expr for read in s.reads for c in read.guard]
    return not any(mentions(e, (window.lanes,)) for e in guards)
