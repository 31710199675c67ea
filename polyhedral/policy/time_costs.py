"""What the forms of a time-iterated program cost: an analytical model of the cycles of one time
step.

    sweeps     one pass over the arrays for each statement, or one for all of them where they share
               their rows: what a cache does not hold is loaded again in every step
    tiles      parallelograms of ``steps`` time steps by ``width`` rows (by ``width`` columns): what
               a tile loads serves all its steps
    diamonds   tiles between two slopes of the same steepness, which all start at once, whereas
               parallelograms start one after the other

The forms differ in the traffic between memories, bytes over bandwidth for each level as in
``polyhedral/cost``; in the overhead of short rows; and in how many threads have work. References:
Wonnacott, IJPP 2002 (skewing); Bandishti, Pananilath, Bondhugula, SC 2012 (diamonds).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, prod

from weft.ir.machine import Loops, Machine

TYPICAL_STEPS = 500  # time steps of a program, if not known
PLAIN, SHARED, TILES, DIAMONDS = "sweeps", "sweeps that share their rows", "tiles", "diamonds"
FEW_STEPS, MAX_STEPS = 4, 32
MARGIN = 1.1
SMALLEST = 12  # log2 of the bytes of the smallest arrays that are considered
FRONT = 4  # tiles per thread between two barriers
# Of a cache that one step of a tile may touch, by the number of dims that are tiled: rows pass
# through it; of columns too, only what the step before has written has to be there still.
STEP_SHARE = {1: 0.75, 2: 1.5}
SHARE = 0.5  # of a cache, for data that is to stay there
BAND_SHARE = 0.75  # of a cache, for the rows of a row of tiles, half of which are evicted soon


@dataclass(frozen=True, slots=True)
class Iterated:
    """A time-iterated program. ``extents`` of the dimensions that may be tiled: rows and, if any,
    columns; ``element``: bytes of all changing arrays for one point of these; ``slope``: rows that
    a step reaches further than the one before; ``vectors``: whether there are inner dimensions;
    ``passes``: over all arrays, in one step of sweeps; ``work``: cycles of one step with all data
    in L1; ``steps``: of the whole program, if known. Unknown sizes count as typical."""

    extents: tuple[int, ...]
    element: int
    slope: int
    statements: int
    vectors: bool
    passes: float
    work: float
    steps: int | None = None

    @property
    def volume(self) -> int:
        return prod(self.extents) * self.element

    def even(self, steps: int) -> float:
        """Time steps of a parallelogram on average, if at most ``steps``: of 40, 10 for 12."""
        return steps if self.steps is None else self.steps / ceil(self.steps / steps)


@dataclass(frozen=True, slots=True)
class Form:
    """One way to run it. ``steps`` 1: sweeps; ``columns``: tiled as well, by the same width;
    ``cycles``: of one time step."""

    name: str
    steps: int = 1
    width: int = 0
    columns: bool = False
    cycles: float = 0.0  # of one time step

    @property
    def label(self) -> str:
        """``skewed tiles of 8 steps by 64 rows``"""
        if self.steps == 1:
            return self.name
        by = f"{self.width} rows by {self.width} columns" if self.columns else f"{self.width} rows"
        return f"{self.name} of {self.steps} steps by {by}"

    def __str__(self) -> str:
        return f"{self.label} ({self.cycles / 1e6:.3g}M cycles a step)"


def forms(x: Iterated, machine: Machine, threads: int, *, shared: bool) -> list[Form]:
    """All forms with their costs, the cheapest first. ``shared``: the sweeps of several statements
    may be fused."""
    found = dict.fromkeys([sweeps(threads, shared), *_tiles(x, machine, threads)])
    return sorted((replace(f, cycles=cycles(f, x, machine, threads)) for f in found), key=_cost)


def sweeps(threads: int, shared: bool) -> Form:
    """The best form without time tiles: fused where that costs no parallelism."""
    return Form(SHARED if shared and threads == 1 else PLAIN)


def limit(form: Form, x: Iterated, machine: Machine, threads: int, *, shared: bool) -> int:
    """Up to how many bytes of arrays sweeps are cheaper than ``form``, a power of two, usually the
    size of some cache; 0 if they never are."""
    sweep = sweeps(threads, shared)
    size = 0
    for power in range(SMALLEST, x.volume.bit_length()):
        side = (2**power / x.volume) ** (1 / (len(x.extents) + x.vectors))
        extents = tuple(max(1, int(e * side)) for e in x.extents)
        element = max(1, int(x.element * side)) if x.vectors else x.element
        small = replace(x, extents=extents, element=element)
        small = replace(small, work=x.work * small.volume / x.volume)
        if cycles(sweep, small, machine, threads) >= cycles(form, small, machine, threads):
            break
        size = 2**power
    return size


def _cost(form: Form) -> float:
    """Parallelograms are preferred within the accuracy of the model."""
    return form.cycles * (MARGIN if form.name == DIAMONDS else 1.0)


def _tiles(x: Iterated, machine: Machine, threads: int) -> Iterator[Form]:
    """Tiles whose part of the arrays in one step stays in some cache."""
    if not x.vectors:
        for cache in machine.caches:
            width = int(cache.size * SHARE) // x.element
            if threads > 1:  # several tiles side by side also where rows are not that many
                width = min(width, 2 * FRONT * x.slope * MAX_STEPS)
            steps = min(width // (2 * x.slope), MAX_STEPS)
            if steps >= FEW_STEPS:
                yield from _both(Form(TILES, steps, width), x, threads)
                yield Form(TILES, ceil(x.even(steps)), width)
        return
    for cache in machine.caches[1:] or machine.caches:
        for dims in range(1, len(x.extents) + 1):
            row = prod(x.extents[dims:]) * x.element
            side = int((cache.size * STEP_SHARE[min(dims, 2)] / row) ** (1 / dims))
            steps = min(side // x.slope, MAX_STEPS)
            if threads > 1:  # sizes differ from what is assumed: some tiles more for each thread
                apart = 2 * x.extents[0] // (3 * x.slope * FRONT * threads)
                steps = min(steps, max(FEW_STEPS, apart))
            if steps < FEW_STEPS:
                continue
            for each in sorted({steps, ceil(x.even(steps))}):
                yield from _both(Form(TILES, each, each * x.slope, dims > 1), x, threads)


def _both(tiles: Form, x: Iterated, threads: int) -> Iterator[Form]:
    """``tiles``, and diamonds of that width, if several threads would wait for their start."""
    yield tiles
    if threads > 1 and not tiles.columns:
        yield replace(tiles, name=DIAMONDS, steps=tiles.width // x.slope)


# ---- the cost of one form -----------------------------------------------------------------------


def cycles(form: Form, x: Iterated, machine: Machine, threads: int) -> float:
    """Cycles of one time step on ``threads`` cores."""
    rates = [1 / cache.bandwidth for cache in machine.caches[1:]]
    rates.append(machine.frequency / machine.memory_bandwidth)
    moved = sum(
        _moved(form, x, cache.size, threads) * rate
        for cache, rate in zip(machine.caches, rates, strict=True)
    )
    busy, meetings = _threads_busy(form, x, threads)
    waiting = meetings * machine.barrier * machine.frequency
    return (x.work + _overhead(form, x, machine.loops) + moved) / busy + waiting


def _overhead(form: Form, x: Iterated, loops: Loops) -> float:
    if form.steps == 1:
        return 0.0
    if not x.vectors:
        width = form.width / 2 if form.name == DIAMONDS else form.width  # on average
        return loops.piece * x.statements * (1 + x.extents[0] / width)
    rows = prod(x.extents)
    cut = x.extents[-1] / form.width if form.columns else 0.0
    return (loops.row * rows + loops.piece * cut) * x.statements


def _moved(form: Form, x: Iterated, size: int, threads: int) -> float:
    """Bytes that pass into a cache of ``size`` bytes in one time step."""
    held = size * SHARE
    if x.volume <= held:
        return 0.0
    together = form.steps > 1 or form.name != PLAIN
    reach = 2 * x.slope * prod(x.extents[1:]) * x.element  # the rows that one step goes back to
    once = 2.0 * x.volume if together and reach <= held else x.passes * x.volume
    if form.steps == 1:
        return once
    dims = 2 if form.columns else 1
    band = 2 * form.width * prod(x.extents[1:]) * x.element  # all rows that steps of a tile touch
    now = form.width**dims * prod(x.extents[dims:]) * x.element  # … of a tile in one step
    if form.name == TILES and band <= size * BAND_SHARE and threads == 1:
        return min(once, 2.0 * x.volume / x.even(form.steps))
    if now > size * max(1, STEP_SHARE[dims]):
        return once
    steps = form.steps if form.name == DIAMONDS else x.even(form.steps)
    return min(once, 2.0 * x.volume * (2 << (dims - 1)) / steps)


def _threads_busy(form: Form, x: Iterated, threads: int) -> tuple[float, float]:
    """Threads that have work on average, and the barriers of one time step."""
    if threads == 1:
        return 1.0, 0.0
    if form.steps == 1:
        return float(threads), float(x.statements)
    rows = max(1, ceil(x.extents[0] / form.width))
    steps = x.steps or TYPICAL_STEPS
    high = max(1, ceil(steps / form.steps))
    if form.name == DIAMONDS:
        return rows / ceil(rows / threads), 2 / form.steps
    lean = 1 + ceil(form.steps * x.slope / form.width)  # fronts that a higher tile comes later
    fronts = lean * (high - 1) + rows + 1
    turns = 0
    for front in range(fronts):
        first, last = max(0, -((rows - front) // lean)), min(high - 1, front // lean)
        turns += ceil(max(1, last - first + 1) / threads)
    full = x.even(form.steps) / form.steps  # of a tile's steps, on average
    return full * high * (rows + 1) / turns, fronts / steps
