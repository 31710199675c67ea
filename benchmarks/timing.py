"""Interleaved timing: contestants take turns within one run, so that noise hits all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Contestant:
    """``prepare`` puts everything in place before each ``run``, and is not timed."""

    run: Callable[[], object]
    prepare: Callable[[], object] = lambda: None


def interleaved_restored(
    contestants: Mapping[str, Contestant],
    *,
    seconds: float,
    rounds: int = 200,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """The times of each contestant by ``clock``, in milliseconds, in the order of the rounds.

    The number of rounds follows from the time of the first, which counts as a warm-up where there
    is time for three more.
    """
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    start = time.perf_counter()
    while True:
        for name, contestant in contestants.items():
            contestant.prepare()
            begin = clock()
            contestant.run()
            samples[name].append((clock() - begin) * 1e3)
        done = len(next(iter(samples.values())))
        spent = time.perf_counter() - start
        if done > rounds or spent * (done + 1) / done > seconds:
            break
    warm = 1 if done > 3 else 0
    return {name: times[warm:] for name, times in samples.items()}
