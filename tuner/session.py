"""The search for one problem: what it timed before, what it may still spend, what it found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from weft.driver.advice import about
from weft.driver.options import Options
from weft.ir.errors import CompileError
from weft.ir.plan import Plan, Value
from weft.runtime.records import (
    About,
    Confirmed,
    Overrides,
    Records,
    Session,
    Trial,
    plan_text,
    read_plan,
    translated,
)
from weft.tuner.confirm import Gain, gain, spearman
from weft.tuner.laboratory import Built, Laboratory, Pair, Workshop
from weft.tuner.problem import Arrays, Problem
from weft.tuner.search import Drafted, Trail, search
from weft.tuner.space import decided_otherwise, rescripted
from weft.tuner.trial import TURN, Draft, scheduled_scop

ROUNDS = 8  # that a trial is timed in, times its effort
LONGEST = 4.0  # seconds that rounds of a trial take at most, times the effort
FINALISTS, PROCESSES = 3, 3  # that are confirmed, and in how many processes each
MORE_ROUNDS = 30  # of a confirmation
CLOSED = 1.05  # times its bound that a program takes where nothing is left to find
ATTEMPTS = 3  # at the untuned program
PRIORS = 8  # plans of other sizes and machines to begin with


Tell = Callable[[str, float], None]
"""Hears which kernel is at work, and its best gain so far."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What all searches of one ``weft.tune`` share: the ``shop`` of their laboratories, the
    ``options`` of the code, ``records``, the ``seed`` of what is random, and who hears."""

    shop: Workshop
    options: Options
    records: Records
    seed: int
    tell: Tell

    def tuner(
        self, problem: Problem, arrays: Arrays | None, title: str = "", *, scripts: bool = True
    ) -> Tuner:
        """Of ``problem``, called ``title``, timed with ``arrays`` (None: made up)."""
        lab = self.shop.laboratory(problem, self.options, arrays, self.seed)
        return Tuner(lab, self.records, partial(self.tell, title or problem.name), scripts)


@dataclass(frozen=True, slots=True)
class Budget:
    """``seconds`` and ``trials`` that a search may take; None: any number."""

    seconds: float | None
    trials: int | None = None

    def __str__(self) -> str:
        return f"{self.seconds} s, {self.trials} trials"

    def part(self, share: float) -> Budget:
        seconds = None if self.seconds is None else self.seconds * share
        return Budget(seconds, None if self.trials is None else max(1, round(self.trials * share)))


@dataclass(frozen=True, slots=True)
class Change:
    """A decision that a plan takes otherwise: ``before``, ``after``, and how many times slower the
    program is with that alone taken back (1: it made no difference; None: it cannot be)."""

    name: str
    before: Value | None
    after: Value
    worth: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was found for one problem, of which there are ``occurrences``.

    ``before`` and ``after``: seconds of a call. ``gain`` of ``plan``, None where the untuned
    program stays. ``bound``: seconds that no schedule stays below, at rates of arithmetic
    that were measured at the same time (0: not known). ``closed``: why there is nothing left to
    find, '' where there may be. ``noise``: times that equal programs differ. ``spearman``: how the
    estimates ranked what was timed, None for too few. ``curve``: the best gain so far by seconds
    since the beginning.
    """

    name: str
    occurrences: int
    before: float
    after: float
    gain: Gain | None
    plan: dict[str, Value]
    changes: tuple[Change, ...]
    bound: float
    closed: str
    trials: int
    refused: int
    noise: float
    spearman: float | None
    curve: tuple[tuple[float, float], ...]
    seconds: float
    interrupted: bool = False

    @property
    def gap(self) -> float | None:
        """How many times its bound the program takes; None where that is not known."""
        return self.after / self.bound if self.bound else None


