"""Interleaved timing: contestants take turns within one run, so that noise hits all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median


def interleaved(
    contestants: Mapping[str, Callable[[], object]], *, seconds: float = 3.0, rounds: int = 200
) -> dict[str, float]:
    """The median of each contestant, in milliseconds.

    Each runs once a round, after two warm-up rounds, until time or rounds run out.
    """
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    for run in contestants.values():
        run()
        run()
    end = time.perf_counter() + seconds
    for number in range(rounds):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            samples[name].append((time.perf_counter() - start) * 1e3)
        if time.perf_counter() > end and number >= 4:
            break
    return {name: median(times) for name, times in samples.items()}
