"""Tiles that others publish for products, beside the cheapest by our own price.

DeepGEMM chooses by a closed form (``csrc/jit_kernels/heuristics/sm90.hpp``, 2026): its choices for
the shapes of its own tests (``tests/generators.py``, bfloat16 forwards). cuBLAS shows its choice in
the name of a kernel (``nvjet_tst_256x128_64x4_1x2``: tile, depth and stages, cluster); it counts
rows along memory, we count across it. Those below were recorded on an H100: of bfloat16 squares in
a capture of cuBLASLt's modules, of float16 in a profile of Triton's persistent product.

Both multiply by ``wgmma``, which has no code here, so that its steps are priced from the facts:

    units    64 rows by 8 to 256 lanes, 2048 multiply-adds of 16 bits in a cycle: half of 989.4 T/s
             by 132 multiprocessors of 1.83 GHz (H100's data sheet)
    copies   of a cluster of two, one operand is sent to both (TMA multicast)
    banks    each operand written once and read once by a block, as DeepGEMM counts
    memory   blocks are numbered in groups, so that a wave touches as little as it can

The space is DeepGEMM's, with cuBLAS's rows and lanes: rows of 64, 128, 192 and 256, lanes in steps
of 16 to 320, no more than 160 sums for each thread of two warpgroups, at least three stages in what
a launch may ask for, and the published cluster, either way round: what a cluster costs is not in
the price, and DeepGEMM takes none where there is one wave.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

from weft.codegen.machines.nvidia import H100
from weft.polyhedral.policy.gpu_tile_costs import TiledProduct, TileStep, tile_price

Shape = tuple[int, int, int]  # rows, lanes, depth

SIZE, DEPTH, MULTIPLY_ADDS = 2, 64, 2048
WARPGROUP, SUMS, THREADS = 64, 160, 128
ROWS, LANES = (64, 128, 192, 256), range(16, 321, 16)
FEWEST_STAGES, MOST_STAGES = 3, 16
ENOUGH = 1.05  # a choice is right that costs no more, of what the cheapest does


@dataclass(frozen=True, slots=True)
class Tile:
    """``rows`` × ``lanes`` in ``stages``; ``cluster``: blocks that share lanes, and rows."""

    rows: int
    lanes: int
    stages: int
    cluster: tuple[int, int] = (1, 1)

    def __str__(self) -> str:
        clusters = "" if self.cluster == (1, 1) else f" in {self.cluster[0]}x{self.cluster[1]}"
        return f"{self.rows}x{self.lanes}, {self.stages} stages{clusters}"


@dataclass(frozen=True, slots=True)
class Published:
    source: str
    shape: Shape
    tile: Tile


DOWN, ACROSS = (2, 1), (1, 2)
PUBLISHED = (
    Published("DeepGEMM", (1, 2112, 7168), Tile(16, 16, 16)),
    Published("DeepGEMM", (1, 576, 7168), Tile(16, 16, 16)),
    Published("DeepGEMM", (1, 24576, 1536), Tile(16, 96, 15, DOWN)),
    Published("DeepGEMM", (1, 32768, 512), Tile(16, 128, 12, DOWN)),
    Published("DeepGEMM", (1, 7168, 16384), Tile(16, 64, 16)),
    Published("DeepGEMM", (1, 4096, 7168), Tile(16, 32, 16)),
    Published("DeepGEMM", (1, 7168, 2048), Tile(16, 64, 16)),
    Published("DeepGEMM", (128, 2112, 7168), Tile(64, 32, 16)),
    Published("DeepGEMM", (128, 576, 7168), Tile(64, 16, 16)),
    Published("DeepGEMM", (128, 24576, 1536), Tile(128, 192, 4)),
    Published("DeepGEMM", (128, 32768, 512), Tile(128, 256, 3)),
    Published("DeepGEMM", (128, 7168, 16384), Tile(64, 112, 9)),
    Published("DeepGEMM", (128, 4096, 7168), Tile(64, 64, 13)),
    Published("DeepGEMM", (128, 7168, 2048), Tile(64, 112, 9)),
    Published("DeepGEMM", (4096, 2112, 7168), Tile(128, 176, 4, DOWN)),
    Published("DeepGEMM", (4096, 576, 7168), Tile(128, 144, 5)),
    Published("DeepGEMM", (4096, 24576, 1536), Tile(128, 240, 3, DOWN)),
    Published("DeepGEMM", (4096, 32768, 512), Tile(256, 128, 3, ACROSS)),
    Published("DeepGEMM", (4096, 7168, 16384), Tile(256, 128, 3, ACROSS)),
    Published("DeepGEMM", (4096, 4096, 7168), Tile(256, 128, 3, ACROSS)),
    Published("DeepGEMM", (4096, 7168, 2048), Tile(256, 128, 3, ACROSS)),
    Published("cuBLAS", (1024, 1024, 1024), Tile(64, 128, 8, DOWN)),
    Published("cuBLAS", (2048, 2048, 2048), Tile(128, 256, 4, DOWN)),
    Published("cuBLAS", (4096, 4096, 4096), Tile(128, 256, 4, DOWN)),
    Published("cuBLAS", (8192, 8192, 8192), Tile(128, 320, 3, DOWN)),
    Published("cuBLAS", (16384, 16384, 16384), Tile(192, 192, 3, ACROSS)),
    Published("cuBLAS", (8192, 8192, 512), Tile(128, 256, 4, DOWN)),
)


def run() -> Iterator[dict[str, Any]]:
    """What each published tile costs of the cheapest one of the space."""
    for one in PUBLISHED:
        own = cycles(one.shape, one.tile)
        best = min(space(one), key=lambda tile: cycles(one.shape, tile))
        least = min(own, cycles(one.shape, best))
        yield {
            "product": "x".join(map(str, one.shape)),
            "by": one.source,
            "tile": str(one.tile),
            "kilocycles": round(own / 1e3, 1),
            "cheapest": str(best) if least < own else "",
            "of it": round(own / least, 3),
            "right": own <= ENOUGH * least,
        }


def space(one: Published) -> Iterator[Tile]:
    """The tiles that one with the cluster of ``one`` is chosen from, and its own rows."""
    for rows in {*ROWS, one.tile.rows}:
        for lanes in LANES:
            groups = 1 if rows <= WARPGROUP else 2
            left = H100.shared_memory_most - rows * lanes * SIZE
            stages = min(left // ((rows + lanes) * DEPTH * SIZE), MOST_STAGES)
            if rows * lanes <= SUMS * THREADS * groups and stages >= FEWEST_STAGES:
                for cluster in {one.tile.cluster, one.tile.cluster[::-1]}:
                    yield Tile(rows, lanes, stages, cluster)


def cycles(shape: Shape, tile: Tile) -> float:
    """The price of ``shape`` in tiles of this size."""
    rows, lanes, depth = shape
    down, across = ceil(rows / tile.rows), ceil(lanes / tile.lanes)
    computed = ceil(tile.rows / WARPGROUP) * WARPGROUP
    sharing_lanes, sharing_rows = tile.cluster
    copied = tile.rows / sharing_rows + tile.lanes / sharing_lanes
    moved = tile.rows + computed + 2 * tile.lanes
    step = TileStep(
        computed * tile.lanes * DEPTH / MULTIPLY_ADDS, copied * DEPTH * SIZE, moved * DEPTH * SIZE
    )
    stored = min(rows, tile.rows) * min(lanes, tile.lanes) * SIZE
    row_bytes, lane_bytes = (ceil(n * depth * SIZE / k) for n, k in ((rows, down), (lanes, across)))
    tiled = TiledProduct(
        down,
        across,
        1,
        step,
        ceil(depth / DEPTH),
        tile.stages,
        stored,
        1,
        min(_waves(down, across), key=lambda n: n[0] * row_bytes + n[1] * lane_bytes),
        row_bytes,
        lane_bytes,
    )
    return tile_price(H100, tiled).cycles


def _waves(down: int, across: int) -> Iterator[tuple[int, int]]:
    """Shapes of as many blocks as are at work at once, or of all: each number of rows."""
    many = min(H100.multiprocessors, down * across)
    for rows in range(ceil(many / across), min(down, many) + 1):
        yield rows, ceil(many / rows)
