"""The tilings of a piece of work, ranked by what they cost in closed form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from weft.accel.accelerator import Accelerator
from weft.accel.mapping import Mapping as Mapped
from weft.accel.tile_costs import Array, CostModel
from weft.accel.tiling import Tiling, slots_for, views

SIZES = 10  # of tiles along one loop
GRID = 40_000  # combinations of them
PERMUTED = 4  # loops whose order is tried out


@dataclass(frozen=True, slots=True)
class Candidate:
    sizes: Mapping[str, int]
    order: tuple[str, ...]
    spread: frozenset[int]
    cycles: float
    bytes: float


def candidates(
    mapped: Mapped, machine: Accelerator, most: int, *, buffers: int = 2
) -> list[Candidate]:
    """The ``most`` tilings that take the fewest cycles, about, the best first. Tilings that do not
    fit are none."""
    model = CostModel(mapped, machine)
    grid, loops = _grid(mapped)
    found: list[Candidate] = []
    for spread in _spreads(mapped):
        for order in _orders(loops):
            costs = model.costs(grid, order, spread, buffers)
            best = np.argsort(costs.cycles, kind="stable")[:most]
            found += [
                Candidate(
                    {d: int(s[n]) for d, s in grid.items()},
                    order,
                    spread,
                    float(costs.cycles[n]),
                    float(costs.bytes[n]),
                )
                for n in best
                if np.isfinite(costs.cycles[n])
            ]
    found.sort(key=lambda c: (c.cycles, c.bytes))
    return _different(found)[:most]


def _different(found: list[Candidate]) -> list[Candidate]:
    """Without those that differ in the order of loops over one tile alone."""
    seen: dict[object, Candidate] = {}
    for each in found:
        key = (tuple(each.sizes.items()), each.order, each.spread)
        seen.setdefault(key, each)
    return list(seen.values())


def tilings(
    mapped: Mapped, machine: Accelerator, most: int, *, buffers: int = 2
) -> Iterator[Tiling]:
    """The best of ``candidates``, with what each memory holds."""
    for each in candidates(mapped, machine, most, buffers=buffers):
        order = tuple(d for d in each.order if each.sizes[d] < mapped.extents[d])
        slots = slots_for(mapped, machine, each.sizes, order, each.spread, buffers)
        if slots is not None:
            yield Tiling(mapped, each.sizes, order, slots, each.spread)


def _grid(mapped: Mapped) -> tuple[dict[str, Array], list[str]]:
    """All combinations of sizes, and the loops that are cut in some of them."""
    sizes = {d: _sizes(n) for d, n in mapped.extents.items()}
    while np.prod([len(s) for s in sizes.values()]) > GRID:
        longest = max(sizes, key=lambda d: len(sizes[d]))
        sizes[longest] = _thinned(sizes[longest])
    mesh = np.meshgrid(*[np.array(s, float) for s in sizes.values()], indexing="ij")
    grid = {d: m.reshape(-1) for d, m in zip(sizes, mesh, strict=True)}
    return grid, [d for d, s in sizes.items() if len(s) > 1]


def _sizes(extent: int) -> list[int]:
    """Sizes that cut ``extent`` into equal parts, about: at most ``SIZES``."""
    every = sorted({-(-extent // parts) for parts in range(1, extent + 1)})
    whole = [s for s in every if extent % s == 0]
    found = whole if len(whole) > 3 else every
    while len(found) > SIZES:
        found = _thinned(found)
    return found


def _thinned(sizes: list[int]) -> list[int]:
    """Every other one, the first and the last kept."""
    return [*sizes[:-1:2], sizes[-1]] if len(sizes) > 2 else sizes[-1:]


def _orders(loops: list[str]) -> Iterator[tuple[str, ...]]:
    fixed, free = loops[:-PERMUTED], loops[-PERMUTED:]
    for order in permutations(free):
        yield (*fixed, *order)


def _spreads(mapped: Mapped) -> Iterator[frozenset[int]]:
    """Which views are loaded without what their last axis steps over: none; those that do."""
    yield frozenset()
    apart = set()
    for number, view in enumerate(views(mapped)):
        if number and view.axes:
            steps = [abs(c) for c in view.axes[-1].coefficients.values()]
            if len(steps) and max(steps) > 1:
                apart.add(number)
    if apart:
        yield frozenset(apart)
