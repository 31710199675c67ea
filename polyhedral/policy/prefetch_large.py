"""Which arrays vector loops ask for ahead: large ones that a nest beyond the last cache only reads.

A long computation fills the reorder buffer, so that only few loads are in flight, and hardware
prefetchers stop at the end of each page. Lines that are asked for take an eighth of the first cache
at most, so that they are still there when they are due, and are at most half a page ahead, so that
most are on a page that the TLB holds: at 6 KiB ahead, GELU took 1.6 times as long on one processor,
as long as without prefetches. A cache with a sequential prefetcher needs no hints.
"""

from __future__ import annotations

from weft.ir.machine import Machine
from weft.ir.schedule_tree import Tree, statements_below
from weft.ir.scop import Scop
from weft.polyhedral.analysis.nests import nests
from weft.polyhedral.policy.stream_large import in_vectors, known_bytes
from weft.polyhedral.transform.prefetch import prefetch
from weft.polyhedral.transform.scheduled import Scheduled

HELD = 8  # 1/8 of the first cache for prefetched lines: rows come again
NEAR = 2  # 1/2 of a page
PART = 8  # arrays of less than 1/8 of all bytes do not count


def prefetch_large(scheduled: Scheduled, machine: Machine) -> Scheduled:
    """``scheduled`` with the loads that may gain by prefetches marked; only where sizes are
    known."""
    if not machine.caches or machine.caches[-1].sequential_prefetcher:
        return scheduled
    for nest in nests(scheduled.scop, scheduled.tree):
        large = _large(scheduled.scop, nest, machine.caches[-1].size)
        ahead = min(machine.page // NEAR, machine.caches[0].size // HELD // max(1, len(large)))
        for tensor, readers in large.items():
            if ahead and readers:
                scheduled = prefetch(scheduled, tensor, ahead, readers)
    return scheduled


def _large(scop: Scop, nest: Tree, last: int) -> dict[str, list[str]]:
    """The arrays that ``nest`` only reads, and a large part of more than ``last`` bytes: who reads
    them in vectors."""
    inside = [scop.statement(name) for name in statements_below(nest)]
    written = {w.tensor for s in inside for w in s.writes}
    read = {r.tensor for s in inside for r in s.reads}
    tensors = [t for t in scop.tensors if t.name in read | written and t.scope == "global"]
    sizes = {t.name: known_bytes(t) or 0 for t in tensors}
    total = sum(sizes.values())
    if total <= last:
        return {}
    large = [n for n, size in sizes.items() if n not in written and size * PART > total]
    vectors = [s for s in inside if s.name in in_vectors(nest)]
    return {n: [s.name for s in vectors if n in {r.tensor for r in s.reads}] for n in large}
