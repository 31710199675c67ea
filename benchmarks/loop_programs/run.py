"""Loop programs: each verified at its large size, then timed beside the same loops in C."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import weft
from weft.app.cli_shared import progress
from weft.benchmarks.estimates import estimates
from weft.benchmarks.loop_programs.dynamic import DYNAMIC
from weft.benchmarks.loop_programs.factorisations import FACTORISATIONS
from weft.benchmarks.loop_programs.filters import FILTERS
from weft.benchmarks.loop_programs.layers import LAYERS
from weft.benchmarks.loop_programs.mixtures import MIXTURES
from weft.benchmarks.loop_programs.pipelines import PIPELINES
from weft.benchmarks.loop_programs.program import Program
from weft.benchmarks.loop_programs.stencils import STENCILS
from weft.benchmarks.loop_programs.tables import TABLES
from weft.benchmarks.loop_programs.tensors import TENSORS
from weft.benchmarks.polybench.benchmark import Arguments
from weft.benchmarks.polybench.c_peer import FAST, compile_c, compilers, sizes_of, unscheduled
from weft.benchmarks.polybench.run import Row, against_peers, restorer
from weft.benchmarks.polybench.verify import Verdict, compared, fresh
from weft.benchmarks.report import geometric_mean
from weft.benchmarks.timing import Contestant, Timed, interleaved_restored
from weft.ir.errors import WeftError
from weft.runtime.executable import Executable

SLOW = 0.95  # of the better peer's speed


@dataclass(frozen=True, slots=True)
class Settings(Timed):
    """What one run of the programs does."""

    kernels: tuple[str, ...] = ()  # all where empty

    @property
    def programs(self) -> dict[str, Program]:
        """Raises ``ValueError`` for a program that there is not."""
        unknown = [name for name in self.kernels if name not in PROGRAMS]
        if unknown:
            raise ValueError(f"no program {', '.join(unknown)} in {', '.join(PROGRAMS)}")
        return {name: PROGRAMS[name] for name in self.kernels or PROGRAMS}


def run(settings: Settings) -> Iterator[Row]:
    """A row for each program as it is done, and a last one with the geometric mean."""
    rows: list[Row] = []
    peers, programs = compilers(), settings.programs
    with tempfile.TemporaryDirectory() as folder, progress("programs", len(programs)) as step:
        for name, program in programs.items():
            step(name)
            rows.append({"kernel": name, **_row(program, settings, peers, Path(folder))})
            yield rows[-1]
    yield _summary(rows)


def _row(program: Program, settings: Settings, peers: Mapping[str, str], folder: Path) -> Row:
    begin = settings.clock()
    try:
        options = weft.Options(cache=False, threads=settings.threads)
        executable = program.kernel.compile(options=options)
    except WeftError as error:
        return {"right": False, "note": f"does not compile: {error}"}
    stats: dict[str, Any] = dict(executable.stats)
    row: Row = {"compile_s": round(settings.clock() - begin, 2), "note": stats.get("schedule", "")}
    if stats["serial_fallbacks"]:
        row["note"] = f"SERIAL FALLBACK, {row['note']}"
    names = [argument.name for argument in program.kernel.lowered.arguments]
    inputs = dict(zip(names, program.make(program.large), strict=True))
    if not peers:
        return row | {"right": True, "note": f"not verified: no C compiler; {row['note']}"}
    verdict = _verify(program, executable, inputs, next(iter(peers.values())), folder)
    row |= {"right": verdict.good, "error": f"{verdict.error:.1e}"}
    if not verdict.good:
        row["note"] = f"WRONG ANSWER (bound {verdict.bound:.0e}); {row['note']}"
    return row | _timed(program, settings, executable, inputs, peers, folder)


def _verify(
    program: Program, executable: Executable, inputs: Arguments, compiler: str, folder: Path
) -> Verdict:
    """Against the loops as they are written."""
    scop, got = program.kernel.scop, fresh(inputs)
    executable(*got.values())
    kinds = {t.dtype.name for t in scop.tensors if t.role == "inout"}
    dtype = next((d for d in ("float32", "float64") if d in kinds), "int64")
    return compared(dtype, inputs, got, None, unscheduled(scop, compiler, folder))


def _timed(
    program: Program,
    settings: Settings,
    executable: Executable,
    inputs: Arguments,
    peers: Mapping[str, str],
    folder: Path,
) -> Row:
    scop, arguments = program.kernel.scop, fresh(inputs)
    given = tuple(arguments.values())
    runs: dict[str, Callable[[], object]] = {"weft": executable.bind(*given)}
    for name, path in peers.items():
        peer = compile_c(scop, sizes_of(scop, inputs), path, FAST, folder)
        runs[name] = peer.bound(arguments)
    guessed = estimates(executable, settings.threads, sizes_of(scop, inputs))
    restore = restorer(arguments, inputs)
    contestants = {name: Contestant(each, restore) for name, each in runs.items()}
    seconds = 0.7 if settings.quick else 3.0
    times = interleaved_restored(contestants, seconds=seconds, clock=settings.clock)
    return guessed | against_peers(times)


def _summary(rows: Sequence[Row]) -> Row:
    ratios = {row["kernel"]: row["ratio"] for row in rows if "ratio" in row}
    slow = sorted((name for name in ratios if ratios[name] < SLOW), key=lambda n: ratios[n])
    note = [f"{sum(row['right'] for row in rows)} of {len(rows)} right"]
    note += [f"{len(slow)} below {SLOW}: {', '.join(slow)}"] if slow else []
    summary: Row = {"kernel": "geometric mean", "note": "; ".join(note)}
    summary["right"] = all(row["right"] for row in rows)
    summary["compile_s"] = round(sum(row.get("compile_s", 0.0) for row in rows), 1)
    if ratios:
        summary["ratio"] = round(geometric_mean(list(ratios.values())), 3)
    return summary


# ---- All loop programs, by name.


PROGRAMS: dict[str, Program] = {
    **FACTORISATIONS,
    **DYNAMIC,
    **STENCILS,
    **FILTERS,
    **TENSORS,
    **LAYERS,
    **MIXTURES,
    **TABLES,
    **PIPELINES,
}
