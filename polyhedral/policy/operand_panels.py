"""Whether a product reads its operands where they lie, or from panels.

    for j_t: for k_t:                         for j_t: for k_t:
                                          →     for n: for k: for l < 48: P[n, k, l] = B[k, …]
      for j_r: for i_r: … B[k, j] …             for j_r: for i_r: … P[j_r, k, l] …

The steps of a stream lie rows of memory apart. Rows on more pages than the processor remembers are
looked up again by every tile, and vectors that begin in the middle of a line are two accesses. A
panel lies as it is read, on few pages, and is copied once for all rows of a tile for the caches.
"""

from __future__ import annotations

from math import ceil, prod

from weft.polyhedral.analysis.linear import mentions
from weft.polyhedral.machine import Machine
from weft.polyhedral.policy.product import Product
from weft.polyhedral.policy.product_costs import PAGE, stride
from weft.polyhedral.policy.sizes import size_of
from weft.polyhedral.scop import Access, Scop, Statement

NEAR_PAGES, FAR_PAGES = 200, 1024  # that processors find at once; that they find soon
NEXT, LOOKED_UP = 1.5, 12.0  # cycles of a step on one of more pages than that
ACROSS = 1.0  # cycles for a vector on two lines


def from_panels(
    scop: Scop, p: Product, tile: tuple[tuple[int, ...], int], width: int, machine: Machine
) -> tuple[int, ...]:
    """The reads of ``p``, by number, that are to come from panels, where register tiles are of
    these rows and lanes, and ``width`` lanes share what is copied: none where sizes are unknown."""
    s = scop.statement(p.statement)
    rows, lanes = tile
    sizes = [size_of(s, d) or 1 for d in p.rows]
    down = prod(ceil(n / size) for n, size in zip(sizes, rows, strict=True))
    found = []
    for number, read in enumerate(s.reads):
        if number in p.jumping or not in_rows(scop, p, read):
            continue
        size = scop.tensor(read.tensor).dtype.itemsize
        if any(mentions(index, (p.lanes,)) for index in read.indices):
            again, vectors = down - 1, ceil(lanes * size / machine.vector_bytes)
            across = ACROSS * vectors
        else:
            again, vectors = ceil(width / lanes) - 1, ceil(rows[-1] * size / machine.vector_bytes)
            across = 0.0
        copy = vectors * (1 / machine.loads_per_cycle + 1)
        if again * waits(scop, s, read, p, machine, across) > copy:
            found.append(number)
    return tuple(found)


def in_rows(scop: Scop, p: Product, read: Access) -> bool:
    """Whether ``read`` moves along the lanes or along one dim of rows, and, in rows of memory,
    with each step of the stream."""
    if p.window or len(p.stream) != 1 or scop.tensor(read.tensor).role == "constant":
        return False
    moving = [sum(mentions(i, (d,)) for i in read.indices) for d in (p.lanes, *p.rows, *p.stream)]
    inside, stream = moving[:-1], moving[-1]
    return sum(inside) == stream == 1 and not mentions(read.indices[-1], p.stream)


def waits(
    scop: Scop,
    s: Statement,
    read: Access,
    p: Product,
    machine: Machine,
    across: float,
    *,
    page: float = NEXT,
) -> float:
    """Cycles of one step of a register tile that come of where its elements lie; ``across``: of
    vectors on two lines; ``page``: of one of more pages than processors find at once."""
    steps, apart = size_of(s, p.stream[0]), stride(scop.tensor(read.tensor), read, p.stream[0])
    if steps is None or apart == 1:
        return 0.0
    pages = steps * min(apart, PAGE) / PAGE
    found = across if apart % machine.caches[0].line else 0.0
    return found + (LOOKED_UP if pages > FAR_PAGES else page if pages > NEAR_PAGES else 0.0)
