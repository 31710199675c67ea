"""Operator-blind: the same computation under other names with permuted axes, beside the built-in.

There are no kernels for operators, so a user's own `compute` must be as fast as Weft's definition
of the operator (``blind_tensors``), and a loop kernel for all sizes as fast as one for these
(``blind_kernels``). A ratio of 1 means just as fast; above 1 faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import weft
from weft.benchmarks.blind_case import Arrays, Case, Program
from weft.benchmarks.blind_kernels import KERNELS
from weft.benchmarks.blind_tensors import TENSORS
from weft.benchmarks.case import aligned
from weft.loop_kernel import Kernel
from weft.tuner.turns import interleaved_loops

CASES = (*TENSORS, *KERNELS)


def run(threads: int, quick: bool, only: str = "") -> list[dict[str, Any]]:
    """A row for each operator whose name contains ``only``; both answers are compared with each
    other. On one thread, milliseconds are processor time."""
    made = (case() for case in CASES)
    return [_row(case, threads, quick) for case in made if only in case.name]


def _row(case: Case, threads: int, quick: bool) -> dict[str, Any]:
    options = weft.Options(cache=False, threads=threads)
    given = [aligned(a) for a in case.permuted(case.inputs)]
    built_in, expected = _ready(case.built_in, [aligned(a) for a in case.inputs], options)
    own, got = _ready(case.own, given, options)
    back = case.back(got)
    error = float(np.abs(back - expected).max())
    assert np.allclose(back, expected, rtol=1e-3, atol=1e-4), f"{case.name}: error {error}"
    samples = interleaved_loops(
        {"built_in": partial(_repeat, built_in), "own": partial(_repeat, own)},
        seconds=0.7 if quick else 4.0,
        rounds=1000,
        clock=time.process_time if threads == 1 else time.perf_counter,
    )
    fast, slow = min(samples["built_in"]), min(samples["own"])
    return {
        "name": case.name,
        "built_in_ms": round(fast, 4),
        "own_ms": round(slow, 4),
        "speed_of_own": round(fast / slow, 3),
        "max_error": error,
    }


def _ready(
    program: Program, inputs: Arrays, options: weft.Options
) -> tuple[Callable[[], object], np.ndarray]:
    """A call of ``program`` to time, and its first result."""
    executable = (
        program.compile(options=options)
        if isinstance(program, Kernel)
        else weft.compile(list(program), options=options)
    )
    result: Any = executable(*(a.copy() for a in inputs))
    first = np.asarray(result[0] if isinstance(result, tuple) else result)
    return partial(executable, *inputs), first.copy()


def _repeat(call: Callable[[], object], times: int) -> None:
    for _ in range(times):
        call()
