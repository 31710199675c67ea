"""Operands of a product that lie in memory with gaps go through copies without these.

    for i: for j: for k:                      for k: for i: T[k, i] = A[k, 2*i]
      C[i, j] += A[k, 2*i] * B[k, j]    →     for i: for j: for k:
                                                C[i, j] += T[k, i] * B[k, j]

Where lanes come from far, panel by panel for all rows (``far_lanes``), rows are read again for each
panel, and a line of memory that is half read takes all of its place in the caches and all of its
time on the way there. The copy is made once, of lines that come one after the other. Done where
panels are so many that the bytes that they save outweigh those of the copy, and the last cache is
slow: copies for a fast one took up to 1.15 times as long.
"""

from __future__ import annotations

from math import ceil, prod

from weft.polyhedral.analysis.linear import linear, mentions
from weft.polyhedral.policy.cache_tiles import lanes_from_last
from weft.polyhedral.policy.far_constants import bytes_touched
from weft.polyhedral.policy.far_lanes import far_lanes
from weft.polyhedral.policy.planner import Planner
from weft.polyhedral.policy.product import Product
from weft.polyhedral.policy.product_costs import extents
from weft.polyhedral.scop import Access, Scop, Statement
from weft.polyhedral.transform.copy_read import copy_read

WRITTEN = 3  # times the bytes of a copy move: its lines come in, go out, and come in again


def dense_operands(planner: Planner, p: Product) -> tuple[Scop, tuple[str, ...]]:
    """The Scop with copies of what ``p`` reads with gaps, where they pay; their statements."""
    scop, made = planner.scop, list[str]()
    if p.tile is None or lanes_from_last(planner.machine) or far_lanes(planner, p, p.tile) is None:
        return scop, ()
    for number, read in enumerate(scop.statement(p.statement).reads):
        s = scop.statement(p.statement)
        if _pays(scop, s, read, p):
            scop, name = copy_read(scop, s.name, number, _dims(s, read), "dense")
            made.append(name)
    return scop, tuple(made)


def _pays(scop: Scop, s: Statement, read: Access, p: Product) -> bool:
    sizes, tensor = extents(s), scop.tensor(read.tensor)
    if sizes is None or p.tile is None or tensor.role != "input" or not _has_gaps(s, read):
        return False
    dims = _dims(s, read)
    if p.lanes in dims:
        return False
    dense = prod(sizes[d] for d in dims) * tensor.dtype.itemsize
    touched = bytes_touched(scop, read, {d: sizes[d] for d in dims})
    panels = ceil(sizes[p.lanes] / p.tile[1])
    return panels * dense + WRITTEN * dense + touched < panels * touched


def _dims(s: Statement, read: Access) -> tuple[str, ...]:
    """The dims along which ``read`` moves, as its indices have them."""
    return tuple(dict.fromkeys(d for i in read.indices for d in s.dims if mentions(i, (d,))))


def _has_gaps(s: Statement, read: Access) -> bool:
    """Whether neighbours in rows of memory are left out, and no element is read at two points of
    the dims that move."""
    if read.may or read.guard or not read.indices:
        return False
    moving = [[d for d in s.dims if mentions(i, (d,))] for i in read.indices]
    every = [d for dims in moving for d in dims]
    if len(every) != len({*every}) or any(len(dims) > 1 for dims in moving):
        return False
    form = linear(read.indices[-1], s.dims)
    return form is not None and any(abs(c) > 1 for c in form.coefficients.values())
