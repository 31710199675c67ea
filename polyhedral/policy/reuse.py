"""What of the operands of a product is still in a cache when it is read again, how many bytes they
are, and what to prefetch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from weft.ir.machine import MAX_VECTORS, Machine
from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Literal
from weft.ir.scop import Access, Scop, Statement
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


def compact_bytes(scop: Scop, read: Access, sizes: Mapping[str, int]) -> int:
    """Bytes of the distinct elements of ``read``, without gaps."""
    return scop.tensor(read.tensor).dtype.itemsize * prod(
        n for d, n in sizes.items() if moves(read, d)
    )


def footprint_bytes(scop: Scop, read: Access, sizes: Mapping[str, int], line: int) -> int:
    """Bytes of the cache lines, of ``line`` bytes, that ``read`` touches as the dims of ``sizes``
    run: in each row of memory the lines of its span, on average, or the whole row if the next one
    follows."""
    tensor = scop.tensor(read.tensor)
    total = apart = tensor.dtype.itemsize
    for number, index in reversed(list(enumerate(read.indices))):
        form, moving = to_affine(index), [d for d in sizes if mentions(index, (d,))]
        steps = {d: abs(form.coefficient(d)) if form else 1 for d in moving}
        span = sum(steps[d] * (sizes[d] - 1) for d in moving) + 1
        if number == len(read.indices) - 1:
            total = (span - 1) * apart + line
        elif moving:
            next_ = apart * min(steps.values())
            total = min(total, next_ or total) * min(span, prod(sizes[d] for d in moving))
        size = tensor.shape[number]
        apart *= int(size.value) if isinstance(size, Literal) else 0
    return total
