"""Pack per tile: which operands of a product are packed for each cache tile, and in which order.

Those that are packed before the whole product are ``pack_once``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from weft.ir.scalar_expr import Expr
from weft.ir.scop import Access, Statement
from weft.polyhedral.analysis.linear import hull_extent, mentions
from weft.polyhedral.policy.planner import Packing, Planner
from weft.polyhedral.policy.product import Product, Tile

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
    """The packings of ``p`` in register tiles of shape ``tile``: an operand that needs packing, or
    any with ``again``, is packed inside ``loop``, once per cache tile; constants once, before
    everything. ``in_rows``: numbers of the reads to keep as rows of memory, and the length to pad
    their rows to (0: they are as they should be)."""
    s = planner.scop.statement(p.statement)
    rows, lanes = tile
    for number, read in enumerate(s.reads):
        across, down = tensor_dims_along(read, (p.lanes,)), tensor_dims_along(read, p.rows)
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
            continue  # computed tile by tile, so that the next rows find it in L2
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
    """Whether ``index`` moves with other dims besides ``dim``, as under a window."""
    return any(mentions(index, (d,)) for d in s.dims if d != dim)


def interleaved(p: Product, s: Statement, read: Access) -> tuple[tuple[int, int], ...]:
    """The innermost panels of ``read``: steps that one instruction takes, side by side. That is a
    word; or, for a row of a matrix unit's register, all its steps, if rows and steps have known
    numbers. (Otherwise no block transpose applies: the copy stores element by element, and LLVM
    takes minutes.)"""
    along = tensor_dims_along(read, p.stream[-1:])
    rows = (
        p.instruction is not None and p.instruction.unit and not tensor_dims_along(read, (p.lanes,))
    )
    known = rows and all(hull_extent(s, d) is not None for d in (*p.rows, p.stream[-1]))
    steps = p.instruction.depth if p.instruction and known else p.word
    return ((along[0], steps),) if p.word > 1 and len(along) == 1 else ()


def tensor_dims_along(access: Access, moving: Sequence[str]) -> list[int]:
    """The dimensions of the tensor in which ``access`` moves along any of ``moving``."""
    return [d for d, i in enumerate(access.indices) if mentions(i, moving)]