@dataclass(slots=True)
class Tuner:
    """A ``Bench`` of the search on a laboratory, with records."""

    lab: Laboratory
    records: Records
    tell: Callable[[float], None] = lambda best: None
    scripts: bool = True  # whether schedules are changed beside decisions
    curve: list[tuple[float, float]] = field(default_factory=list)
    drafts: dict[str, Draft] = field(default_factory=dict)
    base: Built | None = None
    untuned: float = 0.0  # seconds of a call
    broken: str = ""  # why there are none
    noise: float = 1.0
    bound: float = 0.0  # seconds that no schedule stays below; 0: not known
    about: About = field(init=False)
    _known: dict[tuple[str, int], Trial] = field(init=False)
    _began: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        problem, options = self.lab.problem, self.lab.options
        found = about(
            scheduled_scop(problem, options), options, repr(problem.sizes), problem.family
        )
        self.about = replace(found, machine=self.lab.timer.machine)
        self._known = {(row.plan, row.effort): row for row in self.records.find(Trial, self.about)}

    # ---- as the search sees it -------------------------------------------------------------

    def neighbours(self, overrides: Overrides) -> Iterator[Overrides]:
        found = self.drafts.get(plan_text(overrides))
        if found is None or found.refused:
            return
        yield from decided_otherwise(Plan.read(found.plan), overrides)
        if self.scripts:
            yield from rescripted(found.script, f"{self.lab.problem.name}.script")

    def draft(self, some: Sequence[Overrides]) -> list[Drafted]:
        fresh = [each for each in some if plan_text(each) not in self.drafts]
        for overrides, made in zip(fresh, self.lab.draft(fresh), strict=True):
            self.drafts[plan_text(overrides)] = made
        found = [(each, self.drafts[plan_text(each)]) for each in some]
        return [
            Drafted(each, made.estimate, made.digest, made.script)
            for each, made in found
            if not made.refused
        ]

    def time(self, some: Sequence[Overrides], effort: int) -> list[float | None]:
        texts = [plan_text(each) for each in some]
        fresh = [s for s, t in zip(some, texts, strict=True) if (t, effort) not in self._known]
        if fresh:
            for text, row in zip(map(plan_text, fresh), self._timed(fresh, effort), strict=True):
                self._known[text, effort] = row
                self.records.keep(self.about, row)
        rows = [self._known[text, effort] for text in texts]
        earlier = [gain for _, gain in self.curve[-1:]]
        best = max([1.0, *earlier, *(row.gain for row in rows if not row.failed)])
        self.curve.append((time.perf_counter() - self._began, best))
        self.tell(best)
        return [None if row.failed else row.gain for row in rows]

    # ---- beneath ---------------------------------------------------------------------------

    def begin(self, seconds: float = 0.5) -> None:
        """Time the untuned program for so long, and how much two of it differ."""
        for _ in range(ATTEMPTS):  # what all others are compared with may fail by chance
            (self.base,) = self.lab.build([{}])
            self.broken = self.base.refused
            if self.base.path:
                (pair,) = self.lab.timer.beside(self.base, [self.base], seconds)
                self.broken = pair if isinstance(pair, str) else ""
                if not isinstance(pair, str):
                    self.untuned = float(np.median(pair[0]))
                    found = gain([pair])
                    self.noise = max(found.high, 1 / found.low if found.low > 0 else found.high)
                    self.bound = self.lab.bound()
                    break

    def begun(self) -> Tuner:
        """Itself, begun. Raises ``CompileError`` (WEFT-E1103) where the untuned program does not
        run."""
        self.begin()
        if self.broken:
            what = f"{self.lab.problem.name} does not run untuned"
            raise CompileError("WEFT-E1103", what, why=self.broken)
        return self

    def _timed(self, some: Sequence[Overrides], effort: int) -> list[Trial]:
        assert self.base is not None
        built = self.lab.build(some)
        distinct = {b.digest: b for b in built if b.path and b.digest != self.base.digest}
        chosen = list(distinct.values())
        seconds = self._seconds(len(chosen), effort)
        pairs = self.lab.timer.beside(self.base, chosen, seconds) if chosen else []
        own = dict(zip(distinct, pairs, strict=True))
        rows = []
        for overrides, each in zip(some, built, strict=True):
            pair = each.refused or own.get(each.digest)  # None: the untuned program itself
            failed = pair if isinstance(pair, str) else ""
            found = _ratio(pair) if isinstance(pair, tuple) else 1.0
            rows.append(Trial(plan_text(overrides), effort, found, failed, self.untuned))
        return rows

    def _seconds(self, count: int, effort: int) -> float:
        each = max(self.untuned, TURN) * (count + 1)
        return min(LONGEST * effort, ROUNDS * effort * each)

    def confirmed(self, trail: Trail) -> tuple[Gain, Overrides] | None:
        """The best of the finalists for sure; None where the untuned program stays."""
        known = {row.plan: row for row in self.records.find(Confirmed, self.about)}
        finalists = [d.overrides for found, d in trail.gains if found > 1.0][:FINALISTS]
        missing = [f for f in finalists if plan_text(f) not in known]
        for overrides, found in zip(missing, self.gains(missing), strict=True):
            if found is not None:
                row = Confirmed(plan_text(overrides), found.median, found.low, found.high)
                known[row.plan] = row
                self.records.keep(self.about, row)
        rows = [(known[plan_text(f)], f) for f in finalists if plan_text(f) in known]
        sure = [(Gain(r.gain, r.low, r.high), f) for r, f in rows]
        sure = [(g, f) for g, f in sure if g.sure]
        return max(sure, key=lambda pair: pair[0].low) if sure else None

    def known(self, plan: Overrides) -> tuple[Gain, Overrides] | None:
        """``plan`` with its gain, if that was confirmed."""
        text = plan_text(plan)
        rows = [row for row in self.records.find(Confirmed, self.about) if row.plan == text]
        found = [Gain(row.gain, row.low, row.high) for row in rows if row.sure]
        return (found[0], plan) if found else None

    def gains(self, some: Sequence[Overrides]) -> list[Gain | None]:
        """Of each, over ``PROCESSES`` processes."""
        assert self.base is not None
        built = [b for b in self.lab.build(some) if b.path]
        if not built:
            return [None] * len(some)
        each = max(self.untuned, TURN) * (len(built) + 1)
        seconds = min(2 * LONGEST, MORE_ROUNDS * each)
        runs = self.lab.timer.confirm(self.base, built, seconds, PROCESSES)
        found = {plan_text(b.plan): gain_of(pairs) for b, pairs in zip(built, runs, strict=True)}
        return [found.get(plan_text(each)) for each in some]

    def worth(self, chosen: Overrides) -> tuple[Change, ...]:
        """What of ``chosen`` is worth how much."""
        drafted = self.drafts[plan_text({})]
        before = Plan() if drafted.refused else Plan.read(drafted.plan)
        changes = [Change(n, before.get(n), v) for n, v in chosen.items()]
        if len(changes) < 2:
            return tuple(changes)
        without = [{n: v for n, v in chosen.items() if n != c.name} for c in changes]
        built = self.lab.build([chosen, *without])
        if not built[0].path:
            return tuple(changes)
        able = [b for b in built[1:] if b.path and b.digest != built[0].digest]
        seconds = self._seconds(len(able), 1)
        pairs = self.lab.timer.beside(built[0], able, seconds) if able else []
        own = {plan_text(b.plan): pair for b, pair in zip(able, pairs, strict=True)}
        found = []
        for change, rest, made in zip(changes, without, built[1:], strict=True):
            pair = made.refused or own.get(plan_text(rest))  # None: the same code
            worth = 1.0 if pair is None else None if isinstance(pair, str) else 1 / _ratio(pair)
            found.append(replace(change, worth=worth))
        return tuple(found)

    def priors(self) -> list[Overrides]:
        """What was found for the program of other names, for other sizes, and on other machines."""
        found: dict[str, Overrides] = {}
        for same in (("program", "sizes"), ("family", "machine"), ("program",), ("family",)):
            for other, row in self.records.alike(Confirmed, self.about, *same):
                if other == self.about:
                    continue  # what this very search found would change its course
                try:
                    plan = translated(read_plan(row.plan), other.names, self.about.names)
                except ValueError:
                    continue
                found.setdefault(plan_text(plan), plan)
        return list(found.values())[:PRIORS]


