"""Time-iterated programs over boxes: bands skewed in time and rows, full-length rows inside.

    for t: for i: S(t, i, …)   →   for tt: for it: for t: for w: S(t, w - f·t, …)   w = i + f·t

A tile of ``steps`` time steps moves a window of rows through the arrays: ``f · steps`` rows and the
tile's own are in the cache at a time, and each is loaded once for all the steps. Rows stay whole,
so that vectors run along them undisturbed.

Reference: time skewing, Wonnacott, IJPP 2002.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.frontend.scalar_expr import Expr, Var
from weft.polyhedral.analysis.delta_box import Distances
from weft.polyhedral.analysis.hyperplanes import Hyperplanes
from weft.polyhedral.analysis.linear import box
from weft.polyhedral.machine import Machine
from weft.polyhedral.scop import Scop, Statement

TYPICAL_ELEMENTS = 4_000_000  # of an array whose size is not known
MAX_SLOPE = 3
MIN_STEPS, MAX_STEPS = 4, 64


@dataclass(frozen=True, slots=True)
class TimeTile:
    """Loops over time and skewed rows, by statement, with their tile sizes."""

    time: Mapping[str, Expr]
    rows: Mapping[str, Expr]
    steps: int
    width: int


def time_tile(
    scop: Scop, statements: Sequence[Statement], active: Sequence[Distances], machine: Machine
) -> TimeTile | None:
    """The time tile of ``statements``, which depend on each other in a cycle; None: no such."""
    if any(len(s.dims) < 2 or set(box(s)) != set(s.dims) for s in statements if s.dims):
        lower = [s for s in statements if len(s.dims) < 2]
        if any(set(box(s)) != set(s.dims) or not s.dims for s in statements) or len(lower) > len(
            statements
        ) // 2:
            return None
    order = {s.name: [p for p in s.position if isinstance(p, str)] for s in statements}
    search = Hyperplanes(active)
    time = search.valid({name: Var(dims[0]) for name, dims in order.items()})
    if time is None:
        return None
    anchor = max(statements, key=lambda s: len(s.dims))
    for slope in range(1, MAX_SLOPE + 1):
        skewed = {
            name: [Var(dims[0]) * slope + Var(d) for d in dims[1:]] + [Var(dims[0]) * slope]
            for name, dims in order.items()
        }
        rows = search.complete({anchor.name: skewed[anchor.name][0]}, skewed)
        if rows is not None:
            steps, width = _sizes(scop, statements, slope, machine)
            return TimeTile(time.at, rows.at, steps, width) if steps else None
    return None


def _sizes(
    scop: Scop, statements: Sequence[Statement], slope: int, machine: Machine
) -> tuple[int, int]:
    """(time steps, rows) of a tile whose window fits the smallest cache that holds some steps."""
    row = _row_bytes(scop, statements)
    for cache in machine.caches[1:] or machine.caches:
        rows = cache.size // 2 // row
        steps = rows // (2 * slope)
        if steps >= MIN_STEPS:
            steps = min(steps, MAX_STEPS)
            return steps, max(4, slope * steps // 2)
    return 0, 0


def _row_bytes(scop: Scop, statements: Sequence[Statement]) -> int:
    """One row of every array that changes with time: all but its leading dimension."""
    total = 0
    for tensor in scop.tensors:
        written = any(w.tensor == tensor.name for s in statements for w in s.writes)
        if written and tensor.shape:
            rank = len(tensor.shape)
            total += int(TYPICAL_ELEMENTS ** ((rank - 1) / rank)) * tensor.dtype.itemsize
    return max(total, 1)
