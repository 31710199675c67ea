"""Run a region of tensor nodes by compiled code, whatever its shapes depend on.

Import for the shapes at hand; where it asks for the data of a value (``NeedsValue``), compile and
run what that value needs, bind it and import again. Where that is expensive, cut the region in two
instead, so that no work is done twice. Executables are memoised by the inputs' shapes and the bound
data: a second call with the same shapes compiles nothing.

Where a node's results have sizes that depend on data, the region is cut behind it. The first part
gives them in their greatest possible sizes, and how much of them counts; the second is compiled
once for all such counts, which are open sizes there (``data_sizes.py``).
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
from weft.frontend.onnx.node_context import Counted, NeedsHost, NeedsValue
from weft.frontend.onnx.onnx_graph import Region
from weft.host.data_sizes import NO_SIZES, DataSizes
from weft.ir.dtypes import as_dtype
from weft.ir.errors import BudgetError, CallError, CompileError
from weft.ir.operator_graph import Graph, Value

MAX_EXECUTABLES = 64  # kept per region, least recently used ones go first
MAX_STAGES = 256  # values that one region may need ahead of its import
NOT_FITTING = ("WEFT-E0605", "WEFT-E0608")  # sizes that a program is not for

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
    counted: Mapping[str, Counted]  # outputs of the last step of which a part counts

    @property
    def whole(self) -> Executable | None:
        """What computes the region's outputs as they are, if it does."""
        return None if self.needed or self.counted else self.executable


@dataclass(slots=True)
class Staged:
    """``region`` with the executables that its calls have needed so far."""

    region: Region
    compile_graph: CompileGraph
    stats: Counter[str]
    steps: OrderedDict[Key, _Step] = field(default_factory=OrderedDict)
    parts: tuple[Staged, ...] = ()  # what the region was cut into
    closed: bool = False  # sizes that depend on data cannot be open here
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, inputs: Arrays, constants: Arrays) -> list[np.ndarray]:
        """The region's outputs; ``constants`` are inputs whose data never changes."""
        return self.results(inputs, constants, NO_SIZES)[0]

    def results(
        self, inputs: Arrays, constants: Arrays, sizes: DataSizes
    ) -> tuple[list[np.ndarray], DataSizes]:
        """The same, and what is known of their sizes; ``sizes``: of those of the inputs."""
        found = None if self.parts else self._open(inputs, constants, sizes.among(inputs))
        if found is None and not self.parts:
            found = self._whole(inputs, constants, NO_SIZES)
        return self._in_parts(inputs, constants, sizes) if found is None else found

    def _open(
        self, inputs: Arrays, constants: Arrays, sizes: DataSizes
    ) -> tuple[list[np.ndarray], DataSizes] | None:
        """The results by code for all sizes that depend on data; None where there are none, or
        that cannot be."""
        if self.closed or not sizes.numbers:
            return None
        try:
            return self._whole(inputs, constants, sizes)
        except CallError as error:
            if error.code not in NOT_FITTING:
                raise
        except NeedsHost:
            raise
        except CompileError:
            self.closed = True
        return None

    def _whole(
        self, inputs: Arrays, constants: Arrays, sizes: DataSizes
    ) -> tuple[list[np.ndarray], DataSizes] | None:
        """The results by code for the whole region; None where it has been cut."""
        known: dict[str, np.ndarray] = {}
        values = {n: Value(n, sizes.shape(n, a), as_dtype(a.dtype)) for n, a in inputs.items()}
        values.update(sizes.values)
        arrays = {**inputs, **sizes.arrays}
        for _ in range(MAX_STAGES):
            step = self.step(values, constants, known, sizes)
            if step is None:
                return None
            if step.executable is None:
                known[str(step.needed)] = arrays[str(step.needed)]
                continue
            results = step.executable.run({v.name: arrays[v.name] for v in step.graph.inputs})
            if step.needed is None:
                outputs = step.graph.outputs[: len(self.region.outputs)]
                return sizes.trimmed(self.region.outputs, outputs, results, step.counted)
            known[step.needed] = results[step.needed]
        raise BudgetError(
            "WEFT-E0230",
            f"{self.region.name!r} needs more than {MAX_STAGES} values ahead of its shapes",
        )

    def _in_parts(
        self, inputs: Arrays, constants: Arrays, sizes: DataSizes
    ) -> tuple[list[np.ndarray], DataSizes]:
        fixed = {**self.region.constants, **constants}
        values = dict(inputs)
        made: set[str] = set()
        for part in self.parts:
            reads = part.region.captures
            given = {n: values[n] for n in reads if n in values}
            rest = {n: fixed[n] for n in reads if n not in values}
            results, sizes = part.results(given, rest, sizes)
            values.update(zip(part.region.outputs, results, strict=True))
            made.update(part.region.outputs)
        found = [values[n] if n in values else fixed[n] for n in self.region.outputs]
        return [
            array if name in made else np.array(array)
            for name, array in zip(self.region.outputs, found, strict=True)
        ], sizes

    def step(
        self, inputs: Values, constants: Arrays, known: Arrays, sizes: DataSizes = NO_SIZES
    ) -> _Step | None:
        """What to run next for inputs of these shapes; imported and compiled where it is new.

        None where the region has been cut: run its parts.
        """
        key = _key(inputs, known, sizes)
        with self.lock:
            if self.parts:
                return None
            step = self.steps.get(key)
            if step is None:
                step = self._import(inputs, constants, known, sizes)
                if step is None:
                    return None
                self.steps[key] = step
                if len(self.steps) > MAX_EXECUTABLES:
                    self.steps.popitem(last=False)
            self.steps.move_to_end(key)
        return step

    def _import(
        self, inputs: Values, constants: Arrays, known: Arrays, sizes: DataSizes
    ) -> _Step | None:
        needed = None
        counted: dict[str, Counted] = {}
        given: dict[str, Value | np.ndarray] = {**inputs, **constants}
        try:
            graph = import_region(
                self.region, given, known=known, sizes=sizes.symbols(), counted=counted
            )
        except NeedsValue as stop:
            graph, needed = stop.graph, stop.name
            if stop.counted:
                self._cut(stop.index + 1)
                return None
            if stop.index > 0 and not all(is_small(node.program) for node in graph.nodes):
                self._cut(stop.index)
                return None
            self.stats["staged"] += 1
        if needed in inputs:
            return _Step(graph, None, needed, {})
        self.stats["compiled"] += 1
        return _Step(graph, self.compile_graph(graph), needed, counted)

    def _cut(self, index: int) -> None:
        parts = cut_region(self.region, index)
        self.parts = tuple(Staged(p, self.compile_graph, self.stats) for p in parts)
        self.stats["cuts"] += 1


def _key(inputs: Values, known: Arrays, sizes: DataSizes) -> Key:
    shapes = tuple((n, v.shape, v.dtype.name) for n, v in inputs.items())
    data = tuple((n, a.shape, hashlib.sha256(a.tobytes()).digest()) for n, a in known.items())
    return (*shapes, *data, *sizes.bounds.items())
