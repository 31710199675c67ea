"""Subgraphs one after the other, each run by its provider: a graph's outputs of its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.driver.providers import Layout, Runner
from weft.ir.operator_graph import Graph
from weft.tuner.runners import laid, results_of


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """``provider`` runs ``graph``, a subgraph, by ``runner``."""

    provider: str
    graph: Graph
    runner: Runner


class Pipeline:
    """``steps`` that compute ``graph``; a conversion to another layout is made once."""

    def __init__(self, graph: Graph, steps: Sequence[Step]) -> None:
        self.graph, self.steps = graph, tuple(steps)
        self._given = {v.name for v in graph.inputs} | graph.constants.keys()  # not ours to give
        wanted = {v.name for v in graph.outputs}
        self._moves: list[tuple[Step, list[tuple[str, Layout | None]], list[str], list[str]]] = []
        for step in reversed(self.steps):
            reads = [(v.name, step.runner.inputs.get(v.name)) for v in step.graph.inputs]
            done = [name for name, _ in reads if name not in wanted]
            wanted |= {name for name, _ in reads}
            self._moves.insert(0, (step, reads, [v.name for v in step.graph.outputs], done))

    @property
    def providers(self) -> tuple[str, ...]:
        """Who runs each part, in order."""
        return tuple(step.provider for step in self.steps)

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs of ``graph`` for its inputs, in order. Raises ``ProviderError`` as
        ``results_of``."""
        names = (v.name for v in self.graph.inputs)
        values = {**self.graph.constants, **dict(zip(names, arrays, strict=True))}
        held: dict[tuple[str, Layout], np.ndarray] = {}
        for step, reads, makes, done in self._moves:
            given = []
            for name, layout in reads:
                if layout is None:
                    given.append(laid(values[name], None))
                    continue
                if (name, layout) not in held:
                    held[name, layout] = laid(values[name], layout)
                given.append(held[name, layout])
            made = results_of(step.provider, step.runner, step.graph, given)
            values.update(zip(makes, made, strict=True))
            for name in done:
                del values[name]
            if done and held:
                held = {key: array for key, array in held.items() if key[0] in values}
        return [
            np.array(values[v.name], order="C")
            if v.name in self._given
            else laid(values[v.name], None)
            for v in self.graph.outputs
        ]
