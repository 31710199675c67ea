"""Copies of the operands of upright register tiles (``vertical``).

    for i_r: for j_r:                        for n: for k: for j < 5: for z < 16: Q[n, k, j, z] = W…
      for k: Y[i, j, z] +=             →     for i_r:
        X[i, k, z] * W[k, j, z]                for k: for i < 5: for z < 16: P[k, i, z] = X[i, k, z]
                                               for j_r: for k: Y[i, j, z] += P[k, …] * Q[j_r, k, …]

Each step loads as many vectors as a tile has rows. Those of arguments, which may begin anywhere in
a line, are two lines each, and lie whole rows of memory apart, where few sets of the first cache
hold them. Panels lie as they are read, and are copied once for all tiles that use them, if these
are many and the second cache holds the panels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, prod

from weft.polyhedral.analysis.linear import mentions
from weft.polyhedral.machine import Machine
from weft.polyhedral.policy.planner import Packing
from weft.polyhedral.policy.product import Product
from weft.polyhedral.policy.sizes import size_of
from weft.polyhedral.schedule_tree import Loop
from weft.polyhedral.scop import Access, Scop, Statement

ACROSS = 1.0  # cycles for a vector on two lines
MOVED = 8.0  # cycles for a vector that is copied: more than it takes, since it may lie well already
SHARE = 0.5  # of the second cache, for the panels of an operand

Tile = tuple[tuple[int, ...], int]  # rows and lanes


def from_upright_panels(scop: Scop, p: Product, tile: Tile, machine: Machine) -> tuple[int, ...]:
    """The reads of ``p``, by number, that are to come from panels where its tiles have these rows
    and lanes: none where it is no sum of elementwise products, or sizes are unknown."""
    s = scop.statement(p.statement)
    if not p.window or len(p.rows) != 2 or len(p.stream) != 1 or len(s.reads) != 2:
        return ()
    return tuple(n for n, read in enumerate(s.reads) if _pays(scop, s, read, p, tile, machine))


def _pays(scop: Scop, s: Statement, read: Access, p: Product, tile: Tile, machine: Machine) -> bool:
    tensor, moving = scop.tensor(read.tensor), _row(s, read, p)
    if moving is None or tensor.role != "input":
        return False
    tiles = {d: ceil((size_of(s, d) or 1) / n) for d, n in zip(p.rows, tile[0], strict=True)}
    again = prod(n for d, n in tiles.items() if d != moving)
    sizes = [size_of(s, d) for d in (moving, *p.stream)]
    held = prod(n for n in sizes if n is not None) * tile[1] * tensor.dtype.itemsize
    return None not in sizes and again * ACROSS > MOVED and held <= SHARE * machine.near


def _row(s: Statement, read: Access, p: Product) -> str | None:
    """The dim of rows that ``read`` moves along, if it does so along but one, and apart from the
    stream and the lanes, which lie side by side."""
    dims = [(d, _along(read, d)) for d in (p.lanes, *p.rows, *p.stream)]
    places = [place for _, found in dims for place in found]
    rows = [d for d, found in dims if d in p.rows and found]
    plain = len(places) == len({*places}) == 3 and _along(read, p.lanes)
    return rows[0] if plain and len(rows) == 1 else None


def _along(read: Access, dim: str) -> list[int]:
    return [k for k, index in enumerate(read.indices) if mentions(index, (dim,))]


def upright_packings(
    scop: Scop, p: Product, numbers: Sequence[int], near: Sequence[Loop], tile: Tile
) -> Iterator[Packing]:
    """The panels of the reads ``numbers``, made outside of the first of the loops ``near`` that
    uses them again."""
    s = scop.statement(p.statement)
    rows = dict(zip(p.rows, tile[0], strict=True))
    for number in numbers:
        read, own = s.reads[number], _row(s, s.reads[number], p)
        assert own is not None, "it was chosen"
        moving = [d for d in s.dims if _along(read, d)]
        (dim,), (lane,) = _along(read, own), _along(read, p.lanes)
        again = (x.name for x in near if not mentions(x.at[s.name], moving))
        loop = next(again, None)
        if loop is not None:
            yield Packing(s.name, number, loop, dim, rows[own], inner=((lane, tile[1]),))
