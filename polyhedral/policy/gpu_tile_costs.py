"""What a product costs a GPU in tiles of a size, in cycles, from the device's record alone.

A block multiplies a tile of results, step by step. A multiprocessor has ``n`` blocks, of which
``resident`` at once, and is busy for

    alone  = latency + steps × max(units, copies, banks, latency / (stages - 1)) + stores
    shared = steps × max(units, copies, banks), with stores among the copies
    cycles = max(ceil(n / resident) × alone, n × shared, bytes of memory / its bandwidth)

    units    multiply-adds / rate of the instruction, of whole tiles
    copies   bytes from L2 / a multiprocessor's share of its rate, with no more for one whose
             neighbours are idle
    banks    bytes written to and read from shared memory / its rate: a bank serves one word of 4
             bytes in a cycle, whichever way (CUDA C++ Programming Guide 13.0, "Shared Memory")
    latency  of memory. Of ``stages`` buffers one is read, the others are on the way (Little's law):
             what the block's own copies do not cover other blocks of the multiprocessor do
    memory   each operand once where L2 holds both, or else what a wave of blocks touches, for each
             wave; results once. Blocks are numbered along the lanes first

The same sums, without units, latency and memory, are in DeepGEMM's choice of tiles for sm_90
(``csrc/jit_kernels/heuristics/sm90.hpp``, 2026); waves and whole tiles are those of NVIDIA's
"Matrix Multiplication Background User's Guide" (2023), "Dimension Quantization Effects".
``tests/polyhedral/policy/test_gpu_tile_costs.py`` compares published choices.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from weft.ir.gpu import Gpu


@dataclass(frozen=True, slots=True)
class TileStep:
    """What a block does for one step of its tile: ``units`` cycles of arithmetic; bytes ``copied``
    from L2; bytes that shared memory takes and gives, ``banks``."""

    units: float
    copied: float
    banks: float


@dataclass(frozen=True, slots=True)
class TiledProduct:
    """``down`` × ``across`` blocks, ``outside`` times, each of ``steps`` steps in at least two
    ``stages``. One stores ``results`` bytes and needs ``rows`` and ``lanes`` bytes of operands;
    ``resident`` of them share a multiprocessor, and ``wave`` are at work at once, so many down and
    across, which share what they read."""

    down: int
    across: int
    outside: int
    step: TileStep
    steps: int
    stages: int
    results: int
    resident: int
    wave: tuple[int, int]
    rows: int
    lanes: int

    @property
    def blocks(self) -> int:
        return self.down * self.across * self.outside


@dataclass(frozen=True, slots=True, order=True)
class TilePrice:
    """``cycles`` from the first copy to the last store. Of what costs the same, because it waits
    for memory, what does less is better: ``work``, cycles of units, copies and banks added up."""

    cycles: float
    work: float


def tile_price(gpu: Gpu, tiled: TiledProduct) -> TilePrice:
    """What ``tiled`` costs ``gpu``."""
    step = tiled.step
    rate = gpu.cache_rate / gpu.multiprocessors
    stores = tiled.results / rate
    times = step.units, step.copied / rate, step.banks / gpu.shared_rate
    units, copies, banks = (tiled.steps * each for each in times)
    waited = gpu.latency / (tiled.stages - 1)
    alone = gpu.latency + tiled.steps * max(*times, waited) + stores
    shared = max(units, copies + stores, banks)
    each = ceil(tiled.blocks / gpu.multiprocessors)
    seconds = memory_bytes(gpu, tiled) / gpu.bandwidth
    cycles = max(ceil(each / tiled.resident) * alone, each * shared, seconds * gpu.clock)
    return TilePrice(cycles, tiled.blocks * (units + copies + stores + banks))


def memory_bytes(gpu: Gpu, tiled: TiledProduct) -> float:
    """Bytes that memory gives and takes."""
    once = tiled.down * tiled.rows + tiled.across * tiled.lanes
    results = tiled.blocks * tiled.results
    if once <= gpu.cache:
        return tiled.outside * once + results
    down, across = tiled.wave
    waves = max(1.0, tiled.down * tiled.across / (gpu.multiprocessors * tiled.resident))
    return tiled.outside * waves * (down * tiled.rows + across * tiled.lanes) + results


def wave(blocks: int, down: int, across: int) -> tuple[int, int]:
    """Of ``down`` × ``across``, so many ``blocks`` at once, along the lanes first."""
    return min(down, ceil(blocks / across)), min(blocks, across)


def resident(gpu: Gpu, held: int, threads: int, sums: int) -> int:
    """Blocks of a multiprocessor at once, of so many ``threads`` each: one holds bytes of shared
    memory, registers for the ``sums`` of its tile, and as many for other values."""
    by_registers = gpu.registers // (2 * sums)
    return max(1, min(gpu.shared_memory_most // held, gpu.resident // threads, by_registers))
