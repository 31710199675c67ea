"""Tiles that others publish cost at most 5 % more than the cheapest of the same space; and what the
price says of waves, stages, memory and blocks side by side."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from weft.benchmarks.gpu.published_tiles import ENOUGH, run
from weft.codegen.machines.nvidia import A100, H100
from weft.polyhedral.policy.gpu_tile_costs import (
    TiledProduct,
    TilePrice,
    TileStep,
    resident,
    tile_price,
    wave,
)

STEP = TileStep(units=1000.0, copied=16 * 1024, banks=32 * 1024)


def tiled(down: int, across: int, **others: Any) -> TiledProduct:
    """Blocks of 8 steps in three stages, alone on a multiprocessor, which move little."""
    one = TiledProduct(down, across, 1, STEP, 8, 3, 1024, 1, wave(132, down, across), 1024, 1024)
    return replace(one, **others)


@pytest.mark.parametrize("row", list(run()), ids=lambda row: f"{row['by']} {row['product']}")
def test_published_choices_are_first_or_within_5_percent(row: dict[str, Any]) -> None:
    assert row["right"], row


def guide(rows: int, lanes: int) -> TilePrice:
    """6912 × 2048 × 4096 of 16 bits on an A100, whole waves of the largest tile, in three stages of
    32 steps; a warp has 64 × 64 of a tile, or half."""
    depth, size, product = 32, 2, (6912, 2048, 4096)
    down, across = product[0] // rows, product[1] // lanes
    copied = (rows + lanes) * depth * size
    loaded = (rows * -(-lanes // 64) + lanes * -(-rows // 64)) * depth * size
    step = TileStep(rows * lanes * depth / 1024, copied, copied + loaded)
    most = resident(A100, 3 * copied, rows * lanes // 128, rows * lanes)
    sides = (n * product[2] * size for n in (rows, lanes))
    at_once = wave(A100.multiprocessors * most, down, across)
    steps, stored = product[2] // depth, rows * lanes * size
    made = TiledProduct(down, across, 1, step, steps, 3, stored, most, at_once, *sides)
    return tile_price(A100, made)


def test_larger_tiles_are_cheaper_as_the_guide_says() -> None:
    """Typical tiles of cuBLAS, the most efficient first: "Matrix Multiplication Background User's
    Guide", section 2.3."""
    order = (256, 128), (128, 128), (256, 64), (128, 64), (64, 64)
    prices = [guide(*tile) for tile in order]
    assert all(one.cycles <= ENOUGH * other.cycles for one, other in pairwise(prices))
    assert all(one.work < other.work for one, other in pairwise(prices))
    assert guide(64, 64).cycles > 1.1 * guide(256, 128).cycles


def test_a_block_more_than_a_wave_costs_a_wave_more() -> None:
    full, more = tile_price(H100, tiled(12, 11)), tile_price(H100, tiled(133, 1))
    assert more.cycles == pytest.approx(2 * full.cycles)
    assert tile_price(H100, tiled(1, 1)).cycles == full.cycles


def test_more_stages_hide_latency_until_the_units_are_busy() -> None:
    light = replace(STEP, units=10.0, copied=64.0, banks=128.0)
    waiting = [tile_price(H100, tiled(1, 1, step=light, stages=n)).cycles for n in (2, 3, 4)]
    assert all(fewer > more for fewer, more in pairwise(waiting))
    busy = {tile_price(H100, tiled(1, 1, stages=n)).cycles for n in (2, 3, 4)}
    assert len(busy) == 1


def test_blocks_side_by_side_hide_each_others_latency() -> None:
    light = replace(STEP, units=10.0, copied=64.0, banks=128.0)
    alone, two = (tile_price(H100, tiled(264, 1, step=light, resident=n)) for n in (1, 2))
    assert two.cycles == pytest.approx(alone.cycles / 2)
    busy = [tile_price(H100, tiled(264, 1, resident=n)).cycles for n in (1, 2)]
    assert 2 * 8 * STEP.units <= busy[1] < busy[0]


def test_nothing_is_faster_than_memory() -> None:
    large = tiled(64, 64, rows=1 << 24, lanes=1 << 24)
    bytes_least = 128 * (1 << 24)
    assert tile_price(H100, large).cycles >= bytes_least / H100.bandwidth * H100.clock
    fits = tiled(2, 2, rows=1 << 20, lanes=1 << 20)
    floor = (4 * (1 << 20) + 4 * 1024) / H100.bandwidth * H100.clock
    assert tile_price(replace(H100, clock=H100.clock * 100), fits).cycles == pytest.approx(
        100 * floor
    )


@pytest.mark.parametrize("blocks", [1, 7, 12, 132])
@pytest.mark.parametrize(("down", "across"), [(1, 5), (5, 1), (4, 12), (40, 3)])
def test_a_wave_is_what_its_first_blocks_touch(blocks: int, down: int, across: int) -> None:
    numbers = range(min(blocks, down * across))
    touched = {n // across for n in numbers}, {n % across for n in numbers}
    assert wave(blocks, down, across) == tuple(map(len, touched))


def test_blocks_at_once_by_memory_threads_and_registers() -> None:
    assert resident(H100, H100.shared_memory_most, 128, 1024) == 1
    assert resident(H100, 1024, 1024, 1024) == 2
    assert resident(H100, 1024, 128, 128 * 128) == 2
