"""Panels of the operands of a product's register tiles: which of them are copied for each tile for
the caches, and how they lie. Those that are made once are ``whole_panels``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from weft.ir.scalar_expr import Expr
from weft.ir.scop import Access, Statement
from weft.polyhedral.analysis.linear import known_extent, mentions
from weft.polyhedral.policy.planner import Packing, Planner
from weft.polyhedral.policy.product import Product

Tile = tuple[tuple[int, ...], int]  # rows and lanes
NO_ROWS: Mapping[int, int] = MappingProxyType({})


def pack_per_tile(
    planner: Planner,
    p: Product,
    loop: str,
    tile: Tile,
    *,
    again: bool = False,
    in_rows: Mapping[int, int] = NO_ROWS,
) -> Iterator[Packing]:
    """Operands that jump along the lanes come from panels, made once for each tile; constants lie
    in the order in which they are read, from the beginning. ``in_rows``: the numbers of those that
    are read as rows of memory, and how long these have to be made (0: they lie so)."""
    s = planner.scop.statement(p.statement)
    rows, lanes = tile
    for number, read in enumerate(s.reads):
        across, down = _dims_along(read, (p.lanes,)), _dims_along(read, p.rows)
        inner = interleaved(p, s, read)
        if len(across) + len(down) != 1 and (across or not down or not inner):
            continue
        role = planner.scop.tensor(read.tensor).role
        if p.window and role not in ("constant", "input"):
            continue  # their panels are made before everything else, when nothing is in these yet
        constant = role == "constant"
        if not constant and planner.prepared(s, number):
            continue
        dim = (*across, *down)[0]
        if number in in_rows:
            if in_rows[number]:
                yield Packing(p.statement, number, "", across[0], in_rows[number])
            continue
        maker = planner.operands.get(read.tensor, "")
        if across and maker:
            yield Packing(p.statement, number, loop, dim, lanes, maker)
            continue  # worked out tile by tile, where the next rows find it in the second cache
        spread = planner.row_tiles.get(p.statement) and role == "input" and across
        made = "" if constant or p.window or spread else loop
        if across and (constant or number in p.needs_packing or again):
            # Windows lie across panels: what slides is contiguous as it is.
            width = 1 if inner and _slides(s, read.indices[dim], p.lanes) else lanes
            yield Packing(p.statement, number, made, dim, width, inner=inner)
        elif down and p.instruction and (constant or number in p.needs_packing):
            yield Packing(p.statement, number, made, dim, 1, inner=inner)
        elif down and (constant or number in p.needs_packing):
            yield Packing(p.statement, number, made, dim, rows[-1])


def _slides(s: Statement, index: Expr, dim: str) -> bool:
    """Whether ``index`` moves with other dims besides ``dim``."""
    return any(mentions(index, (d,)) for d in s.dims if d != dim)


def interleaved(p: Product, s: Statement, read: Access) -> tuple[tuple[int, int], ...]:
    """The panels of ``read`` in which the steps that one instruction takes lie side by side: those
    of a word, or all of them for a row of a matrix unit's register, if it is known how many rows
    and steps there are (else nothing turns whole blocks around: the copy has a store for each
    element of several vectors, and LLVM takes minutes)."""
    along = _dims_along(read, p.stream[-1:])
    rows = p.instruction is not None and p.instruction.unit and not _dims_along(read, (p.lanes,))
    known = rows and all(known_extent(s, d) is not None for d in (*p.rows, p.stream[-1]))
    steps = p.instruction.depth if p.instruction and known else p.word
    return ((along[0], steps),) if p.word > 1 and len(along) == 1 else ()


def _dims_along(access: Access, moving: Sequence[str]) -> list[int]:
    return [d for d, i in enumerate(access.indices) if mentions(i, moving)]