def tuned(tuner: Tuner, budget: Budget, seed: int, occurrences: int = 1) -> Outcome:
    """Search within ``budget``, confirm, and say what was found. ``tuner`` has begun.

    What a session of this ``seed`` and ``budget`` found that was finished before is said again. One
    that was interrupted goes on.
    """
    started, records = time.perf_counter(), tuner.records
    before = _session(records, tuner.about, seed, budget)
    untuned = tuner.draft([{}])  # [] where that is refused
    if before and before.done:
        trail, closed = Trail(trials=before.trials), before.closed
        sure = tuner.known(read_plan(before.plan))
    else:
        trail, closed = _searched(tuner, budget, seed, before)
        closed = closed if untuned else ""
        sure = tuner.confirmed(trail)
        spent = time.perf_counter() - started + (before.seconds if before else 0.0)
        found = plan_text(sure[1] if sure else {})
        finished = not (tuner.broken or trail.interrupted)
        done = Session(seed, str(budget), trail.trials, spent, finished, found, closed)
        records.keep(tuner.about, done)
    plan = dict(sure[1]) if sure else {}
    ranks = trail.estimates
    return Outcome(
        tuner.lab.problem.name,
        occurrences,
        tuner.untuned,
        tuner.untuned / sure[0].median if sure else tuner.untuned,
        sure[0] if sure else None,
        plan,
        tuner.worth(plan) if sure else (),
        tuner.bound,
        closed,
        trail.trials,
        trail.refused,
        tuner.noise,
        spearman(*zip(*ranks, strict=True)) if len(ranks) > 2 else None,
        tuple(tuner.curve),
        time.perf_counter() - started,
        trail.interrupted,
    )


