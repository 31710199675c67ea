"""Strategy for time-iterated programs over boxes: bands skewed in time and rows, rows whole inside.

    for t: for i: S(t, i, …)   →   for tt: for it: for t: for w: S(t, w - f·t, …)   w = i + f·t

A tile of ``steps`` time steps moves a window of rows through the arrays: ``f · steps`` rows and the
tile's own are in the cache at a time, and each is loaded once for all the steps. Rows stay whole,
so that vectors run along them undisturbed.

Reference: time skewing, Wonnacott, IJPP 2002.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from weft.frontend.scalar_expr import Literal, Var
from weft.polyhedral.analysis.linear import box, linear
from weft.polyhedral.machine import Machine
from weft.polyhedral.policy.planner import At, Group, Planner
from weft.polyhedral.policy.slanted import ROWS, slanted_rows
from weft.polyhedral.policy.wavefront import tile_loops
from weft.polyhedral.schedule_tree import Band, Tree
from weft.polyhedral.scop import Scop, Statement

TYPICAL_ELEMENTS = 4_000_000  # of an array whose size is not known
LINE = 64  # bytes; shorter "rows" are the elements of a vector
MAX_SLOPE = 3
FEW_STEPS, MANY_STEPS, MAX_STEPS = 4, 16, 32
FRONT = 4  # tiles for each thread between two meetings


@dataclass(frozen=True, slots=True)
class TimeTile:
    """Loops over time and skewed rows, by statement, with their tile sizes."""

    time: At
    rows: At
    steps: int
    width: int


def stencil(planner: Planner, group: Group) -> Tree | None:
    """``group`` in tiles of time and rows; None if it is no such program."""
    if group.above or not group.active:
        return None
    tile = time_tile(planner, group)
    if tile is None:
        return None
    rows = group.inside(tile.time, tile.rows)
    thin = not any(planner.free(rows, n) for n in group.names)  # rows are single elements
    if thin and _waits(planner, group.inside(tile.time)):
        return None
    planner.notes.append(
        f"time tiles of {tile.steps} steps by {tile.width} rows: what a window of rows takes from"
        f" memory serves {tile.steps} steps"
    )
    waits = _waits(planner, rows)
    if waits:
        tile = replace(tile, width=ROWS)
    tiles = (
        {n: e // tile.steps for n, e in tile.time.items()},
        {n: e // tile.width for n, e in tile.rows.items()},
    )
    loops = tile_loops(planner, group, {"t_t": tiles[0], "w_t": tiles[1]})
    points = [planner.loop("t", tile.time)]
    inside = group.inside(*tiles, tile.time)
    if waits:
        slanted = slanted_rows(planner, inside, tile.rows)
        if slanted is not None:
            return Band((*loops, *points), slanted)
    if any(len(planner.free(inside, n)) > 1 for n in group.names):  # rows are vectors of their own
        points.append(planner.loop("w", tile.rows))
        inside = inside.inside(tile.rows)
    return Band((*loops, *points), planner.nest(inside))


def _waits(planner: Planner, row: Group) -> bool:
    """Whether some statement depends on itself along its row."""
    for names in row.components():
        part = row.part(names)
        free = [planner.free(part, n) for n in names]
        if not all(free):
            return False
        along = part.search().valid({n: Var(dims[-1]) for n, dims in zip(names, free, strict=True)})
        if along is None or not along.coincident:
            return True
    return False


def time_tile(planner: Planner, group: Group) -> TimeTile | None:
    """The time tile of statements that depend on each other in a cycle; None: no such."""
    statements = planner.statements(group)
    if not all(s.dims and set(box(s)) == set(s.dims) for s in statements):
        return None
    order = {s.name: [p for p in s.position if isinstance(p, str)] for s in statements}
    anchor = max(statements, key=lambda s: len(s.dims)).name
    if len(order[anchor]) < 2:
        return None
    search = group.search()
    time = search.valid({name: Var(dims[0]) for name, dims in order.items()})
    if time is None or time.coincident or not any(map(_comes_back, statements)):
        return None
    for slope in range(1, MAX_SLOPE + 1):
        skewed = {
            name: [Var(dims[0]) * slope + Var(d) for d in dims[1:]] + [Var(dims[0]) * slope]
            for name, dims in order.items()
        }
        rows = search.complete({anchor: skewed[anchor][0]}, skewed)
        if rows is not None:
            steps, width = _sizes(planner.scop, statements, slope, planner.machine, planner.threads)
            return TimeTile(time.at, rows.at, steps, width) if steps else None
    return None


def _comes_back(s: Statement) -> bool:
    """Whether ``s`` writes the same elements in other time steps: otherwise a step has nothing to
    gain from what the step before has loaded."""
    time = next(p for p in s.position if isinstance(p, str))
    forms = [linear(index, (time,)) for write in s.writes for index in write.indices]
    return not any(form is not None and form.coefficients.get(time) for form in forms)


def _sizes(
    scop: Scop, statements: Sequence[Statement], slope: int, machine: Machine, threads: int
) -> tuple[int, int]:
    """(time steps, rows) of a tile whose window fits the smallest cache that holds many steps, or
    else the largest that holds a few: with fewer, skewing costs more than is saved."""
    row, count = _rows(scop, statements)
    wide = row > LINE
    best = 0, 0
    for cache in (machine.caches[1:] or machine.caches) if wide else machine.caches:
        steps = min(cache.size // 2 // row // (2 * slope), MAX_STEPS)
        if threads > 1 and wide:  # so many tiles are independent of each other at a time
            steps = min(steps, max(FEW_STEPS, 2 * count // (3 * slope * FRONT * threads)))
        if steps >= FEW_STEPS:
            elements = cache.size // 2 // row
            if threads > 1:  # several tiles side by side also where rows are not that many
                elements = min(elements, 2 * FRONT * slope * steps)
            best = steps, max(4, slope * steps // 2) if wide else elements
        if steps >= MANY_STEPS:
            break
    return best


def _rows(scop: Scop, statements: Sequence[Statement]) -> tuple[int, int]:
    """Bytes of one row of every array that changes with time, all but its leading dimension, and
    how many rows the longest has."""
    total, count = 0, 1
    for tensor in scop.tensors:
        written = any(w.tensor == tensor.name for s in statements for w in s.writes)
        if written and tensor.shape:
            typical = int(TYPICAL_ELEMENTS ** (1 / len(tensor.shape)))
            sizes = [int(e.value) if isinstance(e, Literal) else typical for e in tensor.shape]
            total += prod(sizes[1:]) * tensor.dtype.itemsize
            count = max(count, sizes[0])
    return max(total, 1), count
