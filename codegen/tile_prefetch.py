"""Prefetches of a register tile: the sums of the next tile, and operands of later steps.

    for k in 0 … K:                          for k in 0 … K:
      tile[r, l] += A[r, k] * B[k, l]   →      prefetch B[k + 6, l]
                                               tile[r, l] += A[r, k] * B[k, l]

Hardware prefetchers follow a stream within a page. If each step of the lane operand B is on another
page, every step would wait for memory: the mark says how many lines to prefetch. If these are more
than the tile has steps, they are the next ones of each row, for the next tiles.

Contiguous rows of A are one cache line per step, of which each row loads an element. On a miss in
L1 all of these loads, and what depends on them, are replayed. Steps of up to half a page hardware
prefetchers follow; of longer ones, the line of some steps later is prefetched once:

    for k in 0 … K:                          for k in 0 … K:
      tile[r, l] += A[k, r] * B[k, l]   →      prefetch A[k + 6, 0]
                                               tile[r, l] += A[k, r] * B[k, l]
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.codegen.tile_bounds import ZERO, mentions_any, span
from weft.codegen.tile_version import TileVersion, targets_of
from weft.ir.loop_ir import For, Prefetch, Stmt
from weft.ir.quasi_affine import affine
from weft.ir.scalar_affine import Affine, to_expr
from weft.ir.scalar_expr import Expr, Literal, Var, literal, substitute, variable_names
from weft.ir.scop import Access, Tensor

WIDE = 2  # cache lines along the lanes from which on one more load per step is free


def prefetch_next_tile(tile: TileVersion) -> list[Stmt]:
    """Prefetches of the sums of the next tile."""
    domain, lane = tile.domain, tile.domain.lane
    if tile.boundary or not domain.outer:
        return []
    ahead: dict[str, Expr] = {domain.outer[-1]: Var(domain.outer[-1]) + 1}
    found: list[Stmt] = []
    for name, indices in targets_of(tile):
        if any(domain.outer[-1] in variable_names(i) for i in indices):
            moved = tuple(substitute(i, ahead) for i in indices)
            step = tile.line(tile.instances.tensor(name).dtype)
            line = For(
                lane,
                ZERO,
                literal(tile.sizes[lane]),
                "unrolled",
                Prefetch(name, moved, True),
                step,
            )
            found.append(tile.rows(line))
    return found


def prefetch_lane_operand(tile: TileVersion, stream: str) -> list[Stmt]:
    """Prefetches of lanes of later steps of ``stream``, as many lines ahead as the mark says."""
    lane, lanes = tile.domain.lane, tile.sizes[tile.domain.lane]
    found: list[Stmt] = []
    for read in tile.statement.reads if tile.ahead else ():
        tensor = tile.instances.tensor(read.tensor)
        places = lane_indices(tile, read)
        moving = any(p.coefficient(stream) for p in places)
        if not moving or places[-1].coefficient(lane) != 1:
            continue
        line = tile.line(tensor.dtype)
        steps, trips = max(1, tile.ahead // -(-lanes // line)), _step_count(tile)
        if trips and steps >= trips:
            later = (
                *map(to_expr, places[:-1]),
                to_expr(places[-1].plus(tile.ahead // trips * line)),
            )
        else:
            later = tuple(to_expr(p.plus(p.coefficient(stream) * steps)) for p in places)
        hint = Prefetch(read.tensor, later, False)
        found.append(For(lane, ZERO, literal(lanes), "unrolled", hint, line))
    return found


def _step_count(tile: TileVersion) -> int:
    """The number of steps of the only reduction of ``tile``; 0 if unknown."""
    if len(tile.domain.streams) == 1:
        match span(tile.domain.streams_hull[0], tile.domain.streams[0]):
            case Literal(low), Literal(high):
                return int(high) - int(low)
    return 0


def prefetch_row_operand(tile: TileVersion, stream: str) -> list[Stmt]:
    """Prefetches of contiguous rows of a later step of ``stream``."""
    lane, found = tile.domain.lane, list[Stmt]()
    for read in tile.statement.reads:
        tensor = tile.instances.tensor(read.tensor)
        line = tile.line(tensor.dtype)
        places = _loop_indices(tile, read)
        moving = [row for row in tile.domain.rows if any(p.coefficient(row) for p in places)]
        if len(moving) != 1 or tile.sizes[lane] < WIDE * line:
            continue
        (row,) = moving
        *outer, last = places
        beside = last.coefficient(row) == 1 and not any(p.coefficient(row) for p in outer)
        along = any(p.coefficient(stream) for p in outer) and not last.coefficient(stream)
        step = _step(tensor, [p.coefficient(stream) for p in outer])
        prefetchers = tile.machine.prefetchers
        far = step is None or step > prefetchers.stride
        if beside and along and far and not any(mentions_any(p, (lane,)) for p in places):
            later = tuple(
                to_expr(p.plus(p.coefficient(stream) * prefetchers.steps)) for p in places
            )
            hint = Prefetch(read.tensor, later, False)
            found.append(For(row, ZERO, literal(tile.sizes[row]), "unrolled", hint, line))
    return found


def _step(tensor: Tensor, factors: Sequence[int]) -> int | None:
    """Bytes of a step by these numbers of elements along each dim but the last; None if unknown."""
    total, apart = 0, tensor.dtype.itemsize
    sizes = tensor.shape[len(tensor.shape) - len(factors) - 1 :]
    for factor, size in zip(reversed(factors), reversed(sizes), strict=False):
        if not isinstance(size, Literal):
            return None
        apart *= int(size.value)
        total += factor * apart
    return abs(total)


def lane_indices(tile: TileVersion, read: Access) -> list[Affine]:
    """The indices of ``read`` over the loops; none if rows move them or they are data."""
    places = _loop_indices(tile, read)
    return [] if any(mentions_any(p, tile.domain.rows) for p in places) else places


def _loop_indices(tile: TileVersion, read: Access) -> list[Affine]:
    """The indices of ``read`` over the loops; none if they are data."""
    if read.may:
        return []
    stored = read.indices[tile.instances.tensor(read.tensor).contracted :]
    return [tile.domain.inverse.over_loops(affine(index)) for index in stored]
