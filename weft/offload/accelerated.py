"""Models on an accelerator and the processor: what ``weft.compile(…, target="vta")`` gives.

The accelerator is simulated: what it computes exactly (``simulator``), and how long it takes
(``accel/timing.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weft.accel.artifact import Artifact
from weft.accel.execution_order import Order
from weft.accel.place import Offloaded
from weft.accel.relocate import relocated
from weft.accel.timing import Timing, timing
from weft.driver.compiler import compile_graph
from weft.driver.options import Options
from weft.graph.canonical import canonical_text
from weft.graph.cluster_program import ClusterProgram, cluster_program
from weft.graph.partition import Cluster
from weft.ir.accelerator import Accelerator
from weft.ir.errors import CompileError
from weft.ir.operator_graph import Graph, Node, Value
from weft.ir.scop import Scop
from weft.ir.tensor_expr import as_size
from weft.offload.offload import Target, can_compute, offload
from weft.offload.simulator import check_stream, run_offloaded
from weft.polyhedral.from_tensor_expr import lower
from weft.runtime.arguments import arrange, fitting, not_by_name
from weft.runtime.compiled import ArraySpec
from weft.runtime.executable import Executable
from weft.runtime.pickling import StaysHere

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Layer:
    """What one part takes on the accelerator: its ``name``, its ``operators``, clock ``cycles``.
    ``utilisation``: terms of its sums, of those that the machine could add up in ``cycles``;
    ``bytes`` from and to main memory; ``instructions``: how many its stream has. ``way``: how it is
    computed; ``ways``: estimated cycles of that and of the others."""

    name: str
    operators: str
    cycles: int
    utilisation: float
    bytes: int
    instructions: int
    way: str
    ways: Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class Offload:
    """A part for the accelerator: the ``cluster`` of the graph, what was ``made`` of it, its
    ``timing``, and ``values`` of the graph by the names of the program's tensors."""

    cluster: Cluster
    made: Offloaded
    values: Mapping[str, str]
    timing: Timing

    @property
    def layer(self) -> Layer:
        """What it takes."""
        cycles = self.timing.cycles
        return Layer(
            self.cluster.name,
            " ".join(node.op for node in self.cluster.nodes),
            cycles,
            self.made.tiling.mapped.least_cycles / cycles,
            self.made.bytes,
            len(self.made.artifact.stream.issues),
            self.made.tiling.mapped.way,
            {way: round(price) for way, price in self.made.prices.items()},
        )


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What the processor computes in between."""

    program: Executable
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Accelerated(StaysHere):
    """A model whose parts run on an accelerator, simulated, and on the processor.

    ``accelerated(*arrays, **by_name)`` and ``run`` as ``Executable`` has them. ``layers`` says what
    each part of the accelerator takes. ``weft.compile`` makes it: ``steps`` for ``target``, the
    accelerator, and the processor, in order, which compute ``graph``.
    """

    _elsewhere = "compile it there, or write its streams: weft compile --target vta -o stream.bin"

    def __init__(self, graph: Graph, target: Target, steps: tuple[Offload | Step, ...]) -> None:
        self._graph, self._target, self._steps = graph, target, steps
        self._specs = [
            ArraySpec(v.name, v.dtype, tuple(map(as_size, v.shape))) for v in graph.inputs
        ]

    @property
    def inputs(self) -> tuple[Value, ...]:
        """Name, shape and dtype of each input, in order."""
        return self._graph.inputs

    @property
    def outputs(self) -> tuple[Value, ...]:
        """Name, shape and dtype of each output, in order."""
        return self._graph.outputs

    @property
    def input_values(self) -> dict[str, Value | None]:
        """The inputs by name."""
        return {value.name: value for value in self.inputs}

    @property
    def machine(self) -> Accelerator:
        """The accelerator."""
        return self._target.machine

    @property
    def offloads(self) -> tuple[Offload, ...]:
        """The parts of the accelerator, in the order in which they run."""
        return tuple(step for step in self._steps if isinstance(step, Offload))

    @property
    def layers(self) -> tuple[Layer, ...]:
        """What each part takes on the accelerator, in order."""
        return tuple(each.layer for each in self.offloads)

    @property
    def artifacts(self) -> Mapping[str, Artifact]:
        """The streams, by the name of their layer."""
        return {each.cluster.name: each.made.artifact for each in self.offloads}

    def relocated(self, base: int) -> Mapping[str, Artifact]:
        """``artifacts`` for images that begin at address ``base``. Raises ``StreamError``
        (WEFT-E1048)."""
        analysed = self._target.semantics.analysed
        return {name: relocated(each, analysed, base) for name, each in self.artifacts.items()}

    @property
    def stats(self) -> dict[str, object]:
        """The machine's name, numbers of parts, and cycles of all of its layers."""
        processor = sum(isinstance(step, Step) for step in self._steps)
        return {
            "accelerator": self.machine.name,
            "offloaded": len(self.offloads),
            "on the processor": processor,
            "cycles": sum(layer.cycles for layer in self.layers),
        }

    def explain(self) -> str:
        """A line for each layer that could be computed in several ways: which one it is, and the
        estimated cycles of all."""
        lines = []
        for layer in self.layers:
            others = [f"{n:,} {way}" for way, n in layer.ways.items() if way != layer.way]
            if others:
                own = f"{layer.way}, {layer.ways[layer.way]:,} cycles estimated"
                lines.append(f"{layer.name}: {own} ({'; '.join(others)})")
        return "\n".join(lines)

    def __call__(self, *arrays: Array, **by_name: Array) -> Array | tuple[Array, ...]:
        """The output, or a tuple of them. Raises ``CallError`` for inputs that do not fit."""
        results = self._run(arrange(self._specs, arrays, by_name), "first")
        found = tuple(results.values())
        return found[0] if len(found) == 1 else found

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Outputs by name, of ``inputs`` by name. Raises ``CallError``: WEFT-E0602 for what is no
        mapping, and for inputs that do not fit."""
        return self.simulate(inputs)

    def simulate(self, inputs: Mapping[str, Any], order: Order = "first") -> dict[str, Array]:
        """Outputs by name, of ``inputs`` by name, the queues being served in that ``order``:
        "first", "last", "turns", or a random one by the seed that it is. The result is the same for
        all. Raises ``CallError`` as ``run``."""
        if not isinstance(inputs, Mapping):
            raise not_by_name(inputs)
        return self._run(arrange(self._specs, (), inputs), order)

    def _run(self, arrays: Sequence[object], order: Order) -> dict[str, Array]:
        pairs = zip(self._specs, arrays, strict=True)
        values = {spec.name: fitting(array, spec) for spec, array in pairs}
        for step in self._steps:
            if isinstance(step, Step):
                values |= step.program.run({name: values[name] for name in step.inputs})
                continue
            given = {tensor: values[name] for tensor, name in step.values.items() if name in values}
            (output,) = step.cluster.outputs
            semantics = self._target.semantics
            values[output.name] = run_offloaded(step.made, given, semantics, order=order)
        return {value.name: values[value.name] for value in self.outputs}

    def check(self) -> None:
        """Refuse a stream that might do what it should not. Raises ``StreamError``."""
        for each in self.offloads:
            check_stream(each.made.artifact, self._target.semantics)


def accelerate(
    graph: Graph, machine: Accelerator, options: Options | None = None, *, buffers: int = 2
) -> Accelerated:
    """``graph`` with all that ``machine`` can compute on it, the rest on the processor.

    ``buffers`` 1: without latency hiding. Raises ``CompileError``: WEFT-E1033 where there is
    nothing for the accelerator, and as ``compile_graph`` does.
    """
    target = Target.of(machine)
    compiler = _Compiler(graph, target, replace(options or Options(), target="host"), buffers)
    return Accelerated(graph, target, compiler.steps())


def parts_of(graph: Graph, target: Target) -> list[tuple[str, Scop, int]]:
    """The different parts of ``graph`` that ``target`` computes, by name, and how often each one
    occurs."""
    compiler = _Compiler(graph, target, Options(), 2)
    found: dict[str, tuple[str, Scop, int]] = {}
    for part in offload_parts(graph, compiler.takes):
        if part.offloaded:
            made = cluster_program(part.cluster)
            text = canonical_text(made.program)
            name, scop, times = found.get(text) or (part.cluster.name, _scop(made, "layer"), 0)
            found[text] = name, scop, times + 1
    return list(found.values())


class _Compiler:
    def __init__(self, graph: Graph, target: Target, options: Options, buffers: int) -> None:
        self.graph, self.target, self.options, self.buffers = graph, target, options, buffers
        self.computable: dict[str, bool] = {}  # by canonical text
        self.reasons: dict[str, str] = {}
        # By canonical text, and by which inputs are constants: names of tensors, and the stream.
        self.streams: dict[tuple[str, tuple[bool, ...]], tuple[tuple[str, ...], Offloaded]] = {}

    def steps(self) -> tuple[Offload | Step, ...]:
        made: dict[str, Offload | None] = {"": None}
        while None in made.values():  # those that turned out to have no stream are asked no more
            parts = self._parts()
            made = {p.cluster.name: self._offload(p.cluster) for p in parts if p.offloaded}
        steps: list[Offload | Step] = []
        for part in parts:
            found = made[part.cluster.name] if part.offloaded else self._step(part)
            assert found is not None, "it has a stream"
            steps.append(found)
        return tuple(steps)

    def _parts(self) -> tuple[Part, ...]:
        parts = offload_parts(self.graph, self.takes)
        if not any(part.offloaded for part in parts):
            raise CompileError(
                "WEFT-E1033",
                f"{self.target.machine.name} can compute nothing of {self.graph.name}",
                why="; ".join(f"{name}: {why}" for name, why in list(self.reasons.items())[:4]),
                hint="an accelerator of integers takes quantised models: weft.quantize",
            )
        return parts

    def takes(self, cluster: Cluster) -> bool:
        """Whether the accelerator can compute ``cluster``; the same question once."""
        if len(cluster.outputs) != 1:
            return False
        made = cluster_program(cluster)
        text = canonical_text(made.program)
        if text not in self.computable:
            why = can_compute(_scop(made, cluster.name), self.target)
            self._told(text, cluster, why)
        return self.computable[text]

    def _told(self, text: str, cluster: Cluster, why: str) -> None:
        self.computable[text] = not why
        if why:
            self.reasons[cluster.name] = why

    def _offload(self, cluster: Cluster) -> Offload | None:
        """None where it has no stream, whatever its mapping promised."""
        made = cluster_program(cluster)
        values = [value.name for value in cluster.inputs]
        known = tuple(name in self.graph.constants for name in values)
        key = canonical_text(made.program), known
        if key not in self.streams:
            scop = _scop(made, cluster.name)
            tensors = tuple(t.name for t in scop.tensors if t.role == "input")
            constants = self._constants(tensors, values)
            try:
                found = offload(scop, self.target, constants, buffers=self.buffers)
            except CompileError as error:
                self._told(key[0], cluster, error.why)
                return None
            self.streams[key] = tensors, found
        tensors, found = self.streams[key]
        found = found.with_constants(self._constants(tensors, values))
        names = dict(zip(tensors, values, strict=True))
        return Offload(cluster, found, names, timing(found.artifact.stream))

    def _constants(self, tensors: Sequence[str], values: Sequence[str]) -> dict[str, Array]:
        constants = self.graph.constants
        pairs = zip(tensors, values, strict=True)
        return {tensor: constants[name] for tensor, name in pairs if name in constants}

    def _step(self, part: Part) -> Step:
        cluster = part.cluster
        constants = {
            v.name: self.graph.constants[v.name]
            for v in cluster.inputs
            if v.name in self.graph.constants
        }
        inputs = tuple(v for v in cluster.inputs if v.name not in constants)
        graph = Graph(cluster.name, inputs, cluster.outputs, cluster.nodes, constants)
        program = compile_graph(graph, self.options)
        return Step(program, tuple(v.name for v in inputs), tuple(v.name for v in cluster.outputs))


def _scop(made: ClusterProgram, name: str) -> Scop:
    return lower(made.program, name, sources=made.sources)


# ---- The graph in parts: those that an accelerator takes, and what the processor computes in
# between.
#
# An accelerator's part begins with a node that it can compute, and grows along results that one
# node alone reads, as long as it can compute all of it together. Which nodes these are, the
# caller says: nothing is decided by an operator's name. Parts of the processor are as large as
# can be: everything between the same two rounds of the accelerator.
#
# As a part grows only along results with one reader, the graph of parts has no cycle.


@dataclass(frozen=True, slots=True)
class Part:
    """``offloaded``: for the accelerator. ``cluster.inputs`` has constants of the graph, too."""

    cluster: Cluster
    offloaded: bool


def offload_parts(graph: Graph, takes: Callable[[Cluster], bool]) -> tuple[Part, ...]:
    """The parts of ``graph`` in an order in which they can run; every node is in one of them."""
    return _Parts(graph, takes).parts()


class _Parts:
    def __init__(self, graph: Graph, takes: Callable[[Cluster], bool]) -> None:
        self.graph, self.takes = graph, takes
        self.producers, self.consumers = graph.producers, graph.consumers
        self.results = {value.name for value in graph.outputs}

    def parts(self) -> tuple[Part, ...]:
        offloaded: dict[str, list[Node]] = {}  # by name of each of its nodes
        for node in self.graph.nodes:
            if node.name not in offloaded and self.takes(self._cluster([node])):
                grown = self._grown(node, offloaded)
                offloaded |= {each.name: grown for each in grown}
        rounds = self._rounds(offloaded)
        found: list[Part] = []
        for number in range(max(rounds.values(), default=-1) + 1):
            here = [n for n in self.graph.nodes if rounds[n.name] == number]
            rest = [n for n in here if n.name not in offloaded]
            if rest:
                found.append(Part(self._cluster(rest), False))
            first = [n for n in here if n.name in offloaded and offloaded[n.name][0] is n]
            found += [Part(self._cluster(offloaded[n.name]), True) for n in first]
        return tuple(found)

    def _grown(self, node: Node, taken: dict[str, list[Node]]) -> list[Node]:
        """``node`` and those after it that can be computed with it."""
        nodes = [node]
        while True:
            reader = self._only_reader(nodes[-1])
            if reader is None or reader.name in taken:
                return nodes
            if not self.takes(self._cluster([*nodes, reader])):
                return nodes
            nodes.append(reader)

    def _only_reader(self, node: Node) -> Node | None:
        if len(node.outputs) != 1 or node.outputs[0].name in self.results:
            return None
        readers = self.consumers.get(node.outputs[0].name, [])
        return readers[0] if len(readers) == 1 else None

    def _rounds(self, offloaded: dict[str, list[Node]]) -> dict[str, int]:
        """After how many rounds of the accelerator each node runs; those of one part together."""
        rounds: dict[str, int] = {}
        for node in self.graph.nodes:
            part = offloaded.get(node.name, [node])
            if node is not part[-1]:
                continue  # what the part needs is there when its last node can run
            number = 0
            for each in part:
                for value in each.inputs:
                    maker = self.producers.get(value.name)
                    if maker is not None and maker not in part:
                        number = max(number, rounds[maker.name] + (maker.name in offloaded))
            rounds |= {each.name: number for each in part}
        return rounds

    def _cluster(self, nodes: list[Node]) -> Cluster:
        """``nodes`` with what goes in, and what others read."""
        made = {value.name for node in nodes for value in node.outputs}
        own = {node.name for node in nodes}
        inputs = {v.name: v for node in nodes for v in node.inputs if v.name not in made}
        outputs: list[Value] = []
        for node in nodes:
            for value in node.outputs:
                readers = self.consumers.get(value.name, [])
                if value.name in self.results or any(r.name not in own for r in readers):
                    outputs.append(value)
        return Cluster(nodes[-1].name, tuple(nodes), tuple(inputs.values()), tuple(outputs))
