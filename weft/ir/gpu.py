"""GPUs as data: what a scheduler, a proof and an emitter need to know of the device they aim at.

Records of real devices live in ``codegen/machines/nvidia.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.ir.instruction import Instruction


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU: multiprocessors, each of which runs blocks of threads in warps.

    ``name``: the architecture that its code is made for. ``multiprocessors``: how many there are.
    ``shared_memory``: bytes that one block may declare; ``shared_memory_most``: bytes that it may
    ask for at launch. ``registers``: of 32 bits, in a multiprocessor. ``warp``: threads in
    lockstep. ``threads``: in a block, at most; ``block``: where nothing speaks for fewer, so that
    warps enough hide latency and several blocks fit into a multiprocessor. ``resident``: threads of
    all blocks of a multiprocessor at once, at most. ``blocks``: along the first dimension of a
    grid, at most. ``clock``: cycles in a second. ``launch``: seconds from one launch that does
    nothing to the next. ``bandwidth``: of its memory, in bytes per second, and ``latency``: cycles
    until a read of it is there. ``cache``: bytes of its last cache, and ``cache_rate``: those that
    all multiprocessors get out of it in a cycle. ``shared_rate``: bytes that one multiprocessor
    reads from and writes to its shared memory in a cycle. ``special``: how often a function of
    float32 needs its special function units, by the operator's name, and ``special_rate``: how
    often they serve threads in a cycle. ``instructions``: of its warps, with the cycles of a
    multiprocessor.
    """

    name: str
    multiprocessors: int
    shared_memory: int
    shared_memory_most: int
    registers: int
    warp: int
    threads: int
    block: int
    resident: int
    blocks: int
    clock: float
    launch: float
    bandwidth: float
    latency: int
    cache: int
    cache_rate: int
    shared_rate: int
    special: Mapping[str, int]
    special_rate: int
    instructions: tuple[Instruction, ...] = ()
