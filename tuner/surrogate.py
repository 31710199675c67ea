"""Which candidates to time next: a Gaussian process learns from those that were timed.

The logarithm of a time is that of the estimate, times a slope that nobody knows, and what each
number and line of the candidate's text adds, alone and together with the others. Where estimates
rank wrongly, the slope becomes small, and nearness to what was fast decides. What is timed next is
the fastest by each of a few functions drawn from those that are still possible (Thompson sampling).
See Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), 2.3 and 5.4;
Kandasamy et al., "Parallelised Bayesian Optimisation via Thompson Sampling" (2018).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.linalg import cholesky, solve

from weft.tuner.space import NUMBER

Array = np.ndarray
Trait = tuple[str, int, int]  # a line without its numbers, which of its kind, which number of it

SLOPE, DOUBT = 0.5, 0.5  # of log time over log estimate: mean and deviation
NOISE = 0.02  # deviation of a logarithm of a time
DEVIATIONS = (0.05, 0.2, 0.6)  # of what one trait adds, and of what all do together
LENGTHS = (0.3, 1.0)  # of the range of a trait, over which what it adds changes
FIRST = (0.2, 0.2, 1.0)  # of these, where too few were timed to choose
ENOUGH = 8  # times to choose by
MOST = 256  # candidates that functions are drawn for


@dataclass(frozen=True, slots=True)
class Points:
    """Candidates: ``places``, a row each with a column in [0, 1] for each trait, and logarithms of
    their estimates."""

    places: Array
    guesses: Array

    def some(self, which: Array | slice) -> Points:
        return Points(self.places[which], self.guesses[which])


@dataclass(frozen=True, slots=True)
class Process:
    """Deviations of what a trait adds ``alone`` and of what all add ``together``, and over which
    ``length``."""

    alone: float
    together: float
    length: float

    def covariance(self, one: Points, other: Points) -> Array:
        return self.weighed(one, other, *_nearness(one, other, self.length))

    def weighed(self, one: Points, other: Points, alone: Array, together: Array) -> Array:
        by_estimate: Array = DOUBT**2 * np.outer(one.guesses, other.guesses)
        return by_estimate + self.alone**2 * alone + self.together**2 * together


def _nearness(one: Points, other: Points, length: float) -> tuple[Array, Array]:
    """The sum over all traits, and the product, of exp(-distance / length)."""
    alone, apart = np.zeros((2, len(one.guesses), len(other.guesses)))
    for ours, theirs in zip(one.places.T, other.places.T, strict=True):
        gap = np.abs(ours[:, None] - theirs) / length
        alone += np.exp(-gap)
        apart += gap
    return alone, np.exp(-apart)


def promising(
    texts: Sequence[str],
    estimates: Sequence[float],
    times: Sequence[float],
    count: int,
    random: np.random.Generator,
) -> list[int]:
    """Up to ``count`` of the candidates that were not timed, by number.

    The first of ``texts`` were, and took ``times``. ``estimates`` are 0 where there are none.
    """
    points = Points(_places(texts), _logarithms(estimates, len(times)))
    timed, rest = points.some(slice(len(times))), points.some(slice(len(times), None))
    logs = np.log(times)
    surprises = logs - logs.mean() - SLOPE * timed.guesses
    process = _likeliest(timed, surprises)
    factor = _factor(process.covariance(timed, timed))
    told = solve(factor, process.covariance(timed, rest))
    expected = SLOPE * rest.guesses + told.T @ solve(factor, surprises)
    likely = np.argsort(expected, kind="stable")[:MOST]
    some, told = rest.some(likely), told[:, likely]
    left = _factor(process.covariance(some, some) - told.T @ told)
    functions = expected[likely] + random.standard_normal((count, len(likely))) @ left.T
    chosen: list[int] = []
    for values in functions:
        values[chosen] = np.inf
        chosen += [int(np.argmin(values))] if len(chosen) < len(likely) else []
    return [len(times) + int(likely[k]) for k in chosen]


def _likeliest(timed: Points, surprises: Array) -> Process:
    """The process by which ``surprises`` are likeliest (their marginal likelihood)."""
    if len(surprises) < ENOUGH:
        return Process(*FIRST)
    near = {length: _nearness(timed, timed, length) for length in LENGTHS}

    def likelihood(process: Process) -> float:
        factor = _factor(process.weighed(timed, timed, *near[process.length]))
        return float(-np.sum(solve(factor, surprises) ** 2) / 2 - np.sum(np.log(np.diag(factor))))

    return max((Process(*c) for c in product(DEVIATIONS, DEVIATIONS, LENGTHS)), key=likelihood)


def _factor(covariance: Array) -> Array:
    """Of ``covariance`` and the noise."""
    return cholesky(covariance + NOISE**2 * np.eye(len(covariance)))


# ---- candidates as points -----------------------------------------------------------------------


def _logarithms(estimates: Sequence[float], timed: int) -> Array:
    """Over the mean of those that were timed; 0 for those without an estimate."""
    known = np.array(estimates, float)
    found = np.log(np.where(known > 0, known, 1.0))
    some = found[:timed][known[:timed] > 0]
    return np.where(known > 0, found - (some.mean() if len(some) else 0.0), 0.0)


def _places(texts: Sequence[str]) -> Array:
    """A row for each text: the values of a trait in order, from 0 to 1; without traits that are the
    same in all, or move with another."""
    found = [dict(_traits(text)) for text in texts]
    columns: dict[tuple[float, ...], None] = {}
    for trait in dict.fromkeys(trait for each in found for trait in each):
        _, codes = np.unique([each.get(trait, -1) for each in found], return_inverse=True)
        if codes.any():
            columns[tuple(codes / codes.max())] = None
    return np.array(list(columns)).reshape(-1, len(texts)).T


@lru_cache(maxsize=4096)
def _traits(text: str) -> tuple[tuple[Trait, int], ...]:
    """Of each line that it is there (number 0), and its numbers."""
    seen: Counter[str] = Counter()
    found: list[tuple[Trait, int]] = []
    for line in text.splitlines():
        kind = NUMBER.sub("#", line)
        seen[kind] += 1
        numbers = [1, *map(int, NUMBER.findall(line))]
        found += [((kind, seen[kind], k), number) for k, number in enumerate(numbers)]
    return tuple(found)
