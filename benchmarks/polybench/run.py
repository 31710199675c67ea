"""PolyBench: every kernel verified, then timed beside the same loops compiled by gcc and clang."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np

import weft
from weft.app.cli_shared import progress
from weft.benchmarks.estimates import estimates
from weft.benchmarks.fma_peak import FmaPeak
from weft.benchmarks.polybench import blas, datamining, kernels, medley, solvers, stencils
from weft.benchmarks.polybench.benchmark import DATASETS, Arguments, Benchmark
from weft.benchmarks.polybench.c_peer import FAST, compile_c, compilers, sizes_of, unscheduled
from weft.benchmarks.polybench.verify import Run, Verdict, fresh, verify
from weft.benchmarks.report import geometric_mean
from weft.benchmarks.timing import Contestant, Timed, interleaved_restored
from weft.codegen.machines.host import host_machine
from weft.driver.compiler import compile_kernel
from weft.ir.dtypes import as_dtype
from weft.ir.errors import WeftError
from weft.ir.scop import Scop
from weft.polyhedral.schedule_loops import schedule_loops
from weft.runtime.executable import Executable

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Settings(Timed):
    """What one run of the suite does."""

    size: str = "large"
    kernels: tuple[str, ...] = ()  # all where empty
    untiled: bool = False  # beside Weft's own best code without time tiles
    verify_only: bool = False  # every dtype at mini to medium, nothing timed

    @property
    def benchmarks(self) -> list[Benchmark]:
        """Raises ``ValueError`` for a kernel that there is not."""
        unknown = [name for name in self.kernels if name not in SUITE]
        if unknown:
            raise ValueError(f"no kernel {', '.join(unknown)} in {', '.join(SUITE)}")
        return [SUITE[name] for name in self.kernels or SUITE]


def run(settings: Settings) -> Iterator[Row]:
    """A row for each kernel as it is done, and a last one with the geometric means.

    A kernel that fails has a row that says so. Peers that are not on this machine are named on
    standard error and left out.
    """
    peers = compilers()
    for name in sorted({"gcc", "clang"} - peers.keys()):
        click.echo(f"{name} is not on this machine: no comparison with it", err=True)
    rows: list[Row] = []
    benchmarks = settings.benchmarks
    with tempfile.TemporaryDirectory() as folder, progress("polybench", len(benchmarks)) as step:
        for benchmark in benchmarks:
            step(benchmark.name)
            session = _Session(benchmark, settings, peers, Path(folder))
            found = session.verified() if settings.verify_only else [session.row()]
            yield from found
            rows += found
    if not settings.verify_only:
        yield _summary(rows)


@dataclass(frozen=True, slots=True)
class _Session:
    benchmark: Benchmark
    settings: Settings
    peers: Mapping[str, str]
    folder: Path

    # ---- right answers ------------------------------------------------------------------------

    def verified(self) -> list[Row]:
        """A row for each dtype, verified at every dataset that NumPy is fast enough for."""
        published = self.benchmark.dtype
        dtypes = (published,) if published.startswith("int") else ("float64", "float32")
        rows = []
        for dtype in dtypes:
            row: Row = {"kernel": self.benchmark.name, "dtype": dtype}
            try:
                program = compile_weft(self.benchmark, dtype, self.settings.threads)
            except WeftError as error:
                rows.append({**row, "right": False, "note": str(error)})
                continue
            verdicts = {size: self._verify(program, dtype, size) for size in DATASETS[:3]}
            notes = dict.fromkeys(v.note for v in verdicts.values() if v.note)
            row |= {f"error_{size}": f"{v.error:.1e}" for size, v in verdicts.items()}
            row["right"] = all(v.good for v in verdicts.values())
            rows.append({**row, "note": "; ".join(notes)})
        return rows

    def _verify(self, program: WeftProgram, dtype: str, size: str) -> Verdict:
        """At ``size``: up to medium against NumPy, beyond against the unscheduled loops."""
        sizes = self.benchmark.sizes(size)
        small = DATASETS.index(size) <= DATASETS.index("medium")
        plain: Run | None = None
        if self.peers:
            plain = unscheduled(program.scop, next(iter(self.peers.values())), self.folder)
        elif not small:
            return Verdict(0.0, math.inf, "not verified: no C compiler")
        # Large unscheduled runs take longest of all: one a dataset is enough where time is short.
        published = not small and self.settings.quick
        return verify(
            self.benchmark, dtype, sizes, program.run, plain,
            use_oracle=small, published_only=published,
        )  # fmt: skip

    # ---- times --------------------------------------------------------------------------------

    def row(self) -> Row:
        """Verified at two small datasets and the one that is timed, then timed."""
        benchmark, size = self.benchmark, self.settings.size
        row: Row = {"kernel": benchmark.name}
        try:
            program = compile_weft(
                benchmark, benchmark.dtype, self.settings.threads, clock=self.settings.clock
            )
        except WeftError as error:
            return {**row, "right": False, "note": f"does not compile: {error}"}
        row |= {"compile_s": round(program.seconds, 2)}
        row |= {"validation": f"{program.validation:.0%}", "note": program.note}
        checked = ["mini", size] if self.settings.quick else ["mini", "medium", size]
        verdicts = [
            self._verify(program, benchmark.dtype, dataset) for dataset in dict.fromkeys(checked)
        ]
        worst = max(verdicts, key=lambda v: v.error / max(v.bound, 1e-300))
        notes = dict.fromkeys([row["note"], *(v.note for v in verdicts)])
        row |= {"right": all(v.good for v in verdicts), "error": f"{worst.error:.1e}"}
        row["note"] = "; ".join(filter(None, notes))
        if not row["right"]:
            row["note"] = f"WRONG ANSWER (bound {worst.bound:.0e}); {row['note']}"
        return self._timed(row, program)

    def _timed(self, row: Row, program: WeftProgram) -> Row:
        benchmark, settings = self.benchmark, self.settings
        sizes = benchmark.sizes(settings.size)
        inputs = benchmark.inputs(np.dtype(benchmark.dtype), **sizes)
        row |= estimates(program.executable, settings.threads, sizes_of(program.scop, inputs))
        arguments = fresh(inputs)
        # Kernels are compared, not ways of calling them: everybody's arguments are in place.
        given = tuple(arguments.values())
        runs: dict[str, Callable[[], object]] = {"weft": program.executable.bind(*given)}
        if settings.untiled:
            untiled = compile_weft(
                benchmark, benchmark.dtype, settings.threads, time_tile=False
            ).executable
            runs["untiled"] = untiled.bind(*given)
        for name, path in self.peers.items():
            peer = compile_c(program.scop, sizes_of(program.scop, inputs), path, FAST, self.folder)
            runs[name] = peer.bound(arguments)
        restore = restorer(arguments, inputs)
        contestants = {name: Contestant(run, restore) for name, run in runs.items()}
        peak = FmaPeak()
        if benchmark.name == "gemm":
            contestants["peak"] = Contestant(peak)
        seconds = 3.0 if settings.quick else 10.0
        times = interleaved_restored(contestants, seconds=seconds, clock=settings.clock)
        return {**row, **_figures(benchmark, sizes, times, peak.operations)}


def restorer(arguments: Arguments, inputs: Arguments) -> Callable[[], None]:
    """What gives the arrays of ``arguments`` the values of ``inputs`` again."""
    arrays = [(a, inputs[name]) for name, a in arguments.items() if isinstance(a, np.ndarray)]

    def restore() -> None:
        for array, value in arrays:
            np.copyto(array, value)

    return restore


def _figures(
    benchmark: Benchmark,
    sizes: Mapping[str, int],
    times: Mapping[str, Sequence[float]],
    peak_operations: float,
) -> Row:
    """Medians and what they say."""
    medians = {name: median(samples) for name, samples in times.items()}
    figures = against_peers({name: samples for name, samples in times.items() if name != "peak"})
    figures["gflops"] = round(benchmark.operations(**sizes) / medians["weft"] / 1e6, 2)
    if "untiled" in medians:
        figures["over_untiled"] = round(medians["untiled"] / medians["weft"], 3)
    if "peak" in medians:
        peak = peak_operations / medians["peak"] / 1e6
        figures["peak_gflops"] = round(peak, 1)
        figures["of_peak"] = f"{figures['gflops'] / peak:.0%}"
    return figures


def against_peers(times: Mapping[str, Sequence[float]]) -> Row:
    """Medians; ``ratio`` is how much faster Weft is than the better of gcc and clang."""
    medians = {name: median(samples) for name, samples in times.items()}
    figures: Row = {f"{name}_ms": round(ms, 3) for name, ms in medians.items()}
    figures["rounds"] = len(times["weft"])
    peers = [name for name in ("gcc", "clang") if name in medians]
    if peers:
        best = min(peers, key=lambda name: medians[name])
        figures["ratio"] = round(medians[best] / medians["weft"], 3)
        rounds = [peer / own for peer, own in zip(times[best], times["weft"], strict=True)]
        low, high = np.quantile(rounds, (0.25, 0.75))
        figures["quartiles"] = f"{low:.2f}-{high:.2f}"  # of the ratio, round by round
    return figures


def _summary(rows: Sequence[Row]) -> Row:
    """Geometric means of the ratios: of all kernels and of the matrix kernels; totals."""
    ratios = {row["kernel"]: row["ratio"] for row in rows if "ratio" in row}
    matrix = [ratio for name, ratio in ratios.items() if SUITE[name].matrix]
    note = [f"{sum(row['right'] for row in rows)} of {len(rows)} right"]
    if matrix:
        note.append(f"matrix kernels {geometric_mean(matrix):.3f}")
    slow = [name for name, ratio in ratios.items() if ratio < 0.95]
    note += [f"below 0.95: {', '.join(slow)}"] if slow else []
    summary: Row = {"kernel": "geometric mean", "note": "; ".join(note)}
    summary["right"] = all(row["right"] for row in rows)
    summary["compile_s"] = round(sum(row.get("compile_s", 0.0) for row in rows), 1)
    if ratios:
        summary["ratio"] = round(geometric_mean(list(ratios.values())), 3)
    over = [row["over_untiled"] for row in rows if "over_untiled" in row]
    if over:
        summary["over_untiled"] = round(geometric_mean(over), 3)
    return summary


# ---- A kernel of the suite compiled: parametric, once for all sizes and datasets.


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


# ---- All benchmarks of the suite, by name.


SUITE: dict[str, Benchmark] = {
    benchmark.name: benchmark
    for module in (blas, kernels, solvers, datamining, medley, stencils)
    for benchmark in module.BENCHMARKS
}
