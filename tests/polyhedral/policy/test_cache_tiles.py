"""Sizes of cache tiles follow from the machine: larger caches, larger tiles; nothing below 1."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weft.ir.machine import Cache, Machine
from weft.polyhedral.policy.cache_tiles import (
    cache_tiles,
    kc_of,
    l3_feeds_lanes,
    l3_feeds_rows,
    nearest,
)

SERVER = Machine("server", 64, 32, (Cache(1 << 15), Cache(1 << 20), Cache(1 << 25, cores=2)))
SMALL = Machine("small", 16, 16, (Cache(1 << 12), Cache(1 << 14)))


@pytest.mark.parametrize("machine", [SERVER, SMALL, Machine("none", 1, 1, (Cache(64),))])
@pytest.mark.parametrize("itemsize", [1, 4, 8])
def test_tiles_have_elements(machine: Machine, itemsize: int) -> None:
    tiles = cache_tiles(machine, itemsize)
    assert min(tiles.kc, tiles.nc, tiles.mc, tiles.mc_shared, tiles.square) >= 1


@pytest.mark.parametrize("itemsize", [4, 8])
def test_what_a_tile_holds_fits_its_cache(itemsize: int) -> None:
    tiles = cache_tiles(SERVER, itemsize)
    near = SERVER.caches[1]
    assert (tiles.mc + tiles.kc) * tiles.nc * itemsize <= near.size
    assert tiles.square**2 * itemsize <= near.size


def test_a_slow_last_cache_leaves_all_that_is_used_again_nearer() -> None:
    first, near, last = SERVER.caches
    slow = replace(SERVER, caches=(first, near, replace(last, bandwidth=5.0)))
    assert l3_feeds_rows(SERVER, 4) and l3_feeds_lanes(SERVER)
    assert not l3_feeds_rows(slow, 4) and not l3_feeds_lanes(slow)
    tiles = cache_tiles(slow, 4)
    held = tiles.kc * (tiles.mc + tiles.nc) + tiles.mc * tiles.nc
    assert held * 4 <= near.size
    assert tiles.mc_shared == tiles.mc


@pytest.mark.parametrize("speed", [9.0, 12.0, 15.0, 24.0])
def test_no_speed_of_the_last_cache_leaves_tiles_of_a_few_rows(speed: float) -> None:
    last = replace(SERVER.caches[-1], bandwidth=speed)
    tiles = cache_tiles(replace(SERVER, caches=(*SERVER.caches[:-1], last)), 8)
    assert tiles.mc >= tiles.nc


def test_larger_caches_have_larger_tiles() -> None:
    first, near, last = SERVER.caches
    larger = replace(SERVER, caches=(first, Cache(2 * near.size), last))
    before, after = cache_tiles(SERVER, 4), cache_tiles(larger, 4)
    assert after.mc > before.mc and after.square > before.square


def test_faster_arithmetic_has_longer_streams() -> None:
    slow = replace(SERVER, fma_per_cycle=1)
    assert kc_of(slow) == kc_of(SERVER) // 2


def test_the_nearest_multiple_is_at_least_one() -> None:
    assert [nearest(85, tile) for tile in (48, 64, 24, 200)] == [96, 64, 96, 200]
