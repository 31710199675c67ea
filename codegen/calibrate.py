"""Calibration: rates of this processor that its record only assumes, measured on request.

    clock      a chain of additions, one cycle each                cycles per second
    fma        multiply-adds in one chain; in many chains          latency, and how many per cycle
    read       vectors out of memory, by how much is read          bytes per cycle out of each cache
    meet       threads of a team at a barrier, repeatedly          seconds

Each is the best of several short, interleaved runs: disturbances only make a run slower.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from weft.codegen.calibration_ir import CHAINED, calibration_ir
from weft.codegen.llvm.target import host_target, to_object
from weft.codegen.machines.host import cpu_count, host
from weft.codegen.objects.native_library import link, runtime
from weft.codegen.target import Target

Clock = Callable[[], float]

ROUNDS = 15
SECONDS = 2.0e-3  # least duration of one run
MOST = 256 << 20  # bytes read to measure memory: beyond any cache that one core can fill


@dataclass(frozen=True, slots=True)
class Measured:
    """``frequency`` in Hz; ``fma_latency`` in cycles; ``fma_per_cycle``, ``loads_per_cycle``:
    vector instructions; ``bandwidths``: bytes per cycle out of each cache, the smallest first;
    ``memory_bandwidth`` in bytes per second; ``barrier`` in seconds, None on one processor;
    ``peak``: float32 operations per second of one core."""

    frequency: float
    fma_latency: int
    fma_per_cycle: int
    loads_per_cycle: int
    bandwidths: tuple[float, ...]
    memory_bandwidth: float
    barrier: float | None
    peak: float


def calibrate() -> Measured:
    """What the processor here does, in a few seconds."""
    code = _Code()
    caches = host().machine.caches
    sizes = [_inside(k, [c.size for c in caches]) for k in range(len(caches))]
    sizes.append(min(MOST, 4 * caches[-1].size))
    data = np.ones(sizes[-1] + 64, np.uint8)
    at = data.ctypes.data + -data.ctypes.data % 64
    runs: list[Callable[[int], float]] = [code.clock, code.latency, code.fma]
    runs += [_reader(code, at, size) for size in sizes]
    if cpu_count() > 1:
        runs.append(code.meet)
    clock, latency, fma, *rest = _best(runs)
    reads = [size / rest[k] for k, size in enumerate(sizes)]
    vector = host_target().vector_bytes
    return Measured(
        frequency=_rounded(1 / clock),
        fma_latency=max(1, round(latency / clock)),
        fma_per_cycle=max(1, round(clock / fma)),
        loads_per_cycle=max(1, round(reads[0] * clock / vector)),
        bandwidths=tuple(_rounded(read * clock) for read in reads[:-1]),
        memory_bandwidth=_rounded(reads[-1]),
        barrier=_rounded(rest[-1]) if cpu_count() > 1 else None,
        peak=_rounded(2 * vector / 4 / fma),
    )


def calibrated(measured: Measured) -> Target:
    """The record of this processor with what was ``measured``."""
    target = host()
    caches = tuple(
        replace(cache, bandwidth=bandwidth)
        for cache, bandwidth in zip(target.machine.caches, measured.bandwidths, strict=True)
    )
    machine = replace(
        target.machine,
        caches=caches,
        frequency=measured.frequency,
        fma_latency=measured.fma_latency,
        fma_per_cycle=measured.fma_per_cycle,
        loads_per_cycle=measured.loads_per_cycle,
        memory_bandwidth=measured.memory_bandwidth,
        barrier=target.machine.barrier if measured.barrier is None else measured.barrier,
    )
    return replace(target, name="host-calibrated", machine=machine)


def _inside(level: int, sizes: Sequence[int]) -> int:
    """Bytes that mostly fit into the cache of ``level`` and into no smaller one."""
    below = sizes[level - 1] if level else 0
    return max(4096, min(sizes[level] // 2, MOST, max(4 * below, sizes[level] // 4)))


def _best(runs: Sequence[Callable[[int], float]]) -> list[float]:
    """The least seconds of one step of each of ``runs``, interleaved."""
    counts = [_steps(run) for run in runs]
    best = [float("inf")] * len(runs)
    for _ in range(ROUNDS):
        for k, run in enumerate(runs):
            best[k] = min(best[k], run(counts[k]) / counts[k])
    return best


def _steps(run: Callable[[int], float]) -> int:
    """How many steps take about ``SECONDS``."""
    count = 1
    while (taken := run(count)) < SECONDS / 4 and count < 1 << 30:
        count *= 2
    return max(1, round(count * SECONDS / max(taken, 1e-9)))


def _reader(code: _Code, at: int, size: int) -> Callable[[int], float]:
    return lambda count: code.read(at, size, count)


def _rounded(value: float) -> float:
    """Three digits: more are noise."""
    return float(f"{value:.3g}")


class _Code:
    """The loops, as functions from a number of steps to seconds."""

    def __init__(self) -> None:
        target = host_target()
        chains = 24 if host().machine.vector_registers >= 32 else 12
        names = ("clock", "latency", "fma", "read", "meet")
        text = calibration_ir(target.vector_bytes, chains)
        functions = ("weft_acquire", "weft_launch", "weft_barrier", "weft_release")
        imports = {name: runtime()[name] for name in functions}
        self._chains = chains
        self._code = link([to_object(text, target)], names, imports)

    def _timed(self, name: str, *numbers: int, clock: Clock = time.thread_time) -> float:
        """CPU seconds of this thread, unless ``clock`` is another."""
        call = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(numbers))(self._code[name])
        start = clock()
        call(*numbers)
        return clock() - start

    def clock(self, count: int) -> float:
        return self._timed("clock", count) / CHAINED

    def latency(self, count: int) -> float:
        return self._timed("latency", count)

    def fma(self, count: int) -> float:
        return self._timed("fma", count) / self._chains

    def read(self, at: int, size: int, count: int) -> float:
        return self._timed("read", at, size, count)

    def meet(self, count: int) -> float:
        return self._timed("meet", cpu_count(), count, clock=time.perf_counter)
