"""Graphs: each distinct cluster a problem of its own, decisions about the graph on the whole.

First what concerns the graph (fusion, layouts, cheaper correlations), timed on the whole program;
then clusters, those first where most may be gained; in the end the whole is timed with all that was
found, in processes of its own, and stays untuned unless that is faster for sure.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import numpy as np

from weft.driver.advice import machine_key
from weft.driver.graph_front import counted_clusters
from weft.driver.options import Options
from weft.ir.errors import CompileError, WeftError
from weft.ir.operator_graph import Graph
from weft.ir.plan import Decision, Plan, Value
from weft.runtime.executable import Executable
from weft.runtime.records import Overrides, digest, plan_text
from weft.tuner.confirm import Gain
from weft.tuner.laboratory import Built, Timer
from weft.tuner.problem import Problem
from weft.tuner.session import (
    LONGEST,
    PROCESSES,
    Budget,
    Outcome,
    Setup,
    Tell,
    gain_of,
    tuned,
)
from weft.verify.verify_full import compile_and_verify

GRAPH = 0.2  # of a budget: for the graph's own decisions
LOOK = 0.1  # seconds in which each untuned cluster is timed
LEAST = 3.0  # seconds of a search that is worth beginning


@dataclass(frozen=True, slots=True)
class Whole:
    """What was found for a whole program: seconds of a call ``before`` and ``after`` its ``plan``,
    the ``gain`` of it (None: the untuned one stays), and the ``outcomes`` of its parts."""

    before: float
    after: float
    gain: Gain | None
    plan: dict[str, Value]
    outcomes: tuple[Outcome, ...]
    interrupted: bool = False


@dataclass(slots=True)
class _Programs:
    """Whole programs of one graph, by plan."""

    graph: Graph
    options: Options
    folder: Path
    timer: Timer
    made: dict[str, Built] = field(default_factory=dict)
    decided: dict[str, Plan] = field(default_factory=dict)

    def build(self, plan: Overrides) -> Built:
        key = plan_text(plan)
        if key in self.made:
            return self.made[key]
        path = self.folder / f"whole{len(self.made)}.weft"
        options = replace(self.options, texts=False)
        try:
            found = compile_and_verify(self.graph, options, None, plan)
            found.save(path, texts=False, certificate=False)
            self.decided[key] = found.plan
            built = Built(plan, str(path), _code(found))
        except WeftError as error:
            built = Built(plan, refused=f"{error.code}: {error.what}")
        self.made[key] = built
        return built

    def decisions(self, plan: Overrides) -> tuple[Decision, ...]:
        """All of those that ``plan`` led to."""
        found = self.decided.get(plan_text(plan))
        return found.decisions if found else ()

    def gains(self, plans: Sequence[Overrides], processes: int = 1) -> list[Gain | None]:
        """Over the untuned program."""
        base = self.build({})
        built = [self.build(plan) for plan in plans]
        able = {b.digest: b for b in built if b.path and b.digest != base.digest}
        chosen = list(able.values())
        if not chosen:
            return [None] * len(plans)
        seconds = min(2 * LONGEST, 30 * self.seconds() * (len(chosen) + 1))
        runs = self.timer.confirm(base, chosen, seconds, processes)
        found = {b.digest: gain_of(pairs) for b, pairs in zip(chosen, runs, strict=True)}
        return [found.get(b.digest) for b in built]

    def seconds(self) -> float:
        """Of a call of the untuned program. Raises ``CompileError`` (WEFT-E1103) where it does not
        run."""
        base = self.build({})
        why = base.refused
        if base.path:
            ((pair,),) = self.timer.confirm(base, [base], 0.6, 1)
            if not isinstance(pair, str):
                return float(np.median(pair[0]))
            why = pair
        raise CompileError("WEFT-E1103", f"{self.graph.name} does not run untuned", why=why)


def _code(made: Executable) -> str:
    return digest(b"".join(made.compiled.objects))


def tune_graph(
    graph: Graph,
    arrays: Mapping[str, np.ndarray],
    sizes: Mapping[str, int],
    budget: Budget,
    setup: Setup,
) -> Whole:
    """``graph`` called with ``arrays``, whose open sizes are ``sizes``. Raises
    ``CompileError`` (WEFT-E1101, E1103, E1107)."""
    shop, options, seed = setup.shop, setup.options, setup.seed
    if shop.place.machine(options) != machine_key(options):
        raise CompileError(
            "WEFT-E1107",
            "the workers of the cluster are of another machine than this one",
            why="models are compiled here",
            hint="the same command on one of them",
        )
    started = time.perf_counter()
    programs = _Programs(graph, options, shop.folder, shop.timer(b"", options, arrays, seed))
    before = programs.seconds()
    whole: dict[str, Value] = {}
    outcomes: list[Outcome] = []
    interrupted = False
    try:
        clusters = counted_clusters(graph, options)
        if len(clusters) > 1:
            whole = _of_the_graph(programs, budget.part(GRAPH), seed, setup.tell)
        problems = _problems(graph, options, whole, sizes)
        outcomes = _clusters(problems, _left(budget, started), setup)
        interrupted = any(o.interrupted for o in outcomes)
    except KeyboardInterrupt:
        interrupted = True
    plans = _plans(programs, whole, outcomes)
    gains = programs.gains(plans, PROCESSES)
    sure = [(g, p) for g, p in zip(gains, plans, strict=True) if g is not None and g.sure]
    best = max(sure, key=lambda pair: pair[0].low, default=None)
    found = best[0] if best else None
    after = before / found.median if found else before
    plan = dict(best[1]) if best else {}
    return Whole(before, after, found, plan, tuple(outcomes), interrupted)


def _left(budget: Budget, started: float) -> Budget:
    if budget.seconds is None:
        return budget
    return replace(budget, seconds=max(0.0, budget.seconds - (time.perf_counter() - started)))


def _of_the_graph(programs: _Programs, budget: Budget, seed: int, tell: Tell) -> dict[str, Value]:
    """The decisions about the graph that gain, one by one, together."""
    started = time.perf_counter()
    options = [
        {d.name: o.value}
        for d in programs.decisions({})
        if not d.unit
        for o in d.options
        if o.value != d.chosen
    ]
    Random(seed).shuffle(options)
    most = len(options) if budget.trials is None else budget.trials
    tried: list[dict[str, Value]] = []
    for plan in options[:most]:
        if budget.seconds is not None and time.perf_counter() - started > budget.seconds:
            break
        tell("graph", 1.0)
        if programs.build(plan).path:
            tried.append(plan)
    gains = programs.gains(tried)
    fine = [(g, p) for g, p in zip(gains, tried, strict=True) if g is not None and g.sure]
    fine.sort(key=lambda pair: -pair[0].low)
    found: dict[str, Value] = {}
    for _, plan in fine:
        both = {**plan, **found}
        if programs.build(both).path:
            found = both
    return found


def _problems(
    graph: Graph, options: Options, plan: Overrides, sizes: Mapping[str, int]
) -> list[tuple[Problem, int]]:
    found = []
    for scop, count in counted_clusters(graph, options, plan).values():
        derived = {name for name, _ in scop.derived}
        own = {name: sizes[name] for name in scop.parameters if name not in derived}
        found.append((Problem(scop, (), tuple(sorted(own.items()))), count))
    return found


def _clusters(
    problems: Sequence[tuple[Problem, int]], budget: Budget, setup: Setup
) -> list[Outcome]:
    """Each is timed untuned; then those come first where most may be gained, each with a share of
    what is left of the budget by that."""
    started = time.perf_counter()
    found: list[Outcome] = []
    tuners = []
    for problem, count in problems:
        tuner = setup.tuner(problem, None)
        tuner.begin(LOOK)
        left = max(tuner.untuned - tuner.bound, 0.05 * tuner.untuned)
        tuners.append((left * count, tuner, count))
    tuners.sort(key=lambda each: -each[0])
    total = sum(weight for weight, _, _ in tuners)
    for weight, tuner, count in tuners:
        given = _left(budget, started).part(weight / total if total else 1.0)
        total -= weight
        enough = given.seconds is None or given.seconds >= LEAST
        stopped = any(o.interrupted for o in found) or not enough
        nothing = Budget(0.0, None)
        found.append(tuned(tuner, nothing if stopped else given, setup.seed, count))
    return found


def _plans(
    programs: _Programs, whole: Overrides, outcomes: Sequence[Outcome]
) -> list[dict[str, Value]]:
    """What to time of the whole: all that was found, and what the graph's own decisions gain."""
    graph = programs.build(whole)
    if not graph.path:
        return []
    owners = {d.own_name: d.unit for d in programs.decisions(whole)}
    every = dict(whole)
    for outcome in outcomes:
        for name, value in outcome.plan.items():
            own = owners.setdefault(name, outcome.name) == outcome.name
            every[name if own else f"{name} in {outcome.name}"] = value
    found = [dict(whole)] if whole else []
    if every != whole:
        found.append(every)
    return found
