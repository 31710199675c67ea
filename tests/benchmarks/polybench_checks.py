"""What every kernel of the suite must do, from its compiled form and from its printed C."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from weft.benchmarks.polybench.benchmark import Benchmark, Sizes
from weft.benchmarks.polybench.c_peer import compilers, unscheduled
from weft.benchmarks.polybench.run import compile_weft
from weft.benchmarks.polybench.verify import verify
from weft.ir.dtypes import as_dtype
from weft.ir.errors import CallError

ROOT = Path(__file__).parents[2]
NASTY = ((0,) * 5, (1,) * 5, (2,) * 5, (3, 5, 7, 4, 6), (7, 3, 2, 5, 4), (17, 19, 23, 13, 11))

READ_ELEMENT_0 = {"durbin", "correlation", "fdtd-2d"}  # as published, of empty arrays too


CALLED = {"gesummv", "covariance", "mvt", "deriche", "trisolv", "jacobi-1d"}  # one of each family


def check_answers(benchmarks: Sequence[Benchmark]) -> None:
    """What a user calls, at mini and at nasty sizes, from one compilation, for one of a family;
    ``check_guarded`` has them all."""
    [benchmark] = [b for b in benchmarks if b.name in CALLED]
    dtype = benchmark.dtype
    program = compile_weft(benchmark, dtype, threads=1)
    assert program.executable.stats["serial_fallbacks"] == 0
    cases: list[Sizes] = [benchmark.sizes("mini")]
    cases += [dict(zip(benchmark.names, sizes)) for sizes in NASTY]  # noqa: B905
    for sizes in cases:
        try:
            verdict = verify(benchmark, dtype, sizes, program.run, None, use_oracle=True)
        except CallError:
            assert 0 in sizes.values() and benchmark.name in READ_ELEMENT_0, sizes
            continue
        assert verdict.good, f"{benchmark.name} at {sizes}: {verdict}"


def check_python(benchmark: Benchmark) -> None:
    """The program as it is written, run by Python, gives the oracle's answers."""
    kernel = benchmark.make(as_dtype(benchmark.dtype))
    for numbers in NASTY[2:5]:
        sizes = dict(zip(benchmark.names, numbers))  # noqa: B905
        verdict = verify(
            benchmark, benchmark.dtype, sizes, lambda arguments: kernel.python(**arguments), None,
            use_oracle=True,
        )  # fmt: skip
        assert verdict.good, f"{benchmark.name} at {sizes}: {verdict}"


def check_printed_c(benchmarks: list[Benchmark]) -> None:
    """The C of the published loops gives the oracle's answers."""
    found = compilers()
    if not found:
        pytest.skip("no C compiler on this machine: the printed C is not run")
    with tempfile.TemporaryDirectory() as folder:
        for benchmark in benchmarks:
            scop = benchmark.make(as_dtype(benchmark.dtype)).lowered.scop
            run = unscheduled(scop, next(iter(found.values())), Path(folder))
            sizes = benchmark.sizes("mini")
            verdict = verify(benchmark, benchmark.dtype, sizes, run, None, use_oracle=True)
            assert verdict.good, f"{benchmark.name}: {verdict}"


def check_guarded(family: str) -> None:
    """Every kernel of ``family``, compiled for one thread and for two by turns, without falling
    back to serial code, gives the oracle's answers and accesses no memory outside its own."""
    finished = subprocess.run(
        [sys.executable, "-m", "tests.guarded_kernels", "turns", family],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    names = finished.stdout.splitlines() or ["nothing"]
    assert finished.returncode == 0, f"in {names[-1]}: {finished.stderr[-2000:]}"
    assert len(names) > 1 and names[-1] == "done"
