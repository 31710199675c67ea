"""Run a region of tensor nodes by compiled code, whatever its shapes depend on.

Import for the shapes at hand; where it asks for the data of a value (``NeedsValue``), compile and
run what that value needs, bind it and import again. Where that is expensive, cut the region in two
instead, so that no work is done twice. Executables are memoised by the inputs' shapes and the bound
data: a second call with the same shapes compiles nothing.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from weft.frontend.graph_builder import is_small
from weft.frontend.onnx.host_partition import cut_region
from weft.frontend.onnx.importer import import_region
from weft.frontend.onnx.node_context import NeedsValue
from weft.frontend.onnx.onnx_graph import Region
from weft.ir.dtypes import as_dtype
from weft.ir.errors import BudgetError
from weft.ir.operator_graph import Graph, Value

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
    parts: tuple[Staged, ...] = ()  # what the region was cut into
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, inputs: Arrays, constants: Arrays) -> list[np.ndarray]:
        """The region's outputs; ``constants`` are inputs whose data never changes."""
        known: dict[str, np.ndarray] = {}
        values = {n: Value(n, a.shape, as_dtype(a.dtype)) for n, a in inputs.items()}
        for _ in range(MAX_STAGES):
            step = None if self.parts else self.step(values, constants, known)
            if step is None:
                return self._run_parts(inputs, constants)
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

    def _run_parts(self, inputs: Arrays, constants: Arrays) -> list[np.ndarray]:
        fixed = {**self.region.constants, **constants}
        values = dict(inputs)
        made: set[str] = set()
        for part in self.parts:
            reads = part.region.captures
            given = {n: values[n] for n in reads if n in values}
            rest = {n: fixed[n] for n in reads if n not in values}
            results = part.run(given, rest)
            values.update(zip(part.region.outputs, results, strict=True))
            made.update(part.region.outputs)
        found = [values[n] if n in values else fixed[n] for n in self.region.outputs]
        return [
            array if name in made else np.array(array)
            for name, array in zip(self.region.outputs, found, strict=True)
        ]

    def step(self, inputs: Values, constants: Arrays, known: Arrays) -> _Step | None:
        """What to run next for inputs of these shapes; imported and compiled where it is new.

        None where the region has been cut: run its parts.
        """
        key = _key(inputs, known)
        with self.lock:
            step = self.steps.get(key)
            if step is None:
                step = self._import(inputs, constants, known)
                if step is None:
                    return None
                self.steps[key] = step
                if len(self.steps) > MAX_EXECUTABLES:
                    self.steps.popitem(last=False)
            self.steps.move_to_end(key)
        return step

    def _import(self, inputs: Values, constants: Arrays, known: Arrays) -> _Step | None:
        needed = None
        try:
            graph = import_region(self.region, {**inputs, **constants}, known=known)
        except NeedsValue as stop:
            graph, needed = stop.graph, stop.name
            if stop.index > 0 and not all(is_small(node.program) for node in graph.nodes):
                parts = cut_region(self.region, stop.index)
                self.parts = tuple(Staged(p, self.compile_graph, self.stats) for p in parts)
                self.stats["cuts"] += 1
                return None
            self.stats["staged"] += 1
        if needed in inputs:
            return _Step(graph, None, needed)
        self.stats["compiled"] += 1
        return _Step(graph, self.compile_graph(graph), needed)


def _key(inputs: Values, known: Arrays) -> Key:
    shapes = tuple((n, v.shape, v.dtype.name) for n, v in inputs.items())
    data = tuple((n, a.shape, hashlib.sha256(a.tobytes()).digest()) for n, a in known.items())
    return (*shapes, *data)
