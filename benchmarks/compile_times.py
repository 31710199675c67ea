"""Compile times of both efforts, and what their code takes to run: one row for each program.

A program is PolyBench's (at its medium size), a loop program, or an embedded model, named as there.
Compiled twice without a cache and without worker processes, so that all of the work is timed; the
code of both runs in turns. The answers of both are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

import numpy as np

import weft
from weft.app.cli_shared import progress
from weft.benchmarks.loop_programs.program import Program
from weft.benchmarks.loop_programs.run import PROGRAMS
from weft.benchmarks.polybench.benchmark import Arguments, Array, Benchmark
from weft.benchmarks.polybench.run import SUITE, restorer
from weft.benchmarks.polybench.verify import distance, fresh
from weft.benchmarks.report import geometric_mean
from weft.benchmarks.timing import Contestant, Timed, interleaved_restored
from weft.driver.compiler import compile_kernel
from weft.frontend.zoo.registry import MODELS
from weft.ir.dtypes import as_dtype

Row = dict[str, Any]
Effort = Literal["full", "quick"]
EFFORTS: tuple[Effort, ...] = ("full", "quick")
NAMES = (*SUITE, *PROGRAMS, *MODELS)
FEW = ("gemm", "jacobi-2d", "attention", "edit_distance", "minilm")
SIZE = "medium"  # of PolyBench
TOLERANCE = 1e-4  # between the answers of both efforts, relative, in norm


@dataclass(frozen=True, slots=True)
class Settings(Timed):
    """What one run does; ``only``: names among ``NAMES``, all where empty (a few if ``quick``)."""

    only: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Raises ``ValueError`` for a name that there is not."""
        if unknown := [name for name in self.only if name not in NAMES]:
            raise ValueError(f"no program {', '.join(unknown)} in {', '.join(NAMES)}")
        return self.only or (FEW if self.quick else NAMES)


@dataclass(frozen=True, slots=True)
class _Compiled:
    """``run`` is timed on arguments that ``restore`` has put in place; ``answers`` after a run."""

    seconds: float
    run: Callable[[], object]
    restore: Callable[[], None]
    answers: Callable[[], Mapping[str, Any]]


def run(settings: Settings) -> Iterator[Row]:
    """A row for each program as it is done, and a last one with the geometric means."""
    rows: list[Row] = []
    with progress("compile", len(settings.names)) as step:
        for name in settings.names:
            step(name)
            rows.append(_row(name, settings))
            yield rows[-1]
    means = {key: [row[key] for row in rows] for key in ("compile_ratio", "speed")}
    right = all(row["right"] for row in rows)
    mean = {key: round(geometric_mean(values), 2) for key, values in means.items()}
    yield {"name": "geometric mean", "right": right, **mean}


def _row(name: str, settings: Settings) -> Row:
    made = {effort: _compiled(name, effort, settings) for effort in EFFORTS}
    answers = []
    for each in made.values():
        each.restore()
        each.run()
        answers.append({key: np.array(array) for key, array in each.answers().items()})
    contestants: dict[str, Contestant] = {
        effort: Contestant(each.run, each.restore) for effort, each in made.items()
    }
    seconds = 0.5 if settings.quick else 2.0
    times = interleaved_restored(contestants, seconds=seconds, clock=settings.clock)
    took = {effort: median(samples) for effort, samples in times.items()}
    return {
        "name": name,
        "right": distance(*answers) <= TOLERANCE,
        "compile_s": round(made["full"].seconds, 2),
        "quick_compile_s": round(made["quick"].seconds, 2),
        "compile_ratio": round(made["full"].seconds / made["quick"].seconds, 2),
        "ms": round(took["full"], 3),
        "quick_ms": round(took["quick"], 3),
        "speed": round(took["full"] / took["quick"], 2),
    }


def _compiled(name: str, effort: Effort, settings: Settings) -> _Compiled:
    options = weft.Options(cache=False, workers=0, threads=settings.threads, effort=effort)
    if name in MODELS:
        return _model(name, options, settings.clock)
    return _kernel(name, options, settings.clock)


def _model(name: str, options: weft.Options, clock: Callable[[], float]) -> _Compiled:
    model, inputs = MODELS[name].build(), MODELS[name].seeded_inputs(0)
    start = clock()
    program = weft.compile(model, options=options)
    seconds = clock() - start
    results: dict[str, Array] = {}
    return _Compiled(
        seconds, lambda: results.update(program.run(inputs)), lambda: None, lambda: results
    )


def _kernel(name: str, options: weft.Options, clock: Callable[[], float]) -> _Compiled:
    kernel, inputs = _benchmark(SUITE[name]) if name in SUITE else _program(PROGRAMS[name])
    start = clock()
    executable = compile_kernel(kernel.lowered, options)
    seconds = clock() - start
    arguments = fresh(inputs)
    arrays = {n: a for n, a in arguments.items() if isinstance(a, np.ndarray)}
    run = executable.bind(*arguments.values())
    return _Compiled(seconds, run, restorer(arguments, inputs), lambda: arrays)


def _benchmark(benchmark: Benchmark) -> tuple[Any, Arguments]:
    """Its kernel, and inputs at the size that is timed."""
    inputs = benchmark.inputs(np.dtype(benchmark.dtype), **benchmark.sizes(SIZE))
    return benchmark.make(as_dtype(benchmark.dtype)), inputs


def _program(program: Program) -> tuple[Any, Arguments]:
    names = [argument.name for argument in program.kernel.lowered.arguments]
    return program.kernel, dict(zip(names, program.make(program.large), strict=True))
