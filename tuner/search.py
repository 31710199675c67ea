"""The search: plans are drafted by estimate, and verified by the clock.

    draft      what is one step from the best plans so far, priced; equal schedules count once
    verify     what is promising by estimates and by what was timed (``surrogate.py``), built and
               timed beside the untuned program
    halve      the better half of these once more, for longer (successive halving)

until the budget is spent, or all that is left is known to be no better. Which candidates come next
follows from times alone, and these are kept: the same seed and records give the same plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

import numpy as np
from threadpoolctl import threadpool_limits

from weft.runtime.records import Overrides
from weft.tuner.space import combined
from weft.tuner.surrogate import promising

DRAFTED, VERIFIED = 48, 8  # candidates of a turn
KEPT = 3  # plans that neighbours are drawn from
IDLE = 3  # turns without a gain, after which a local optimum is left
LEAST_GAIN = 1.01  # below which a turn counts as one without


@dataclass(frozen=True, slots=True)
class Drafted:
    """A candidate with its ``estimate`` in seconds (0: there is none), the ``digest`` of its
    schedule, and its ``script``, where there is one."""

    overrides: Overrides
    estimate: float
    digest: str
    script: str = ""

    @property
    def text(self) -> str:
        """What tells it from others: its script, or what it decides."""
        return self.script or "\n".join(f"{n} = {v}" for n, v in sorted(self.overrides.items()))


class Bench(Protocol):
    """What a search asks. ``neighbours`` of a candidate; ``draft``: candidates priced, those that
    are refused left out; ``time``: how many times faster than the untuned program each is, None
    where it failed, with so much ``effort`` (1, 2, …)."""

    def neighbours(self, overrides: Overrides) -> Iterator[Overrides]: ...

    def draft(self, some: Sequence[Overrides]) -> list[Drafted]: ...

    def time(self, some: Sequence[Overrides], effort: int) -> list[float | None]: ...


@dataclass(slots=True)
class Trail:
    """What was found: gains over the untuned program by candidate, the best first; and how often
    something was timed."""

    gains: list[tuple[float, Drafted]] = field(default_factory=list)
    trials: int = 0
    refused: int = 0
    exhausted: bool = False
    interrupted: bool = False  # by Ctrl-C
    estimates: list[tuple[float, float]] = field(default_factory=list)  # (estimate, 1 / gain)

    @property
    def best(self) -> float:
        return max([1.0, *(gain for gain, _ in self.gains)])


def search(
    bench: Bench,
    going: Callable[[Trail], bool],
    seed: int,
    priors: Sequence[Overrides] = (),
    *,
    by_estimate: bool = True,
) -> Trail:
    """Search while ``going`` says so. ``priors``: candidates to begin with. Without
    ``by_estimate``, what is verified is drawn at random: what a search has to be better than."""
    return _Search(bench, going, Random(seed), by_estimate).run(priors)


class _Search:
    def __init__(
        self, bench: Bench, going: Callable[[Trail], bool], random: Random, by_estimate: bool
    ) -> None:
        self.bench, self.going, self.random, self.by_estimate = bench, going, random, by_estimate
        self.trail = Trail()
        self.seen: set[str] = set()  # candidates that were drafted, as text
        self.digests: set[str] = set()  # schedules that were timed
        self.waiting: list[Drafted] = []  # priced, and not timed
        self.spread = 1  # steps from the best

    def run(self, priors: Sequence[Overrides]) -> Trail:
        try:
            self.walk(priors)
        except KeyboardInterrupt:
            self.trail.interrupted = True
        return self.trail

    def walk(self, priors: Sequence[Overrides]) -> None:
        (untuned,) = self.bench.draft([{}]) or [Drafted({}, 0.0, "")]
        self.seen.add(_text({}))
        self.digests.add(untuned.digest)
        self.trail.gains.append((1.0, untuned))
        self.add(priors)
        idle = 0
        while self.going(self.trail):
            before = self.trail.best
            self.add(self.nearby())
            chosen = self.chosen()
            if not chosen:
                if idle > IDLE:
                    self.trail.exhausted = True
                    break
                idle += 1
                self.spread += 1
                continue
            self.verify(chosen)
            idle = 0 if self.trail.best > before * LEAST_GAIN else idle + 1
            self.spread = 1 if idle < IDLE else 2

    def nearby(self) -> list[Overrides]:
        """Neighbours of the best, pairs of what gained, and, once these are known, neighbours of
        neighbours."""
        best = [drafted.overrides for _, drafted in self.trail.gains[:KEPT]]
        found: list[Overrides] = []
        for overrides in best:
            found += self.bench.neighbours(overrides)
        found += combined([d.overrides for gain, d in self.trail.gains[:8] if gain > 1.0])
        fresh = [each for each in found if _text(each) not in self.seen]
        for _ in range(DRAFTED if self.spread > 1 and found else 0):
            step = self.random.choice(found)
            others = list(self.bench.neighbours(step))
            if others:
                fresh.append(self.random.choice(others))
        self.random.shuffle(fresh)
        return fresh[:DRAFTED]

    def add(self, some: Sequence[Overrides]) -> None:
        """Price what is not known yet."""
        fresh = list({_text(each): each for each in some if _text(each) not in self.seen}.values())
        self.seen |= {_text(each) for each in fresh}
        priced = self.bench.draft(fresh) if fresh else []
        self.trail.refused += len(fresh) - len(priced)
        for drafted in priced:
            if drafted.digest not in self.digests:
                self.digests.add(drafted.digest)
                self.waiting.append(drafted)

    def chosen(self) -> list[Drafted]:
        """What to time: what is promising by what was timed, or any at random."""
        numbers = self.promising() if self.by_estimate else self.at_random()
        chosen = [self.waiting[k] for k in numbers]
        self.waiting = [d for k, d in enumerate(self.waiting) if k not in numbers]
        return chosen

    def promising(self) -> list[int]:
        timed = [drafted for _, drafted in self.trail.gains]
        known = [*timed, *self.waiting]
        with threadpool_limits(1):  # threads of a BLAS spin, beside what is being timed, too
            numbers = promising(
                [d.text for d in known],
                [d.estimate for d in known],
                [1 / gain for gain, _ in self.trail.gains],
                VERIFIED,
                np.random.default_rng(self.random.getrandbits(32)),
            )
        return [k - len(timed) for k in numbers]

    def at_random(self) -> list[int]:
        return self.random.sample(range(len(self.waiting)), min(VERIFIED, len(self.waiting)))

    def verify(self, chosen: Sequence[Drafted]) -> None:
        """Time ``chosen``, and the better half of them once more, for longer."""
        first = self.bench.time([d.overrides for d in chosen], 1)
        self.trail.trials += len(chosen)
        fine = [(gain, d) for gain, d in zip(first, chosen, strict=True) if gain is not None]
        self.trail.refused += len(chosen) - len(fine)
        fine.sort(key=lambda pair: -pair[0])
        again = [d for gain, d in fine[: (len(fine) + 1) // 2] if gain > 1.0]
        second = self.bench.time([d.overrides for d in again], 2) if again else []
        sure = {d.digest: gain for gain, d in zip(second, again, strict=True)}
        for gain, d in fine:
            measured = sure.get(d.digest, gain)
            if measured is not None:
                self.trail.gains.append((measured, d))
                if d.estimate:
                    self.trail.estimates.append((d.estimate, 1 / measured))
        self.trail.gains.sort(key=lambda pair: -pair[0])


def _text(overrides: Overrides) -> str:
    return repr(sorted(overrides.items()))
