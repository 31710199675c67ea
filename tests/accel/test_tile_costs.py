"""Closed forms beside streams: what memories hold exactly, cycles by their ranks."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.accel.convolutions import convolution, on
from weft.accel.machines.vta import Config, vta
from weft.accel.mapping import Mapping
from weft.accel.place import place
from weft.accel.rank_tilings import candidates, tilings
from weft.accel.tile_costs import CostModel
from weft.accel.tile_footprints import Tiles
from weft.accel.tile_grid import grid, orders_of
from weft.accel.tiling import Tiling, slots_for
from weft.accel.timing import timing

NONE: frozenset[int] = frozenset()
SMALL = Config(
    log_uop_buff_size=12, log_inp_buff_size=11, log_wgt_buff_size=13, log_acc_buff_size=13
)
WIDE = Config(log_batch=1, log_block=5, log_wgt_buff_size=14)


def random_tilings(mapped: Mapping, machine, count: int, seed: int) -> list[Tiling]:  # type: ignore[no-untyped-def]
    """Sizes and orders at random, of those that fit and are no more than 150 tiles."""
    pick = random.Random(seed)
    found: dict[object, Tiling] = {}
    for _ in range(100 * count):
        sizes = {
            dim: pick.choice((n, n, -(-n // pick.randint(1, min(n, 8))), pick.randint(1, n)))
            for dim, n in mapped.extents.items()
        }
        if np.prod([-(-n // sizes[dim]) for dim, n in mapped.extents.items()]) > 150:
            continue
        order = [dim for dim, n in mapped.extents.items() if sizes[dim] < n]
        pick.shuffle(order)
        slots = slots_for(mapped, machine, sizes, tuple(order), NONE, 2)
        if slots is not None:
            key = (*sizes.values(), *order)
            found[key] = Tiling(mapped, sizes, tuple(order), slots, NONE)
        if len(found) == count:
            break
    return list(found.values())


def estimates(mapped: Mapping, machine, made: list[Tiling]) -> np.ndarray:  # type: ignore[no-untyped-def,type-arg]
    dims = list(mapped.extents)
    tiles = Tiles(mapped, np.array([[t.sizes[d] for t in made] for d in dims], float))
    orders = [
        [*(d for d in dims if d not in t.order), *t.order]
        for t in made
    ]  # fmt: skip
    numbers = np.array([[dims.index(d) for d in order] for order in orders]).T
    return CostModel(tiles, machine, NONE).costs(np.arange(len(made)), numbers).cycles


def ranks(values: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """From the least on; equal ones share theirs."""
    return np.array([np.mean(np.nonzero(np.sort(values) == value)) for value in values])


@pytest.mark.long
@pytest.mark.parametrize("config", [SMALL, WIDE], ids=["small", "wide"])
@pytest.mark.parametrize(
    "layer", [(48, 14, 64, 3, 1, 1), (64, 14, 96, 1, 2, 0)], ids=["3x3", "1x1"]
)
def test_ranks_are_those_of_simulated_streams(config: Config, layer: tuple[int, ...]) -> None:
    target, mapped = on(vta(config), convolution(*layer))
    made = random_tilings(mapped, target.machine, 30, 5)
    found = estimates(mapped, target.machine, made)
    machines = target.machine, target.plain
    placed = [place(*machines, target.capabilities, t, {}, target.arranged) for t in made]
    simulated = np.array([timing(each.artifact.stream).cycles for each in placed])
    assert len(made) == 30
    assert np.all(np.isfinite(found))
    assert np.corrcoef(ranks(found), ranks(simulated))[0, 1] >= 0.8
    assert 0.9 < np.median(found / simulated) < 1.15


def test_what_fits_is_what_has_slots() -> None:
    machine = vta(SMALL)
    _, mapped = on(machine, convolution(32, 14, 32, 3, 2, 1))
    tiles = Tiles(mapped, grid(mapped.extents))
    columns, orders = orders_of(tiles.trips)
    pick = np.random.default_rng(3).choice(len(columns), 300, replace=False)
    costs = CostModel(tiles, machine, NONE).costs(columns[pick], orders[:, pick])
    dims = list(mapped.extents)
    for n, at in enumerate(pick):
        sizes = {d: int(tiles.sizes[k, columns[at]]) for k, d in enumerate(dims)}
        order = tuple(dims[k] for k in orders[:, at] if sizes[dims[k]] < mapped.extents[dims[k]])
        slots = slots_for(mapped, machine, sizes, order, NONE, 2)
        assert (slots is not None) == np.isfinite(costs.cycles[n])


@pytest.mark.parametrize("most", [1, 5])
def test_bounds_leave_out_nothing_better(most: int) -> None:
    machine = vta(SMALL)
    _, mapped = on(machine, convolution(32, 14, 32, 3, 2, 1))
    tiles = Tiles(mapped, grid(mapped.extents))
    every = CostModel(tiles, machine, NONE).costs(*orders_of(tiles.trips)).cycles
    found = [each.cycles for each in candidates(mapped, machine, most)]
    assert len(found) == most
    assert found[0] <= np.min(every)
    assert all(cycles <= best for cycles, best in zip(found, np.sort(every)[:most], strict=True))


def test_candidates_are_different_tilings() -> None:
    machine = vta(SMALL)
    _, mapped = on(machine, convolution(32, 14, 32, 3, 2, 1))
    made = list(tilings(mapped, machine, 60))
    keys = {(*t.sizes.values(), t.order, *(s.size for s in t.slots)) for t in made}
    assert len(made) == len(keys) == 60


def test_configurations_have_tilings_of_their_own() -> None:
    scop = convolution(64, 28, 64, 3, 1, 1)
    found = []
    for config in (Config(), SMALL, WIDE):
        target, mapped = on(vta(config), scop)
        best = next(tilings(mapped, target.machine, 1))
        found.append((tuple(best.sizes.values()), best.order))
    assert len(set(found)) == 3
