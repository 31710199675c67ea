"""``python -m benchmarks spaces``: a tuner's search beside exhaustive search, on real kernels.

A space is what the constants and the optional steps of a schedule's script make, all combinations:
each is proved, built and timed once, beside the untuned program. The search is then replayed on
those times, from several seeds: ``trials`` until one is timed that is within 5% of the best;
``unguided``, the same without estimates; ``at_random``, in any order; ``family``, beginning with
the best candidates for the same kernel at its other size. ``tenth``: times the best that the search
has after a tenth of all trials. ``good``: the share of candidates within 5% of the best. Spearman
is that of estimates and times over all of the space. The last row is about spaces of at least 200
candidates of which at most 5% are good.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, product
from statistics import median
from typing import Any

import numpy as np

import weft
from weft.app.cli_shared import progress
from weft.benchmarks.tune import rows
from weft.runtime.records import Overrides
from weft.tuner.confirm import spearman
from weft.tuner.laboratory import Laboratory, workshop
from weft.tuner.problem import problem_of_kernel
from weft.tuner.search import Drafted, Trail, search
from weft.tuner.session import PRIORS
from weft.tuner.space import constants, optional_steps, resized, sizes_near
from weft.tuner.trial import TURN
from weft.tuner.workplace import here

Row = dict[str, Any]
Point = tuple[int, ...]

KERNELS = (
    "gemm", "trmm", "syrk", "syr2k", "symm", "2mm", "lu", "cholesky", "jacobi-2d", "heat-3d",
    "fdtd-2d", "covariance", "doitgen",
)  # fmt: skip
NAMES = tuple(f"{kernel} {size}" for kernel in KERNELS for size in ("small", "medium"))
QUICK = ("gemm small", "gemm medium")
ENOUGH, MOST = 240, 400  # candidates of a space, before those are left out that are refused
AXIS = 7  # values of an axis
GROUP = 8  # candidates that are timed together
ROUNDS, LONGEST = 12, 4.0  # of a group; seconds
NEAR = 1.05  # times the best: what counts as found
SEEDS = range(9)
LEAST, RARE = 200, 0.05  # candidates, and the share of good ones, of spaces that are hard


@dataclass(frozen=True, slots=True)
class Axes:
    """What may be changed of ``script``, the value of the decision ``name``: constants, each with
    its values, and lines that may be left out. A point has a number for each of them, 0 for what
    the script has."""

    script: str
    name: str
    sizes: dict[int, list[int]]
    steps: tuple[int, ...]

    @property
    def shape(self) -> Point:
        return (*map(len, self.sizes.values()), *(2 for _ in self.steps))

    def overrides(self, point: Point) -> Overrides:
        if not any(point):
            return {}
        chosen = {n: v[k] for (n, v), k in zip(self.sizes.items(), point, strict=False)}
        gone = {s for s, k in zip(self.steps, point[len(self.sizes) :], strict=True) if k}
        lines = [line for k, line in enumerate(self.script.splitlines()) if k not in gone]
        return {self.name: resized("\n".join(lines), chosen)}

    def script_of(self, overrides: Overrides) -> str:
        return str(overrides.get(self.name, self.script))


def axes_of(script: str, name: str) -> Axes:
    """Constants in the order of ``constants``, then lines, until there are ``ENOUGH`` points."""
    sizes: dict[int, list[int]] = {}
    points = 1
    for constant in constants(script):
        values = [constant, *sizes_near(constant)][: min(AXIS, MOST // points)]
        if points < ENOUGH and len(values) > 1:
            sizes[constant] = values
            points *= len(values)
    steps = optional_steps(script)
    count = next((k for k in range(len(steps)) if points << k >= ENOUGH), len(steps))
    return Axes(script, name, sizes, tuple(steps[:count]))


@dataclass(slots=True)
class Space:
    """A ``Bench`` of known times: of each candidate, those of the untuned program. ``points``: of
    candidates, by text; others are refused."""

    axes: Axes
    points: dict[str, Point]
    drafted: dict[Point, Drafted]
    times: dict[str, float]  # by digest
    timed: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        return min(self.times.values())

    def neighbours(self, overrides: Overrides) -> Iterator[Overrides]:
        point = self.points.get(repr(overrides))
        if point is None:
            return
        for k, count in enumerate(self.axes.shape):
            for value in set(range(count)) - {point[k]}:
                yield self.axes.overrides((*point[:k], value, *point[k + 1 :]))

    def draft(self, some: Sequence[Overrides]) -> list[Drafted]:
        return [self.drafted[self.points[repr(o)]] for o in some if repr(o) in self.points]

    def time(self, some: Sequence[Overrides], effort: int) -> list[float | None]:
        found = [self.times[self.drafted[self.points[repr(o)]].digest] for o in some]
        self.timed += found if effort == 1 else []
        return [1 / t for t in found]

    def searched(self, seed: int, priors: Sequence[Overrides] = (), **how: bool) -> int:
        """Trials until one was near the best: all that there are, where none was."""
        self.timed = []
        search(self, lambda trail: not self._found(), seed, priors, **how)
        return self._found() or len(self.times)

    def tenth(self, seed: int) -> float:
        """The best after a tenth of all trials, over the best."""
        self.timed = []
        most = len(self.times) // 10

        def going(trail: Trail) -> bool:
            return trail.trials < most

        search(self, going, seed)
        return min([1.0, *self.timed[:most]]) / self.best

    def _found(self) -> int:
        near = (k for k, t in enumerate(self.timed, 1) if t <= NEAR * self.best)
        return next(near, 0)

    def at_random(self, seed: int) -> int:
        good = np.array(list(self.times.values())) <= NEAR * self.best
        return 1 + int(np.argmax(np.random.default_rng(seed).permutation(good)))


# ---- measuring -----------------------------------------------------------------------------------


def measured(name: str, options: weft.Options) -> Space:
    """The space of a kernel of ``benchmarks tune``, every candidate timed."""
    source, args = rows()[name]()
    arrays = {n: np.asarray(a) for n, a in args.items()}
    problem = problem_of_kernel(source.lowered, arrays)
    with here(options) as place, workshop(place) as shop:
        lab = shop.laboratory(problem, options, arrays)
        (untuned,) = lab.draft([{}])
        axes = axes_of(untuned.script, f"{problem.name}.script")
        every = {p: axes.overrides(p) for p in product(*map(range, axes.shape))}
        drafts = zip(every.items(), lab.draft(list(every.values())), strict=True)
        drafted = {
            p: Drafted(o, d.estimate, d.digest, axes.script_of(o))
            for (p, o), d in drafts
            if not d.refused
        }
        distinct = {d.digest: d.overrides for d in reversed(drafted.values())}
        times = _times(lab, distinct)
    drafted = {p: d for p, d in drafted.items() if d.digest in times}
    return Space(axes, {repr(every[p]): p for p in drafted}, drafted, times)


def _times(lab: Laboratory, plans: dict[str, Overrides]) -> dict[str, float]:
    """Of each plan, over that of the untuned program; without those that fail."""
    (base,) = lab.build([{}])
    built = dict(zip(plans, lab.build(list(plans.values())), strict=True))
    able = {digest: b for digest, b in built.items() if b.path}
    (pair,) = lab.timer.beside(base, [base], 0.2)
    assert not isinstance(pair, str), pair
    once = max(TURN, float(np.median(pair[0])))
    found = {}
    digests = list(able)
    for first in range(0, len(digests), GROUP):
        group = digests[first : first + GROUP]
        seconds = min(LONGEST, ROUNDS * once * (len(group) + 1))
        pairs = lab.timer.beside(base, [able[d] for d in group], seconds)
        for digest, pair in zip(group, pairs, strict=True):
            if not isinstance(pair, str):
                found[digest] = float(np.median(np.divide(pair[1], pair[0])))
    return found


# ---- rows ----------------------------------------------------------------------------------------


def run(threads: int, quick: bool, only: Sequence[str] = ()) -> Iterator[Row]:
    """A row for each space as its kernel is done, and the last one for those that are hard."""
    names = sorted(only or (QUICK if quick else NAMES), key=NAMES.index)
    options = weft.Options(threads=threads)
    found: list[Row] = []
    with progress("spaces", len(names)) as step:
        for _, sizes in groupby(names, key=lambda name: name.split()[0]):
            spaces: dict[str, Space] = {}
            for name in sizes:
                step(name)
                spaces[name] = measured(name, options)
            for name in spaces:
                found.append(_row(name, spaces))
                yield found[-1]
    hard = [row for row in found if row["count"] >= LEAST and row["good"] <= RARE]
    columns = ("spearman", "tenth", "trials", "unguided", "at_random", "family")
    known = {c: [row[c] for row in hard if row[c] != ""] for c in columns}
    yield {
        "name": f"all of {len(hard)}",
        "near": sum(row["tenth"] <= NEAR for row in hard),
        **{c: round(median(values), 3) for c, values in known.items() if values},
    }


def _priors(name: str, spaces: Mapping[str, Space]) -> list[Overrides] | None:
    """The best candidates of all ``spaces`` but that of ``name``; None where there are none."""
    found: list[tuple[float, Overrides]] = []
    for space in (space for other, space in spaces.items() if other != name):
        found += [(space.times[d.digest], d.overrides) for d in space.drafted.values()]
    found.sort(key=lambda pair: pair[0])
    return [overrides for _, overrides in found[:PRIORS]] or None


def _row(name: str, spaces: Mapping[str, Space]) -> Row:
    """Of ``name``, where ``spaces`` are those of one kernel."""
    space, priors = spaces[name], _priors(name, spaces)
    times = list(space.times.values())
    by_digest = {d.digest: d.estimate for d in space.drafted.values()}
    guessed = [by_digest[digest] for digest in space.times]
    return {
        "name": name,
        "count": len(times),
        "gain": round(1 / space.best, 3),
        "good": round(float(np.mean(np.array(times) <= NEAR * space.best)), 3),
        "spearman": round(spearman(guessed, times), 3),
        "tenth": round(median(space.tenth(seed) for seed in SEEDS), 3),
        "trials": median(space.searched(seed) for seed in SEEDS),
        "unguided": median(space.searched(seed, by_estimate=False) for seed in SEEDS),
        "at_random": median(space.at_random(seed) for seed in range(99)),
        "family": "" if priors is None else median(space.searched(s, priors) for s in SEEDS),
    }
