"""Latency of several programs side by side, and onnxruntime as the peer to be beside.

Machines are shared and noisy: contenders take turns inside one run, and ratios are what to quote.
"""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.tuner.turns import until_idle

RTOL, ATOL = 1e-3, 1e-4  # within which results count as equal
DEFAULT_REPEAT, BUDGET = 10, 10.0  # runs of each, and seconds in all, where nothing is asked for


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of each run."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def best(self) -> float:
        return min(self.seconds)


@dataclass(frozen=True, slots=True)
class Difference:
    """``largest`` absolute difference, ``scale`` the largest absolute value of the reference."""

    largest: float
    scale: float
    equal: bool  # within RTOL and ATOL


def take_turns(
    actions: Sequence[Callable[[], object]],
    repeat: int | None = None,
    *,
    tick: Callable[[], object] = lambda: None,
) -> list[Timing]:
    """Time every action ``repeat`` times, one after the other in turn.

    None: ``DEFAULT_REPEAT`` times, less where that would take longer than ``BUDGET`` seconds. Of
    several, each begins when nobody's threads compute any more, with a run that is not timed: it
    wakes threads that slept. ``tick`` is called after each turn.
    """
    times: list[list[float]] = [[] for _ in actions]
    end = time.perf_counter() + BUDGET
    for turn in range(repeat or DEFAULT_REPEAT):
        if repeat is None and turn and time.perf_counter() > end:
            break
        for action, seconds in zip(actions, times, strict=True):
            if len(actions) > 1:
                until_idle()
                action()
            started = time.perf_counter()
            action()
            seconds.append(time.perf_counter() - started)
        tick()
    return [Timing(tuple(seconds)) for seconds in times]


class Peer:
    """onnxruntime on the same model, inputs and number of threads."""

    def __init__(self, model: bytes | str, threads: int) -> None:
        """``model``: serialised, or its path.

        ``ImportError`` where it is not installed; its own errors where it refuses the model.
        """
        runtime = importlib.import_module("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.version: str = runtime.__version__
        self._session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs by name."""
        names = [output.name for output in self._session.get_outputs()]
        return dict(zip(names, self._session.run(names, dict(inputs)), strict=True))


def difference(found: Mapping[str, Any], reference: Mapping[str, Any]) -> Difference:
    """How far the arrays of ``found`` are from those of ``reference``, over all outputs."""
    largest, scale, equal = 0.0, 0.0, True
    for name, expected in reference.items():
        actual = found[name]
        if not isinstance(expected, np.ndarray) or expected.dtype.kind not in "biuf":
            continue
        if expected.shape != actual.shape:
            return Difference(float("inf"), scale, False)
        one, other = actual.astype(np.float64), expected.astype(np.float64)
        same = (one == other) | (np.isnan(one) & np.isnan(other))
        with np.errstate(invalid="ignore"):  # inf - inf
            gap = np.where(same, 0.0, np.abs(one - other))
        gap = np.where(np.isnan(gap), np.inf, gap)
        largest = max(largest, float(gap.max(initial=0.0)))
        finite = np.abs(other[np.isfinite(other)])
        scale = max(scale, float(finite.max(initial=0.0)))
        equal &= bool(np.allclose(one, other, rtol=RTOL, atol=ATOL, equal_nan=True))
    return Difference(largest, scale, equal)
