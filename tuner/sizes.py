"""Open sizes: one program for several calls, in versions by size where these want other plans.

Each call is tuned by itself, by decisions alone (a script is of no version). Every plan that won is
timed at every call; along one parameter the calls are cut into ranges, each with the plan that is
best there, by dynamic programming. What comes of it is confirmed at every call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import exp, log
from typing import Any

import numpy as np

from weft.driver.options import Options
from weft.ir.plan import Decision, Plan, Value
from weft.runtime.records import Records, plan_text
from weft.tuner.confirm import Gain
from weft.tuner.laboratory import Laboratory, Workshop
from weft.tuner.problem import Arrays, Problem
from weft.tuner.session import Budget, Outcome, Tell, Tuner, tuned
from weft.tuner.trial import Overrides

VERSIONS = 4  # at most
WORTH = 1.01  # the gain of one more version over all calls, below which there is none
SHARE = 0.8  # of a budget: for the calls, one by one


@dataclass(frozen=True, slots=True)
class Sized:
    """The ``plan`` of one program for all calls, its ``gains`` over the untuned one by call (None
    where one failed), and what was found for each call by itself."""

    plan: dict[str, Value]
    gains: tuple[Gain | None, ...]
    outcomes: tuple[Outcome, ...]

    @property
    def gain(self) -> Gain | None:
        """Over all calls, each counting the same: the geometric mean, and the least of the lower
        ends; None where the untuned program stays."""
        known = [g for g in self.gains if g is not None]
        if not self.plan or not known:
            return None
        mean = exp(sum(log(g.median) for g in known) / len(known))
        return Gain(mean, min(g.low for g in known), max(g.high for g in known))


def tune_calls(
    problems: Sequence[Problem],
    arrays: Sequence[Arrays],
    options: Options,
    budget: Budget,
    seed: int,
    records: Records,
    tell: Tell,
    shop: Workshop,
) -> Sized:
    """One plan for calls with ``arrays``, of which ``problems`` differ in sizes alone."""
    share = budget.part(SHARE / len(problems))
    tuners = list(_tuners(shop, problems, arrays, options, seed, records, tell))
    outcomes = []
    for tuner in tuners:
        tuner.begin()
        outcomes.append(tuned(tuner, share, seed))
        if outcomes[-1].interrupted:
            break
    plans = {plan_text(o.plan): o.plan for o in outcomes if o.gain}
    begun = tuners[: len(outcomes)]
    best = _together(begun, [{}, *plans.values()])
    gains = [_confirmed(tuner, best) for tuner in begun]
    better = any(g is not None and g.sure for g in gains)
    worse = any(g is None or g.high < 1.0 for g in gains)
    plan = dict(best) if best and better and not worse else {}
    return Sized(plan, tuple(gains), tuple(outcomes))


def _tuners(
    shop: Workshop,
    problems: Sequence[Problem],
    arrays: Sequence[Arrays],
    options: Options,
    seed: int,
    records: Records,
    tell: Tell,
) -> Iterator[Tuner]:
    for problem, given in zip(problems, arrays, strict=True):
        sizes = ", ".join(f"{name} = {n}" for name, n in problem.sizes)
        lab = shop.laboratory(problem, options, given, seed)
        yield Tuner(lab, records, partial(tell, f"{problem.name}, {sizes}"), scripts=False)


def _confirmed(tuner: Tuner, plan: Overrides) -> Gain | None:
    return tuner.gains([plan])[0] if plan else Gain(1.0, 1.0, 1.0)


def _together(tuners: Sequence[Tuner], plans: Sequence[Overrides]) -> Overrides:
    """The best of ``plans`` in versions by size, at the calls of ``tuners``."""
    table = np.array([_gains(tuner, plans) for tuner in tuners])  # by call and plan
    sizes = [dict(tuner.lab.problem.sizes) for tuner in tuners]
    names = [n for n in sizes[0] if len({s[n] for s in sizes}) > 1]
    alone = int(np.argmax(np.log(table).sum(axis=0)))
    found, best = plans[alone], float(np.log(table[:, alone]).sum())
    for name in names:
        values = np.array([s[name] for s in sizes])
        order = np.argsort(values, kind="stable")
        ranges = ranges_of(values[order].tolist(), np.log(table[order]))
        total = sum(r.value for r in ranges)
        if len(ranges) > 1 and total > best + log(WORTH) * len(tuners):
            combined = _combined(tuners[0].lab, name, ranges, plans)
            if combined is not None:
                found, best = combined, total
    return found


def _gains(tuner: Tuner, plans: Sequence[Overrides]) -> list[float]:
    """Of each plan at one call; next to nothing where it fails."""
    return [gain or 1e-3 for gain in tuner.time(plans, 2)]


@dataclass(frozen=True, slots=True)
class Range:
    """Sizes from ``start`` on that ``plan``, by number, is best for; ``value``: the logarithms of
    its gains there, added."""

    start: int
    plan: int
    value: float


def ranges_of(sizes: Sequence[int], gains: np.ndarray) -> list[Range]:
    """The cut of ``sizes``, which ascend, into at most ``VERSIONS`` ranges with the greatest sum of
    ``gains`` (logarithms, by size and plan), one more for at least ``WORTH`` a call."""
    count = len(sizes)
    cuts = [k for k in range(1, count) if sizes[k] > sizes[k - 1]]
    penalty = log(WORTH) * count
    best: dict[int, list[tuple[float, list[Range]]]] = {0: [(0.0, [])]}
    for end in [*cuts, count]:
        found: list[tuple[float, list[Range]]] = []
        for begin in [0, *cuts]:
            if begin >= end or begin not in best:
                continue
            sums = gains[begin:end].sum(axis=0)
            plan = int(np.argmax(sums))
            one = Range(sizes[begin], plan, float(sums[plan]))
            found += [
                (total + one.value - penalty, [*before, one])
                for total, before in best[begin]
                if len(before) < VERSIONS
            ]
        by_count: dict[int, tuple[float, list[Range]]] = {}
        for total, made in found:
            if len(made) not in by_count or total > by_count[len(made)][0]:
                by_count[len(made)] = (total, made)
        best[end] = list(by_count.values())
    return max(best[count], key=lambda each: each[0])[1]


def _combined(
    lab: Laboratory, name: str, ranges: Sequence[Range], plans: Sequence[Overrides]
) -> Overrides | None:
    """The plan of a program that has a version for each range of parameter ``name``; None where the
    decisions of versions are not those of the program without."""
    conditions = "; ".join(f"{name} >= {r.start}" for r in ranges[1:])
    versions: dict[str, Value] = {f"{lab.problem.name}.versions": conditions}
    plain, cut = lab.draft([{}, versions])
    if plain.refused or cut.refused:
        return None
    own = Plan.read(plain.plan).decisions
    groups = groups_of(own, Plan.read(cut.plan).decisions[1:])
    if groups is None or len(groups) != len(ranges):
        return None
    found = dict(versions)
    # The conditions ascend: the last range keeps the statements' names, the first fails the first.
    for names, chosen in zip([*groups[1:], groups[0]], ranges, strict=True):
        for decision, value in plans[chosen.plan].items():
            if decision not in names:
                return None
            found[names[decision]] = value
    return found


def groups_of(own: Sequence[Decision], cut: Sequence[Decision]) -> list[dict[str, str]] | None:
    """For each version, what each decision of the program without versions is called in it; that of
    the statements' own names comes first. None where they do not correspond."""
    count, rest = divmod(len(cut), max(1, len(own)))
    if rest or not own:
        return None
    found = []
    for k in range(count):
        names = [d.name for d in cut[k * len(own) : (k + 1) * len(own)]]
        suffix = "" if k == 0 else "_edge" if k == 1 else f"_edge_{k}"
        matched = {d.name: _match(d.name, suffix, names) for d in own}
        if None in matched.values():
            return None
        found.append({n: m for n, m in matched.items() if m is not None})
    return found


def _match(name: str, suffix: str, names: Sequence[str]) -> str | None:
    """Which of ``names`` is ``name`` in the version whose statements end in ``suffix``."""
    subject, _, kind = name.rpartition(".")
    patterns = []
    for statement in subject.split(" & "):
        base, edge, more = statement.partition("_edge")
        own, operand, tail = base.partition("_operand")
        rest = re.sub("_edge", r"_edge(?:_\\d+)?", re.escape(edge + more))
        patterns.append(re.escape(own + suffix) + re.escape(operand + tail) + rest)
    pattern = re.compile(" & ".join(patterns) + re.escape("." + kind))
    return next((n for n in names if pattern.fullmatch(n)), None)


def several(args: Any) -> bool:
    """Whether ``args`` are those of several calls: a sequence of tuples or mappings."""
    if not isinstance(args, Sequence) or isinstance(args, str):
        return False
    return len(args) > 0 and all(isinstance(a, tuple | Mapping) for a in args)
