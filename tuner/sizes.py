"""Open sizes: one program for several calls, in versions by size where these want other plans.

Each call is tuned by itself, by decisions alone (a script is of no version). Every plan that won is
timed at every call; along one parameter the calls are cut into ranges, each with the plan that is
best there, by dynamic programming. What comes of it is confirmed at every call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any

import numpy as np

from weft.ir.plan import Decision, Plan, Value
from weft.runtime.records import Overrides, plan_text
from weft.tuner.confirm import Gain
from weft.tuner.problem import Arrays, Problem
from weft.tuner.session import Budget, Outcome, Setup, Tuner, tuned
from weft.tuner.trial import scheduled_scop

VERSIONS = 4  # at most
NOT_WORSE = 0.98  # the least lower end of a gain at a call where another call gains
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
    problems: Sequence[Problem], arrays: Sequence[Arrays], budget: Budget, setup: Setup
) -> Sized:
    """One plan for calls with ``arrays``, of which ``problems`` differ in sizes alone. Raises
    ``CompileError`` (WEFT-E1103) where the untuned program does not run."""
    share = budget.part(SHARE / len(problems))
    tuners = list(_tuners(problems, arrays, setup))
    outcomes = []
    for tuner in tuners:
        outcomes.append(tuned(tuner.begun(), share, setup.seed))
        if outcomes[-1].interrupted:
            break
    plans = {plan_text(o.plan): o.plan for o in outcomes if o.gain}
    begun = tuners[: len(outcomes)]
    best = _together(begun, [{}, *plans.values()])
    gains = [_confirmed(tuner, best) for tuner in begun]
    plan = dict(best) if replaces(gains) else {}
    return Sized(plan, tuple(gains), tuple(outcomes))


def replaces(gains: Sequence[Gain | None]) -> bool:
    """Whether a plan of these gains by call is taken: one is sure, and none may be a loss."""
    known = [g for g in gains if g is not None]
    able = len(known) == len(gains) and all(g.low >= NOT_WORSE for g in known)
    return able and any(g.sure for g in known)


def _tuners(problems: Sequence[Problem], arrays: Sequence[Arrays], setup: Setup) -> Iterator[Tuner]:
    for problem, given in zip(problems, arrays, strict=True):
        sizes = ", ".join(f"{name} = {n}" for name, n in problem.sizes)
        yield setup.tuner(problem, given, f"{problem.name}, {sizes}", scripts=False)


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
            combined = _combined(tuners[0], name, ranges, plans)
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
    tuner: Tuner, name: str, ranges: Sequence[Range], plans: Sequence[Overrides]
) -> Overrides | None:
    """The plan of a program that has a version for each range of parameter ``name``; None where a
    version has no such decision as the plan for its range takes."""
    conditions = "; ".join(f"{name} >= {r.start}" for r in ranges[1:])
    found: dict[str, Value] = {f"{tuner.lab.problem.name}.versions": conditions}
    (cut,) = tuner.lab.draft([found])
    if cut.refused:
        return None
    statements = [s.name for s in scheduled_scop(tuner.lab.problem, tuner.lab.options).statements]
    decisions = Plan.read(cut.plan).decisions
    first, *rest = names_by_version(statements, decisions, len(ranges))
    # The conditions ascend: the last range keeps the statements' names, the first fails the first.
    for names, chosen in zip([*rest, first], ranges, strict=True):
        for decision, value in plans[chosen.plan].items():
            if _plain(decision) not in names:
                return None
            found[names[_plain(decision)]] = value
    return found


# What the scheduler's statements end in.
_MADE = re.compile(r"(_edge|_few_rows|_few_steps|_operand|_small)(?:_\d+)?")


def names_by_version(
    statements: Sequence[str], decisions: Sequence[Decision], count: int
) -> list[dict[str, str]]:
    """For each of ``count`` versions of a program of ``statements``, what the decisions are called
    that the program without versions calls so, numbers of what the scheduler makes left out. The
    version of the statements' own names comes first."""
    found: list[dict[str, str]] = [{} for _ in range(count)]
    for decision in decisions:
        subject, _, kind = decision.name.rpartition(".")
        parts = [_version(s, statements, count) for s in subject.split(" & ")]
        versions = {part[0] for part in parts if part is not None}
        if len(versions) == 1 and None not in parts:
            own = " & ".join(part[1] for part in parts if part is not None)
            found[versions.pop()].setdefault(f"{own}.{kind}", decision.name)
    return found


def _version(statement: str, statements: Sequence[str], count: int) -> tuple[int, str] | None:
    """The number of the version that ``statement`` is in, and what it is called without versions:
    ``cut`` calls the versions of S: S, S_edge, S_edge_2, …"""
    found = []
    for own in statements:
        for k in range(count):
            base = own + ("" if k == 0 else "_edge" if k == 1 else f"_edge_{k}")
            rest = statement.removeprefix(base)
            if statement.startswith(base) and not _MADE.sub("", rest):
                found.append((len(base), k, own + _MADE.sub(r"\1", rest)))
    return max(found)[1:] if found else None


def _plain(decision: str) -> str:
    """``decision`` without the numbers of what the scheduler makes."""
    return _MADE.sub(r"\1", decision)


def several(args: Any) -> bool:
    """Whether ``args`` are those of several calls: a sequence of tuples or mappings."""
    if not isinstance(args, Sequence) or isinstance(args, str):
        return False
    return len(args) > 0 and all(isinstance(a, tuple | Mapping) for a in args)
