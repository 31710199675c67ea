"""Interleaved timing: contestants take turns within one run, so that noise hits all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import quantiles

from weft.app.measure import until_idle


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


Loop = Callable[[int], object]  # runs something as often as it is told
_WARM = 0.008  # s that processors which slept take to be as fast as before, caches and all


def interleaved_loops(
    loops: Mapping[str, Loop],
    *,
    seconds: float,
    turn: float = 0.002,
    rounds: int = 40,
    clock: Callable[[], float] = time.perf_counter,
    park: bool = False,
) -> dict[str, list[float]]:
    """Milliseconds of one call of each contestant, for each round.

    A turn is as many calls as take about ``turn`` seconds, after one that is not timed: it wakes
    threads that slept and brings back what the others drove out of the caches. ``park``: before
    that, everybody's threads have gone to sleep (``until_idle``), and as many calls as take
    ``_WARM`` are not timed; for contestants with threads of their own. Every other round goes
    backwards. There are at least three rounds, one where a call takes longer than ``seconds``,
    which are those of the turns alone.
    """
    counts: dict[str, int] = {}
    warm: dict[str, int] = {}
    longest = 0.0
    for name, loop in loops.items():
        loop(1)
        start = clock()
        loop(1)
        once = max(clock() - start, 1e-9)
        counts[name] = min(max(1, round(turn / once)), 100_000)
        warm[name] = max(1, round(counts[name] * _WARM / turn)) if park else 1
        longest = max(longest, once)
    samples: dict[str, list[float]] = {name: [] for name in loops}
    left = seconds
    least = 3 if longest < seconds else 1
    for number in range(rounds):
        for name in list(loops)[:: -1 if number % 2 else 1]:
            loop = loops[name]
            if park:
                until_idle()
            begun = time.perf_counter()
            if counts[name] > 1 or park:
                loop(warm[name])
            start = clock()
            loop(counts[name])
            samples[name].append((clock() - start) / counts[name] * 1e3)
            left -= time.perf_counter() - begun
        if left < 0 and number + 1 >= least:
            break
    return samples


def spread(samples: list[float]) -> float:
    """Half the 95% interval of the median, relative to it, as box plots notch it: 1.57 quartile
    ranges over √n (McGill, Tukey, Larsen, "Variations of box plots", 1978). 1 for one sample."""
    if len(samples) < 2:
        return 1.0
    low, middle, high = quantiles(samples, n=4, method="inclusive")
    return float(1.57 * (high - low) / len(samples) ** 0.5 / middle)