def _searched(tuner: Tuner, budget: Budget, seed: int, before: Session | None) -> tuple[Trail, str]:
    """What the search finds, and why nothing is left, or ''. What was timed ``before`` costs
    nothing again."""
    started, spent = time.perf_counter(), before.seconds if before else 0.0
    closed = ""

    def going(trail: Trail) -> bool:
        nonlocal closed
        if not tuner.untuned:
            return False
        seconds = spent + time.perf_counter() - started
        now = Session(seed, str(budget), trail.trials, seconds, False)
        if not before or trail.trials >= before.trials:
            tuner.records.keep(tuner.about, now)
        if tuner.bound and tuner.untuned / trail.best <= CLOSED * tuner.bound:
            closed = "the bound is reached"
            return False
        if budget.trials is not None and trail.trials >= budget.trials:
            return False
        if before and trail.trials < before.trials:
            return True
        return budget.seconds is None or seconds < budget.seconds

    trail = search(tuner, going, seed, tuner.priors())
    return trail, "every candidate was timed, or is refused" if trail.exhausted else closed


def gain_of(pairs: Sequence[Pair]) -> Gain | None:
    """The gain that pairs of times show, by process; None where one of them has none."""
    able = [pair for pair in pairs if not isinstance(pair, str)]
    return gain(able) if len(able) == len(pairs) else None


def _ratio(pair: tuple[list[float], list[float]]) -> float:
    """How many times faster the second is."""
    return float(np.median(np.asarray(pair[0]) / np.asarray(pair[1])))


def _session(records: Records, of: About, seed: int, budget: Budget) -> Session | None:
    found = [s for s in records.find(Session, of) if (s.seed, s.budget) == (seed, str(budget))]
    return found[0] if found else None
