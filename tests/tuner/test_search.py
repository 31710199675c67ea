"""The search on synthetic spaces, beside exhaustive search and random search."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median

import numpy as np
import pytest

from weft.tuner.search import Drafted, Overrides, Trail, search

SPACES = range(24)


@dataclass
class Space:
    """A ``Bench`` of known times: decisions with a few values each, the first of which is what the
    untuned program has.

    The time of a candidate is a product of a factor for each decision and, where it is
    ``interacting``, of one for each pair of values of two of them. Estimates are times to the power
    of ``trust``, with noise.
    """

    number: int
    interacting: bool
    trust: float = 1.0
    shape: tuple[int, ...] = ()
    times: dict[tuple[int, ...], float] = field(default_factory=dict)
    estimates: dict[tuple[int, ...], float] = field(default_factory=dict)
    timed: list[tuple[int, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        random = np.random.default_rng(self.number)
        while True:
            self.shape = tuple(int(n) for n in random.integers(2, 8, random.integers(4, 6)))
            if 400 <= math.prod(self.shape) <= 3000 and self._filled(random):
                return

    def _filled(self, random: np.random.Generator) -> bool:
        """Whether 0.1 to 5% of all candidates are within 5% of the best."""
        singles = [np.exp(0.25 * random.standard_normal(n)) for n in self.shape]
        pairs = list(itertools.combinations(range(len(self.shape)), 2))
        joint = {p: np.exp(0.15 * random.standard_normal(tuple(self.shape[k] for k in p)))
                 for p in pairs[:: 2 if self.interacting else len(pairs) + 1]}  # fmt: skip
        for point in itertools.product(*map(range, self.shape)):
            time = math.prod(s[k] for s, k in zip(singles, point, strict=True))
            if self.interacting:
                time *= math.prod(float(t[point[a], point[b]]) for (a, b), t in joint.items())
            self.times[point] = float(time)
            self.estimates[point] = float(time**self.trust * np.exp(0.2 * random.standard_normal()))
        good = sum(t <= 1.05 * self.best for t in self.times.values()) / len(self.times)
        if good <= 0.05 and self.untuned > 1.3 * self.best:
            return True
        self.times.clear()
        self.estimates.clear()
        return False

    @property
    def best(self) -> float:
        return min(self.times.values())

    @property
    def untuned(self) -> float:
        return self.times[(0,) * len(self.shape)]

    def point(self, overrides: Overrides) -> tuple[int, ...]:
        return tuple(int(overrides.get(f"d{k}", 0)) for k in range(len(self.shape)))

    def neighbours(self, overrides: Overrides) -> Iterator[Overrides]:
        point = self.point(overrides)
        for k, count in enumerate(self.shape):
            for value in range(count):
                if value != point[k]:
                    yield {**overrides, f"d{k}": value}

    def draft(self, some: Sequence[Overrides]) -> list[Drafted]:
        return [Drafted(o, self.estimates[p], repr(p)) for o in some for p in [self.point(o)]]

    def time(self, some: Sequence[Overrides], effort: int) -> list[float | None]:
        points = [self.point(o) for o in some]
        self.timed += points if effort == 1 else []
        return [self.untuned / self.times[p] for p in points]

    def within(self, share: float) -> float:
        """Trials until something was timed that is within ``share`` of the best."""
        for number, point in enumerate(self.timed, 1):
            if self.times[point] <= (1 + share) * self.best:
                return number
        return math.inf


def explored(
    number: int, interacting: bool, *, by_estimate: bool = True, share: float = 1.0
) -> Space:
    space = Space(number, interacting)
    most = share * len(space.times)

    def going(trail: Trail) -> bool:
        return trail.trials + 8 <= most

    search(space, going, number, by_estimate=by_estimate)
    return space


@pytest.mark.long
@pytest.mark.parametrize("interacting", [False, True], ids=["separable", "interacting"])
def test_near_the_optimum_with_a_tenth_of_the_trials(interacting: bool) -> None:
    spaces = [explored(n, interacting, share=0.1) for n in SPACES]
    assert all(len(s.timed) <= 0.1 * len(s.times) for s in spaces)
    missed = [s.number for s in spaces if s.within(0.05) == math.inf]
    assert missed == []


def not_yet(space: Space, trail: Trail) -> bool:
    return space.within(0.05) == math.inf


@pytest.mark.parametrize("trust", [1.0, 0.0, -0.5], ids=["right", "blind", "wrong"])
@pytest.mark.parametrize("interacting", [False, True], ids=["separable", "interacting"])
def test_three_times_fewer_trials_than_at_random(interacting: bool, trust: float) -> None:
    """Whatever estimates say. Random search times candidates in any order: its trials until the
    first of the good ones."""
    ratios = []
    for number in SPACES:
        space = Space(number, interacting, trust)
        search(space, partial(not_yet, space), number)
        random = np.random.default_rng(number)
        good = np.array(list(space.times.values())) <= 1.05 * space.best
        chance = [1 + int(np.argmax(random.permutation(good))) for _ in range(100)]
        ratios.append(median(chance) / space.within(0.05))
    assert median(ratios) >= 3


def test_the_seed_decides() -> None:
    one, other = (explored(3, True, share=0.1).timed for _ in range(2))
    assert one == other


@pytest.mark.parametrize("share", [0.0, 0.02])
def test_a_budget_is_kept(share: float) -> None:
    space = explored(1, False, share=share)
    assert len(space.timed) <= share * len(space.times)


class Failing(Space):
    """Half of all candidates fail, whichever they are; some are refused."""

    def draft(self, some: Sequence[Overrides]) -> list[Drafted]:
        return [d for d in super().draft(some) if hash_of(d.overrides) % 5]

    def time(self, some: Sequence[Overrides], effort: int) -> list[float | None]:
        found = super().time(some, effort)
        return [g if hash_of(o) % 2 else None for g, o in zip(found, some, strict=True)]


def hash_of(overrides: Overrides) -> int:
    return sum(map(ord, repr(sorted(overrides.items()))))


def test_candidates_that_fail_end_nothing() -> None:
    space = Failing(5, True)
    trail = search(space, lambda trail: trail.trials < 300, 0)
    assert trail.trials >= 300 or trail.exhausted
    assert all(hash_of(d.overrides) % 2 for gain, d in trail.gains if gain != 1.0)
    assert trail.best > 1.0 and trail.refused > 0


def test_nothing_can_be_drafted() -> None:
    class Refusing(Space):
        def draft(self, some: Sequence[Overrides]) -> list[Drafted]:
            return []

    trail = search(Refusing(1, False), lambda trail: trail.trials < 10, 0)
    assert trail.trials == 0 and trail.best == 1.0 and trail.exhausted


def test_ctrl_c_keeps_what_was_found() -> None:
    class Interrupted(Space):
        def time(self, some: Sequence[Overrides], effort: int) -> list[float | None]:
            if len(self.timed) > 30:
                raise KeyboardInterrupt
            return super().time(some, effort)

    trail = search(Interrupted(2, True), lambda trail: True, 0)
    assert trail.interrupted and trail.trials > 0 and len(trail.gains) > 1


def test_priors_come_first() -> None:
    space = Space(4, False)
    prior = {f"d{k}": v for k, v in enumerate(min(space.times, key=space.times.__getitem__))}
    trail = search(space, lambda trail: trail.trials < 8, 0, [prior])
    assert trail.gains[0][1].overrides == prior
