"""Whether a kernel gave the right answer: against NumPy, or against its own unscheduled loops.

The answer is right where ‖got − want‖ ≤ 1e-10 ‖want‖ (float64; 1e-5: float32; 0: integers) for
every array argument. An ill-conditioned problem has no answer of that precision: then
the bound is ten times what one unit in the last place of the inputs moves the unscheduled answer,
and the report says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.benchmarks.polybench.benchmark import Arguments, Array, Benchmark, Sizes
from weft.benchmarks.polybench.c_peer import aligned_copy

Run = Callable[[Arguments], object]  # works on its arguments in place
BOUNDS = {"float64": 1e-10, "float32": 1e-5}
RESIDUALS = {"float64": 1e-12, "float32": 1e-5}
_AMPLIFIED = 10.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """``error`` against ``bound``; ``note`` where the bound is not the usual one."""

    error: float
    bound: float
    note: str = ""

    @property
    def good(self) -> bool:
        return self.error <= self.bound


def fresh(arguments: Mapping[str, Any]) -> Arguments:
    """Arguments of their own, arrays aligned."""
    return {
        name: aligned_copy(value) if isinstance(value, np.ndarray) else value
        for name, value in arguments.items()
    }


def wide(arguments: Mapping[str, Any]) -> Arguments:
    """Copies with floats in float64."""
    return {
        name: value.astype(np.float64 if value.dtype.kind == "f" else value.dtype)
        if isinstance(value, np.ndarray)
        else value
        for name, value in arguments.items()
    }


def verify(
    benchmark: Benchmark,
    dtype: str,
    sizes: Sizes,
    run: Run,
    unscheduled: Run | None,
    *,
    use_oracle: bool,
    published_only: bool = False,
) -> Verdict:
    """``run`` at ``sizes``, against the oracle or else against ``unscheduled``, which must be given
    then: the worse verdict of those on the published and on regular inputs."""
    real, verdicts = np.dtype(dtype), []
    oracle = benchmark.oracle if use_oracle else None
    for make in (benchmark.inputs, benchmark.regular):
        if make is None or (published_only and make is not benchmark.inputs):
            continue
        inputs = make(real, **sizes)
        got = fresh(inputs)
        run(got)
        if benchmark.residual is not None and make is benchmark.inputs:
            verdicts.append(Verdict(benchmark.residual(wide(inputs), wide(got)), RESIDUALS[dtype]))
        else:
            verdicts.append(compared(dtype, inputs, got, oracle, unscheduled))
    return max(verdicts, key=lambda verdict: verdict.error / max(verdict.bound, 1e-300))


def compared(
    dtype: str,
    inputs: Arguments,
    got: Arguments,
    oracle: Callable[..., Arguments] | None,
    unscheduled: Run | None,
) -> Verdict:
    """``got`` against what ``oracle``, or else ``unscheduled``, makes of ``inputs``."""
    if oracle is not None:
        given = {name: x for name, x in wide(inputs).items() if isinstance(x, np.ndarray)}
        want = {**given, **oracle(**wide(inputs))}  # what is only read stays as it is
    else:
        assert unscheduled is not None
        want = _run(unscheduled, inputs)
    error, bound = distance(got, want), BOUNDS.get(dtype, 0.0)
    if error <= bound or unscheduled is None or dtype not in BOUNDS:
        return Verdict(error, bound)
    moved = distance(_run(unscheduled, _nudged(inputs)), _run(unscheduled, inputs))
    return Verdict(error, max(bound, _AMPLIFIED * moved), f"ill-conditioned: 1 ulp is {moved:.0e}")


def distance(got: Mapping[str, Any], want: Mapping[str, Any]) -> float:
    """The largest relative distance in norm over the arrays of ``want``."""
    return max((_distance(got[name], value) for name, value in want.items()), default=0.0)


def _distance(got: Array, want: Array) -> float:
    """Elements that must be NaN (0 / 0 at degenerate sizes) have to be, and no others."""
    missing = np.isnan(want)
    if (np.isnan(got) != missing).any():
        return float("inf")
    actual, expected = (x[~missing].astype(np.float64) for x in (got, want))
    norm = float(np.linalg.norm(expected))
    error = float(np.linalg.norm(actual - expected)) / (norm or 1.0)
    return error if np.isfinite(error) else float("inf")


def _run(run: Run, inputs: Arguments) -> Arguments:
    """The arrays after ``run``."""
    arguments = fresh(inputs)
    run(arguments)
    return {name: value for name, value in arguments.items() if isinstance(value, np.ndarray)}


def _nudged(inputs: Arguments) -> Arguments:
    """``inputs`` with every float moved to one of its neighbours, at random."""
    random = np.random.default_rng(0)
    moved: Arguments = {}
    for name, value in inputs.items():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            up = random.integers(0, 2, value.shape).astype(bool)
            towards = np.where(up, np.inf, -np.inf).astype(value.dtype)
            value = np.nextafter(value, towards)
        moved[name] = value
    return moved
