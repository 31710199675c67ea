"""What subgraphs cost whom: plans for one subgraph side by side, in processes that may die."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from weft.driver.providers import WEFT, Layout, Provider, Runner
from weft.ir.errors import CompileError, ProviderError
from weft.ir.operator_graph import Graph
from weft.tuner.pipeline import Pipeline, Step
from weft.tuner.runners import Arrays, check_runner, difference, runner_of, spot
from weft.tuner.subgraphs import Units
from weft.tuner.turns import interleaved_loops
from weft.tuner.watched import Say, watched

Run = frozenset[int]  # numbers of units
Plan = Sequence[tuple[Run, str]]  # who runs what, in order


@dataclass(frozen=True, slots=True)
class Setting:
    """``units`` and the ``providers`` beside Weft, whose programs ``weft`` compiles; ``values`` of
    a call, by name, all that units pass on included."""

    units: Units
    providers: Mapping[str, Provider]
    weft: Callable[[Run], Callable[..., Any]]
    values: Arrays
    threads: int
    tolerance: float | None
    patience: float


@dataclass(slots=True)
class Measured:
    """``times``: seconds of a call in each round, by plan. ``layouts`` of plans of one provider: of
    inputs and of outputs, by number. ``refused``: why a plan is none; ``left``: what a provider
    does not take."""

    times: dict[str, list[float]] = field(default_factory=dict)
    layouts: dict[str, tuple[dict[int, Layout], dict[int, Layout]]] = field(default_factory=dict)
    refused: dict[str, ProviderError] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)
    _at: tuple[str, str] = ("", "")

    def hear(self, message: Any) -> None:
        match message:
            case ["at", label, where]:
                self._at = label, where
            case ["refused", label, code, what, where, why, hint]:
                error = ProviderError(code, what, where=where, why=why, hint=hint)
                self.refused[label] = error
            case ["left", label]:
                self.left.add(label)
            case ["layouts", label, *sides]:
                reads, makes = ({k: tuple(order) for k, order in side} for side in sides)
                self.layouts[label] = reads, makes
            case ["times", times]:
                self.times = times

    def blame(self, error: ProviderError) -> None:
        """The process ended while it was at one of the plans: that one is refused."""
        label, error.where = self._at
        self.refused[label] = error


def measured(setting: Setting, whole: Run, plans: Mapping[str, Plan], seconds: float) -> Measured:
    """``plans`` for the units ``whole`` in turns, for about so many ``seconds``. Whoever fails is
    refused, and the others are measured all the same."""
    found = Measured()
    for label, plan in plans.items():
        try:
            for units, name in plan:
                if name == WEFT:
                    setting.weft(units)  # compiled here, once
        except CompileError as error:
            found.refused[label] = ProviderError(error.code, error.what, where=error.where)
    while left := {k: p for k, p in plans.items() if k not in (found.refused.keys() | found.left)}:
        action = partial(_measure, setting, whole, left, seconds)
        try:
            watched(action, found.hear, setting.patience)
            return found
        except ProviderError as error:
            found.blame(error)
    return found


def _measure(
    setting: Setting, whole: Run, plans: Mapping[str, Plan], seconds: float, say: Say
) -> None:
    """What the process does: tries each plan, then all that are fine in turns."""
    graph = setting.units.subgraph(whole)
    given = [np.array(setting.values[v.name]) for v in graph.inputs]
    loops: dict[str, Callable[[int], object]] = {}
    for label, plan in plans.items():
        tell = partial(_tell, say, label)
        try:
            pipeline = pipeline_of(setting, graph, plan, tell)
            if pipeline is None:
                say(["left", label])
                continue
            tell(spot(label, graph))
            _check(pipeline, given, setting, spot(label, graph))
        except ProviderError as error:
            words = error.code, error.what, error.where, error.why, error.hint
            say(["refused", label, *words])
            continue
        if len(plan) == 1:
            say(["layouts", label, *_layouts(pipeline.steps[0])])
        loops[label] = partial(_loop, partial(tell, spot(label, graph)), pipeline, given)
    if loops:
        times = interleaved_loops(loops, seconds=seconds, park=True)
        say(["times", {label: [ms / 1e3 for ms in each] for label, each in times.items()}])


def _tell(say: Say, label: str, where: str) -> None:
    say(["at", label, where])


def _loop(
    tell: Callable[[], None], pipeline: Pipeline, given: list[np.ndarray], times: int
) -> None:
    tell()
    for _ in range(times):
        pipeline(given)


def pipeline_of(
    setting: Setting,
    graph: Graph,
    plan: Plan,
    tell: Callable[[str], None] = lambda where: None,
    *,
    checked: bool = True,
) -> Pipeline | None:
    """``plan`` for ``graph``, its steps built, and tried if ``checked``; None where a provider does
    not take its part. ``tell`` is told of each part before. Raises ``ProviderError``."""
    steps = []
    for units, name in plan:
        part = setting.units.asked(units, setting.threads)
        tell(spot(name, part.graph))
        if name == WEFT:
            steps.append(Step(name, part.graph, Runner(setting.weft(units))))
            continue
        runner = runner_of(name, setting.providers[name], part)
        if runner is None:
            return None
        if checked:
            values = setting.values
            check_runner(name, runner, part.graph, values, values, setting.tolerance)
        steps.append(Step(name, part.graph, runner))
    return Pipeline(graph, steps)


def _check(pipeline: Pipeline, given: list[np.ndarray], setting: Setting, where: str) -> None:
    """Whether all parts together compute what the whole does."""
    if len(pipeline.steps) > 1:
        for value, made in zip(pipeline.graph.outputs, pipeline(given), strict=True):
            expected = setting.values[value.name]
            if what := difference(value, made, expected, setting.tolerance):
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
