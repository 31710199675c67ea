"""Times of several programs side by side: they take turns, so that noise hits all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

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


def until_idle(longest: float = 0.5) -> bool:
    """Wait until no thread of this process computes, ``longest`` seconds at most; whether it is so.

    Libraries' workers spin when their work is done, some for a tenth of a second, on processors
    that whoever comes next needs.
    """
    end = time.perf_counter() + longest
    while time.perf_counter() < end:
        start, used = time.perf_counter(), time.process_time()
        time.sleep(0.012)  # other threads' times advance with the system's tick, of 4 ms or 10
        if time.process_time() - used < 0.2 * (time.perf_counter() - start):
            return True
    return False
