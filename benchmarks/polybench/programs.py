"""A kernel of the suite compiled: parametric, once for all sizes and datasets."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import weft
from weft.benchmarks.polybench.benchmark import Arguments, Benchmark
from weft.codegen.machines.host import host_machine
from weft.dtypes import as_dtype
from weft.executable import Executable
from weft.kernel_code import compile_kernel
from weft.polyhedral.schedule_loops import schedule_loops
from weft.polyhedral.scop import Scop

# What proving a schedule right takes: the legality of every dependence, flow, bounds.
_VALIDATION = ("bounds", "legality", "validation", "verify")


@dataclass(frozen=True, slots=True)
class WeftProgram:
    """``seconds``: of compiling, from the Python function to machine code in place;
    ``validation``: the share of it that proving the schedule right took."""

    scop: Scop  # as written
    executable: Executable
    seconds: float
    validation: float

    @property
    def note(self) -> str:
        """What the schedule is, in a few words."""
        stats: dict[str, Any] = dict(self.executable.stats)
        fallback = "SERIAL FALLBACK, " if stats["serial_fallbacks"] else ""
        nests = f"{stats['kernels']} nest{'s' * (stats['kernels'] != 1)}"
        return f"{fallback}{stats.get('schedule', nests)}"

    def run(self, arguments: Arguments) -> None:
        """In place, as a user calls it."""
        self.executable(*arguments.values())


def compile_weft(
    benchmark: Benchmark,
    dtype: str,
    threads: int,
    *,
    time_tile: bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> WeftProgram:
    """``benchmark`` in ``dtype``, cold. Without ``time_tile``, the best schedule of plain loops."""
    options = weft.Options(cache=False, threads=threads)
    start, begin = time.perf_counter(), clock()
    kernel = benchmark.make(as_dtype(dtype))
    scheduled = None if time_tile else schedule_loops(kernel.scop, host_machine(), time_tile=False)
    executable = compile_kernel(kernel.lowered, options, scheduled)
    seconds, whole = clock() - begin, time.perf_counter() - start
    stats: dict[str, Any] = dict(executable.stats)
    proving = sum(s for stage, s in stats["seconds"].items() if stage in _VALIDATION)
    return WeftProgram(kernel.lowered.scop, executable, seconds, proving / whole)
