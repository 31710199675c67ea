"""What subgraphs cost whom, and whole plans: in processes that may die."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from weft.driver.providers import WEFT, Layout, Provider, Runner
from weft.ir.errors import CompileError, ProviderError
from weft.ir.operator_graph import Graph
from weft.tuner.pipeline import Pipeline, Step
from weft.tuner.runners import Arrays, check_runner, difference, laid, results_of, runner_of, spot
from weft.tuner.subgraphs import Units
from weft.tuner.turns import interleaved_loops, until_idle
from weft.tuner.watched import Say, watched

Run = frozenset[int]  # numbers of units
Spot = tuple[Run, str]  # who runs them
Plan = Sequence[Spot]  # in order
K = TypeVar("K", bound=Hashable)
ROUNDS = (3, 40)  # at least, at most
DEATHS = 2  # by crashes or hanging, until a provider is not asked any more


@dataclass(frozen=True, slots=True)
class Setting:
    """``units`` and the ``providers`` beside Weft, whose programs ``weft`` compiles; ``values`` of
    a call, by name, all that units pass on included. ``deaths`` of processes, by provider."""

    units: Units
    providers: Mapping[str, Provider]
    weft: Callable[[Run], Callable[..., Any]]
    values: Arrays
    threads: int
    tolerance: float | None
    patience: float
    deaths: Counter[str] = field(default_factory=Counter)

    def trusts(self, name: str) -> bool:
        """Whether processes have not died too often of this provider to ask it again."""
        return self.deaths[name] < DEATHS


@dataclass(slots=True)
class Measured(Generic[K]):
    """Of each job: ``times``, seconds in each round; ``layouts`` of its inputs and outputs that are
    not row-major, by number. ``refused``: why there are none; ``left``: what nobody takes."""

    times: dict[K, list[float]] = field(default_factory=dict)
    layouts: dict[K, tuple[dict[int, Layout], dict[int, Layout]]] = field(default_factory=dict)
    refused: dict[K, ProviderError] = field(default_factory=dict)
    left: set[K] = field(default_factory=set)


def priced(setting: Setting, turns: Sequence[Sequence[Spot]], seconds: float) -> Measured[Spot]:
    """What each spot takes alone, its arguments as its provider wants them.

    All spots of a turn run one after the other, so that each finds the caches as others leave them,
    but for its arguments, which somebody has just made; and so that threads of one provider are
    asleep when another's turn begins. For about so many ``seconds``.
    """
    spots = {each: [each] for turn in turns for each in turn}
    return _survived(setting, spots, partial(_price, setting, turns, seconds))


def compared(setting: Setting, plans: Mapping[str, Plan], seconds: float) -> Measured[str]:
    """``plans`` for all of the model in turns, as they are called, for about ``seconds``."""
    return _survived(setting, plans, partial(_compare, setting, plans, seconds))


def step_seconds(setting: Setting) -> float:
    """What a step of a pipeline takes besides its provider."""
    graph = setting.units.subgraph([0])
    results = [setting.values[v.name] for v in graph.outputs]
    pipeline = Pipeline(graph, [Step("nobody", graph, Runner(lambda *arrays: results))])
    given = [setting.values[v.name] for v in graph.inputs]
    times = interleaved_loops({"step": partial(_loop, pipeline, given, lambda: None)}, seconds=0.05)
    return min(times["step"]) / 1e3


# ---- around the process --------------------------------------------------------------------------


def _survived(
    setting: Setting,
    plans: Mapping[K, Plan],
    action: Callable[[Mapping[K, int], Say], object],
) -> Measured[K]:
    """What ``action`` says of ``plans``, by their numbers: again without the one it died of."""
    found, jobs = Measured[K](), list(plans)
    for job in jobs:
        try:
            for run, name in plans[job]:
                if name == WEFT:
                    setting.weft(run)  # compiled here, once
        except CompileError as error:
            found.refused[job] = ProviderError(error.code, error.what, where=error.where)
    while True:
        open_jobs = (j for j in jobs if j not in found.refused and j not in found.left)
        left = {
            j: jobs.index(j) for j in open_jobs if all(setting.trusts(name) for _, name in plans[j])
        }
        heard = _Heard(jobs, found)
        try:
            if left:
                watched(partial(action, left), heard.hear, setting.patience)
            return found
        except ProviderError as error:
            if heard.job not in left:  # nobody was asked yet: it is not theirs
                raise
            error.where = heard.where
            setting.deaths[heard.provider] += 1
            found.refused[heard.job] = error


class _Heard(Generic[K]):
    """Adds to ``found`` what a process says of ``jobs``; ``job``, ``provider`` and ``where`` it is
    at."""

    def __init__(self, jobs: Sequence[K], found: Measured[K]) -> None:
        self.jobs, self.found = jobs, found
        self.job: K | None = None
        self.provider, self.where = "", ""

    def hear(self, message: Any) -> None:
        kind, number, *rest = message
        job = self.jobs[number]
        match kind:
            case "at":
                self.job, (self.provider, self.where) = job, rest
            case "refused":
                code, what, where, why, hint = rest
                self.found.refused[job] = ProviderError(code, what, where=where, why=why, hint=hint)
            case "left":
                self.found.left.add(job)
            case "layouts":
                reads, makes = ({k: tuple(order) for k, order in side} for side in rest)
                self.found.layouts[job] = reads, makes
            case "times":
                (self.found.times[job],) = rest


# ---- in the process ------------------------------------------------------------------------------


def _price(
    setting: Setting,
    turns: Sequence[Sequence[Spot]],
    seconds: float,
    left: Mapping[Spot, int],
    say: Say,
) -> None:
    ready: dict[Spot, _Ready] = {}
    for key, number in left.items():
        pipeline = _tried(setting, [key], number, say)
        if pipeline is not None:
            step = pipeline.steps[0]
            say(["layouts", number, *_layouts(step)])
            ready[key] = _Ready(step, setting.values, partial(_tell, say, number, step))
    rows = [[ready[each] for each in turn if each in ready] for turn in turns]
    end = time.perf_counter() + seconds
    for number in range(ROUNDS[1]):
        for row in rows[:: -1 if number % 2 else 1]:
            until_idle()
            for timed in (False, True):  # the first time wakes threads
                for each in row:
                    each.run(timed)
        if time.perf_counter() > end and number + 1 >= ROUNDS[0]:
            break
    for key, made in ready.items():
        say(["times", left[key], made.seconds])


class _Ready:
    """A spot with arguments in places of their own."""

    def __init__(self, step: Step, values: Arrays, tell: Callable[[], None]) -> None:
        self.step, self.tell = step, tell
        self.sources = [values[v.name] for v in step.graph.inputs]
        layouts = (step.runner.inputs.get(v.name) for v in step.graph.inputs)
        pairs = zip(self.sources, layouts, strict=True)
        self.given = [np.array(laid(source, layout), order="K") for source, layout in pairs]
        self.seconds: list[float] = []

    def run(self, timed: bool) -> None:
        for place, source in zip(self.given, self.sources, strict=True):
            np.copyto(place, source)
        self.tell()
        step = self.step
        begun = time.perf_counter()
        results_of(step.provider, step.runner, step.graph, self.given)
        taken = time.perf_counter() - begun
        if timed:
            self.seconds.append(taken)


def _compare(
    setting: Setting,
    plans: Mapping[str, Plan],
    seconds: float,
    left: Mapping[str, int],
    say: Say,
) -> None:
    graph = setting.units.graph
    given = [np.array(setting.values[v.name]) for v in graph.inputs]
    loops: dict[str, Callable[[int], object]] = {}
    for label, number in left.items():
        pipeline = _tried(setting, plans[label], number, say)
        if pipeline is not None:
            loops[label] = partial(_loop, pipeline, given, partial(_tell, say, number, pipeline))
    if loops:
        times = interleaved_loops(loops, seconds=seconds, rounds=ROUNDS[1], park=True)
        for label, each in times.items():
            say(["times", left[label], [ms / 1e3 for ms in each]])


def _loop(
    pipeline: Pipeline, given: list[np.ndarray], tell: Callable[[], None], times: int
) -> None:
    tell()
    for _ in range(times):
        pipeline(given)


def _tell(say: Say, number: int, at: Step | Pipeline) -> None:
    provider = at.provider if isinstance(at, Step) else "+".join(dict.fromkeys(at.providers))
    say(["at", number, provider, spot(provider, at.graph)])


def _tried(setting: Setting, plan: Plan, number: int, say: Say) -> Pipeline | None:
    """The pipeline of ``plan``, which computes what it should; None where there is none."""
    try:
        graph = setting.units.subgraph(u for run, _ in plan for u in run)
        made = pipeline_of(setting, graph, plan, lambda *at: say(["at", number, *at]))
        if made is None:
            say(["left", number])
        elif len(plan) > 1:
            _tell(say, number, made)
            _check(made, setting)
        return made
    except ProviderError as error:
        say(["refused", number, error.code, error.what, error.where, error.why, error.hint])
        return None


def pipeline_of(
    setting: Setting, graph: Graph, plan: Plan, tell: Callable[[str, str], None] | None = None
) -> Pipeline | None:
    """``plan`` for ``graph``, its steps built; None where a provider does not take its part. Each
    is tried if ``tell`` is there, which is told of it before. Raises ``ProviderError``."""
    steps = []
    for run, name in plan:
        part = setting.units.asked(run, setting.threads)
        if tell is not None:
            tell(name, spot(name, part.graph))
        if name == WEFT:
            steps.append(Step(name, part.graph, Runner(setting.weft(run))))
            continue
        runner = runner_of(name, setting.providers[name], part)
        if runner is None:
            return None
        if tell is not None:
            values = setting.values
            check_runner(name, runner, part.graph, values, values, setting.tolerance)
        steps.append(Step(name, part.graph, runner))
    return Pipeline(graph, steps)


def _check(pipeline: Pipeline, setting: Setting) -> None:
    """Whether all parts together compute what the whole does."""
    graph = pipeline.graph
    made = pipeline([setting.values[v.name] for v in graph.inputs])
    for value, found in zip(graph.outputs, made, strict=True):
        if what := difference(value, found, setting.values[value.name], setting.tolerance):
            where = spot("+".join(dict.fromkeys(pipeline.providers)), graph)
            raise ProviderError("WEFT-E1515", what, where=where)


def _layouts(step: Step) -> list[list[tuple[int, Layout]]]:
    """Those of inputs and of outputs that are not row-major, by number."""
    return [
        [
            (k, layouts[v.name])
            for k, v in enumerate(values)
            if list(layouts.get(v.name, ())) not in ([], list(range(len(v.shape))))
        ]
        for values, layouts in (
            (step.graph.inputs, step.runner.inputs),
            (step.graph.outputs, step.runner.outputs),
        )
    ]
