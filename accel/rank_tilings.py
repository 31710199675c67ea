"""Tilings of a piece of work, ranked by a cost model in closed form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from weft.accel.mapping import Mapping as Mapped
from weft.accel.tile_costs import CostModel
from weft.accel.tile_footprints import Tiles
from weft.accel.tile_grid import Flags, Numbers, grid, orders_of
from weft.accel.tiling import Tiling, slots_for, smallest_needs, views
from weft.ir.accelerator import Accelerator

FIRST = 64  # tilings that are first evaluated in all loop orders at once


@dataclass(frozen=True, slots=True)
class Candidate:
    mapped: Mapped
    sizes: Mapping[str, int]
    order: tuple[str, ...]
    packed: frozenset[int]
    cycles: float
    bytes: float


def candidates(
    mapped: Mapped, machine: Accelerator, most: int, *, buffers: int = 2
) -> list[Candidate]:
    """The ``most`` tilings with the fewest estimated cycles, best first, of those that fit."""
    return ranked(Tiles(mapped, grid(mapped.extents)), machine, most, buffers=buffers)


def ranked(tiles: Tiles, machine: Accelerator, most: int, *, buffers: int = 2) -> list[Candidate]:
    """``candidates`` among ``tiles``, which machines with equal mappings share."""
    found: list[Candidate] = []
    for packed in _spreads(tiles.mapped):
        model = CostModel(tiles, machine, packed, buffers)
        found += _best(model, _different(tiles, packed), most)
    found.sort(key=lambda c: (c.cycles, c.bytes))
    return found[:most]


def _different(tiles: Tiles, packed: frozenset[int]) -> Flags:
    """The tilings that differ from those without ``packed``."""
    found = np.full(tiles.sizes.shape[1], not packed)
    for n in packed:
        found |= tiles.footprint(n, True).whole != tiles.footprint(n, False).whole
    return found


def _best(model: CostModel, allowed: Flags, most: int) -> list[Candidate]:
    """The ``most`` best of a model's tilings; those whose lower bound is too high are pruned."""
    least = model.least()
    columns = np.nonzero(model.fits() & allowed)[0]
    columns = columns[np.argsort(least[columns], kind="stable")]
    cycles, moved = np.zeros(0), np.zeros(0)
    numbers, orders = orders_of(model.tiles.trips[:, :0])
    at, count = 0, FIRST
    while at < len(columns):
        if len(cycles) == most and least[columns[at]] > cycles[-1] + 1:
            break
        some = columns[at : at + count]
        inside, order = orders_of(model.tiles.trips[:, some])
        costs = model.costs(some[inside], order)
        cycles, moved = np.append(cycles, costs.cycles), np.append(moved, costs.bytes)
        numbers, orders = np.append(numbers, some[inside]), np.hstack([orders, order])
        best = np.lexsort((moved, cycles))[:most]
        best = best[np.isfinite(cycles[best])]
        cycles, moved = cycles[best], moved[best]
        numbers, orders = numbers[best], orders[:, best]
        at, count = at + count, 2 * count
    return [
        _candidate(model, int(number), orders[:, n], float(cycles[n]), float(moved[n]))
        for n, number in enumerate(numbers)
    ]


def _candidate(
    model: CostModel, number: int, order: Numbers, cycles: float, moved: float
) -> Candidate:
    names = list(model.tiles.dims)
    sizes = {dim: int(model.tiles.sizes[n, number]) for dim, n in model.tiles.dims.items()}
    return Candidate(
        model.mapped, sizes, tuple(names[n] for n in order), model.packed, cycles, moved
    )


def missing_room(mapped: Mapped, machine: Accelerator) -> dict[str, int]:
    """Memory → elements that the smallest tile needs, if it has fewer."""
    needed = smallest_needs(mapped)
    return {name: n for name, n in needed.items() if n > (machine.memory(name).depth or 0)}


def tilings(
    mapped: Mapped, machine: Accelerator, most: int, *, buffers: int = 2
) -> Iterator[Tiling]:
    """The best of ``candidates``, with the buffers in each memory."""
    return with_slots(candidates(mapped, machine, most, buffers=buffers), machine, buffers)


def with_slots(
    found: Iterable[Candidate], machine: Accelerator, buffers: int = 2
) -> Iterator[Tiling]:
    """The tilings ``found``, with the buffers in each memory, if these have room."""
    for each in found:
        mapped = each.mapped
        order = tuple(d for d in each.order if each.sizes[d] < mapped.extents[d])
        slots = slots_for(mapped, machine, each.sizes, order, each.packed, buffers)
        if slots is not None:
            yield Tiling(mapped, each.sizes, order, slots, each.packed)


def _spreads(mapped: Mapped) -> Iterator[frozenset[int]]:
    """Sets of views that are loaded packed: none, or all with a strided last axis."""
    yield frozenset()
    apart = set()
    for number, view in enumerate(views(mapped)):
        if number and view.axes:
            steps = [abs(c) for c in view.axes[-1].coefficients.values()]
            if len(steps) and max(steps) > 1:
                apart.add(number)
    if apart:
        yield frozenset(apart)
