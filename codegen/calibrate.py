"""Calibration: rates of this processor that its record only assumes, measured on request.

    clock      a chain of additions, one cycle each                cycles per second
    fma        multiply-adds in one chain; in many chains          latency, and how many per cycle
    read       vectors out of memory, by how much is read          bytes per cycle out of each cache
    copy       the same, and what is read in 8 streams             greatest bandwidths
    together   all threads read memory                             bytes per second
    meet       threads of a team meet again and again; or after    seconds
               they have gone to sleep

Each is the best of several short, interleaved runs: disturbances only make a run slower.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from weft.codegen.calibration_ir import CHAINED, calibration_ir
from weft.codegen.llvm.target import host_target, to_object
from weft.codegen.machines.host import cpu_count, host
from weft.codegen.objects.native_library import link, runtime
from weft.codegen.target import Target

Clock = Callable[[], float]

ROUNDS = 15
SECONDS = 2.0e-3  # of one run, at least
MARGIN = 1.1  # of peaks over what was measured: clocks are faster where neighbours are idle
ASLEEP = 5.0e-3  # seconds after which workers sleep
LEAST = 4 << 10  # bytes read to learn what a cache gives
MOST = 256 << 20  # bytes read to learn what memory gives: beyond any cache that one core can fill


@dataclass(frozen=True, slots=True)
class Measured:
    """``frequency`` in Hz; ``fma_latency`` in cycles; ``fma_per_cycle``, ``loads_per_cycle``:
    vector instructions; ``bandwidths``: bytes per cycle out of each cache, the smallest first;
    ``memory_bandwidth`` in bytes per second; ``barrier`` in seconds, None on one processor;
    ``peak``: float32 operations per second of one core; ``streams``: bytes per second out of L2,
    L3, …, memory, one way, of the fastest that was seen; ``shared_bandwidth`` of all threads, out
    of memory; ``wake`` in seconds, None on one processor."""

    frequency: float
    fma_latency: int
    fma_per_cycle: int
    loads_per_cycle: int
    bandwidths: tuple[float, ...]
    memory_bandwidth: float
    barrier: float | None
    peak: float
    streams: tuple[float, ...]
    shared_bandwidth: float
    wake: float | None


def calibrate() -> Measured:
    """What the processor here does, in a few seconds."""
    code = _Code()
    machine = host().machine
    caches = machine.caches
    sizes = [_inside(k, [c.size for c in caches]) for k in range(len(caches))]
    sizes.append(min(MOST, 4 * caches[-1].size))
    data = np.ones(sizes[-1] + machine.line, np.uint8)
    at = data.ctypes.data + -data.ctypes.data % machine.line
    runs: list[Callable[[int], float]] = [code.clock, code.latency, code.fma]
    runs += [_reader(code, at, size) for size in sizes]
    runs += [partial(code.streams, at, size) for size in sizes[1:]]
    runs += [partial(code.copy, at, size // 2) for size in sizes[1:]]
    runs.append(partial(code.together, at, sizes[-1]))
    several = cpu_count() > 1
    if several:
        runs.append(code.meet)
    clock, latency, fma, *rest = _best(runs)
    count = len(sizes)
    reads, rest = [size / rest[k] for k, size in enumerate(sizes)], rest[count:]
    streams = [size / rest[k] for k, size in enumerate(sizes[1:])]
    copies = [size / 2 / rest[count - 1 + k] for k, size in enumerate(sizes[1:])]
    together = sizes[-1] / rest[2 * count - 2]
    vector = host_target().vector_bytes
    return Measured(
        frequency=_rounded(1 / clock),
        fma_latency=max(1, round(latency / clock)),
        fma_per_cycle=max(1, round(clock / fma)),
        loads_per_cycle=max(1, round(reads[0] * clock / vector)),
        bandwidths=tuple(_rounded(read * clock) for read in reads[:-1]),
        memory_bandwidth=_rounded(reads[-1]),
        barrier=_rounded(rest[-1]) if several else None,
        peak=_rounded(2 * vector / 4 / fma),
        streams=tuple(_rounded(max(each)) for each in zip(reads[1:], streams, copies, strict=True)),
        shared_bandwidth=_rounded(max(together, reads[-1])),
        wake=_rounded(code.wake()) if several else None,
    )


def rates() -> tuple[float, float]:
    """What bounds arithmetic here and now: cycles a second, and vector multiply-adds a cycle, the
    best of a tenth of a second."""
    code = _Code()
    clock, fma = _best([code.clock, code.fma])
    return 1 / clock, clock / fma


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
        shared_bandwidth=measured.shared_bandwidth,
        wake=target.machine.wake if measured.wake is None else measured.wake,
        peaks=replace(
            target.machine.peaks,
            frequency=measured.frequency * MARGIN,
            fma=measured.peak / (2 * host_target().vector_bytes / 4) / measured.frequency,
            bandwidths=tuple(rate * MARGIN for rate in measured.streams),
        ),
    )
    return replace(target, name="host-calibrated", machine=machine)


def _inside(level: int, sizes: Sequence[int]) -> int:
    """Bytes that mostly fit into the cache of ``level`` and into no smaller one."""
    below = sizes[level - 1] if level else 0
    return max(LEAST, min(sizes[level] // 2, MOST, max(4 * below, sizes[level] // 4)))


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
    return max(1, round(count * SECONDS / (taken or SECONDS)))


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
        names = ("clock", "latency", "fma", "read", "copy", "together", "meet")
        text = calibration_ir(target.vector_bytes, chains)
        functions = ("weft_acquire", "weft_launch", "weft_barrier", "weft_release")
        imports = {name: runtime()[name] for name in functions}
        self._chains, self._vector = chains, target.vector_bytes
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
        return self._timed("read", at, size, 8 * self._vector, self._vector, count)

    def streams(self, at: int, size: int, count: int) -> float:
        """The same bytes in 8 streams."""
        return self._timed("read", at, size // 8, self._vector, size // 8, count)

    def copy(self, at: int, size: int, count: int) -> float:
        return self._timed("copy", at, size, count)

    def together(self, at: int, size: int, count: int) -> float:
        """All threads read their part of ``size`` bytes, in 8 streams each."""
        vector, threads = self._vector, cpu_count()
        part = size // threads // 8 // vector * vector
        clock = time.perf_counter
        return self._timed("together", threads, at, part, vector, part, count, clock=clock)

    def meet(self, count: int) -> float:
        return self._timed("meet", cpu_count(), count, clock=time.perf_counter)

    def wake(self) -> float:
        """Seconds of one meeting of threads that slept."""
        best = float("inf")
        for _ in range(ROUNDS):
            time.sleep(ASLEEP)
            best = min(best, self._timed("meet", cpu_count(), 1, clock=time.perf_counter))
        return best
