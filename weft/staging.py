"""Run a region of tensor nodes by compiled code, whatever its shapes depend on.

Import for the shapes at hand; where it asks for the data of a value (``NeedsValue``), compile and
run what that value needs, bind it and import again. Executables are memoised by the inputs' shapes
and the bound data, so that a second call with the same shapes compiles nothing.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from weft.dtypes import as_dtype
from weft.errors import BudgetError
from weft.frontend.onnx.importer import import_region
from weft.frontend.onnx.node_context import NeedsValue
from weft.frontend.onnx.onnx_graph import Region
from weft.graph.operator_graph import Graph, Value

MAX_EXECUTABLES = 64  # kept per region, least recently used ones go first
MAX_STAGES = 256  # values that one region may need ahead of its import

Arrays = Mapping[str, np.ndarray]
Values = Mapping[str, Value]
Key = tuple[tuple[object, ...], ...]


class Executable(Protocol):
    """What compiling a graph gives: outputs by name for inputs by name."""

    def run(self, inputs: Arrays) -> Arrays: ...


CompileGraph = Callable[[Graph], Executable]


@dataclass(frozen=True, slots=True)
class _Step:
    graph: Graph
    executable: Executable | None  # None: what is needed is an input
    needed: str | None  # the value that import needs; None: the last step


@dataclass(slots=True)
class Staged:
    """``region`` with the executables that its calls have needed so far."""

    region: Region
    compile_graph: CompileGraph
    stats: Counter[str]
    steps: OrderedDict[Key, _Step] = field(default_factory=OrderedDict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, inputs: Arrays, constants: Arrays) -> list[np.ndarray]:
        """The region's outputs; ``constants`` are inputs whose data never changes."""
        known: dict[str, np.ndarray] = {}
        values = {n: Value(n, a.shape, as_dtype(a.dtype)) for n, a in inputs.items()}
        for _ in range(MAX_STAGES):
            step = self.step(values, constants, known)
            if step.executable is None:
                known[str(step.needed)] = inputs[str(step.needed)]
                continue
            given = {v.name: inputs[v.name] for v in step.graph.inputs}
            results = step.executable.run(given)
            if step.needed is None:
                return [results[v.name] for v in step.graph.outputs]
            known[step.needed] = results[step.needed]
        raise BudgetError(
            "WEFT-E0230",
            f"{self.region.name!r} needs more than {MAX_STAGES} values ahead of its shapes",
        )

    def step(self, inputs: Values, constants: Arrays, known: Arrays) -> _Step:
        """What to run next for inputs of these shapes; imported and compiled where it is new."""
        key = _key(inputs, known)
        with self.lock:
            step = self.steps.get(key)
            if step is None:
                step = self.steps[key] = self._import(inputs, constants, known)
                if len(self.steps) > MAX_EXECUTABLES:
                    self.steps.popitem(last=False)
            self.steps.move_to_end(key)
        return step

    def _import(self, inputs: Values, constants: Arrays, known: Arrays) -> _Step:
        needed = None
        try:
            graph = import_region(self.region, {**inputs, **constants}, known=known)
        except NeedsValue as stop:
            graph, needed = stop.graph, stop.name
            self.stats["staged"] += 1
        if needed in inputs:
            return _Step(graph, None, needed)
        self.stats["compiled"] += 1
        return _Step(graph, self.compile_graph(graph), needed)


def _key(inputs: Values, known: Arrays) -> Key:
    shapes = tuple((n, v.shape, v.dtype.name) for n, v in inputs.items())
    data = tuple((n, a.shape, hashlib.sha256(a.tobytes()).digest()) for n, a in known.items())
    return (*shapes, *data)
