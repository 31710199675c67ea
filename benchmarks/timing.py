"""Interleaved timing: contestants take turns within one run, so that noise hits all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import quantiles


@dataclass(frozen=True, slots=True)
class Timed:
    """What every run that is timed may be asked. ``cpu_time``: processor seconds, which a busy
    machine cannot spoil as much."""

    threads: int = 1
    quick: bool = False
    cpu_time: bool = False

    @property
    def clock(self) -> Callable[[], float]:
        return time.process_time if self.cpu_time else time.perf_counter


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


def spread(samples: list[float]) -> float:
    """Half the 95% interval of the median, relative to it, as box plots notch it: 1.57 quartile
    ranges over √n (McGill, Tukey, Larsen, "Variations of box plots", 1978). 1 for one sample."""
    if len(samples) < 2:
        return 1.0
    low, middle, high = quantiles(samples, n=4, method="inclusive")
    return float(1.57 * (high - low) / len(samples) ** 0.5 / middle)
