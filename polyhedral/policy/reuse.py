"""What of the operands of a product is still in a cache when it is read again, and what to
prefetch."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from weft.ir.machine import MAX_VECTORS, Machine
from weft.ir.scalar_expr import Literal
from weft.ir.scop import Scop, Statement
from weft.polyhedral.analysis.linear import hull_extent, mentions, moves
from weft.polyhedral.policy.cache_tiles import kc_of
from weft.polyhedral.policy.lanes import strided
from weft.polyhedral.policy.product_costs import extents, stride

LEAST = 8  # lines of a row that are worth prefetching
SHARE = 0.7  # of L2, for the operands of a reduction


def in_one_part(
    scop: Scop,
    statement: Statement,
    stream: Sequence[str],
    machine: Machine,
    *,
    again: bool = True,
) -> bool:
    """Whether the reduction ``stream`` needs no blocking: its innermost dim is no longer than kc,
    or the lane operand of a tile stays in L2 until the next rows. Without ``again``, that operand
    is packed first, which is best done in small parts."""
    last, most = hull_extent(statement, stream[-1]), kc_of(machine)
    if last is not None and last <= most:
        return True
    sizes = extents(statement)
    if sizes is None or not again:
        return False
    lanes = MAX_VECTORS * machine.lanes(scop.tensor(statement.writes[0].tensor).dtype)
    size = max((scop.tensor(r.tensor).dtype.itemsize for r in statement.reads), default=0)
    return prod(sizes[d] for d in stream) * lanes * size <= machine.caches[1].size * SHARE


def rows_ahead(scop: Scop, statement: Statement, lane: str, stream: str, machine: Machine) -> int:
    """How many lines to prefetch of each row for a sum over a few long rows of memory: half of L1.
    0 where the caches hold the rows, or not as many lines whole pages apart."""
    size, near = hull_extent(statement, stream), machine.caches[:2][-1]
    held = machine.caches[0].size // 2 // machine.line
    if size is None or not 2 <= size <= held // LEAST:
        return 0
    for read in statement.reads:
        tensor = scop.tensor(read.tensor)
        along = any(mentions(i, (lane,)) for i in read.indices[-1:]) and not strided(read, lane)
        across = any(mentions(i, (stream,)) for i in read.indices[:-1]) if along else False
        sizes = [int(n.value) if isinstance(n, Literal) else 0 for n in tensor.shape]
        large = across and not read.may and prod(sizes) * tensor.dtype.itemsize > near.size
        if large and (size <= near.ways or stride(tensor, read, stream) % machine.page):
            return held
    return 0


def on_new_pages(
    scop: Scop, statement: Statement, lane: str, stream: Sequence[str], machine: Machine
) -> tuple[int, ...]:
    """The reads, by number, that move along ``lane`` and are on another page at each step of the
    reduction, where no hardware prefetcher follows. Constants are none: they can be packed."""
    found = []
    for number, read in enumerate(statement.reads):
        tensor = scop.tensor(read.tensor)
        across = moves(read, lane)
        known = not across or tensor.role == "constant"
        if not known and abs(stride(tensor, read, stream[-1])) >= machine.page:
            found.append(number)
    return tuple(found)
