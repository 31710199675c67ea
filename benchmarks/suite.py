"""A suite from its cases to its rows, in the time that there is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch

from weft.benchmarks import call_overhead
from weft.benchmarks.case import Planned
from weft.benchmarks.limits import SAMPLES, Limits
from weft.benchmarks.native_loop import NativeLoop
from weft.benchmarks.peers.peer import Peer
from weft.benchmarks.peers.tvm_tuned import Tvm
from weft.benchmarks.row import Bench, LoopOf, Row, settle
from weft.benchmarks.timing import Timed
from weft.tuner.turns import interleaved_loops

QUICK_SECONDS = 32.0  # of a whole suite, besides starting it and its last row
ROW_SECONDS = 1.0  # of timing


@dataclass(frozen=True, slots=True)
class Settings(Timed):
    """``only``: patterns of rows' names (empty: all). ``tvm_trials``: of TVM's tuner for each row,
    without which it takes no part."""

    only: tuple[str, ...] = ()
    tvm_trials: int = 0

    def takes(self, name: str) -> bool:
        """Whether the row called ``name`` is wanted."""
        return not self.only or any(fnmatch(name, pattern) for pattern in self.only)


@dataclass(frozen=True, slots=True)
class Found:
    """``limits``: a line for each limit of the machine; ``left_out``: rows that had no time."""

    rows: list[Row]
    limits: list[str]
    left_out: list[str]


def run(
    cases: Iterable[Planned],
    peers: Sequence[Peer],
    settings: Settings,
    tell: Callable[[Row], object] = lambda row: None,
    *,
    loop_of: LoopOf = NativeLoop,
    row_seconds: float = ROW_SECONDS,
) -> Found:
    """The rows of ``cases``, each told as it comes, and those of empty calls.

    ``loop_of``: how Weft's programs are called; ``row_seconds``: how long a row is timed.
    """
    end = time.perf_counter() + QUICK_SECONDS if settings.quick else float("inf")
    if settings.tvm_trials:
        peers = (*peers, Tvm(settings.tvm_trials))
    bench = Bench(settings.threads, row_seconds, peers, Limits(settings.threads), settings.clock)
    _sample(bench)
    rows: list[Row] = []
    wanted = [case for case in cases if settings.takes(case.name)]
    left_out: list[str] = []
    for number, case in enumerate(wanted):
        left = end - time.perf_counter()
        if left <= 0:
            left_out.append(case.name)
            continue
        bench.seconds = min(row_seconds, 0.4 * left / (len(wanted) - number))
        rows.append(bench.row(case.build(), loop_of))
        tell(rows[-1])
    for name, call in call_overhead.CALLS:
        if settings.takes(name):
            rows.append(bench.row(call_overhead.case(name), call))
            tell(rows[-1])
    for row in rows:  # the best rate may have come after it
        if row["limit"] != "copy":
            settle(row, bench.limits.best(row["limit"]))
    return Found(rows, _limits(bench), left_out)


def _sample(bench: Bench) -> None:
    """The machine's limits that every run reports, before the rows; rows take more samples."""
    probes = {**bench.limits.of("float32"), **bench.limits.of("float64"), **bench.limits.of("copy")}
    loops = {name: probe.loop for name, probe in probes.items()}
    found = interleaved_loops(loops, seconds=2.0, rounds=SAMPLES, clock=bench.clock)
    for name, probe in probes.items():
        probe.note(found[name])


def _limits(bench: Bench) -> list[str]:
    lines = [
        f"multiply-add peak of {dtype}, {bench.threads} threads: {rate / 1e9:.1f} GFLOP/s"
        for dtype in ("float32", "float64")
        if (rate := bench.limits.best(dtype))
    ]
    kinds = {name: probe.best / 1e9 for name, probe in bench.limits.of("copy").items()}
    each = ", ".join(f"{name} {rate:.2f}" for name, rate in kinds.items())
    return [*lines, f"bandwidth of copying memory, read and written: {each} GB/s"]
