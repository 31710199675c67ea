"""A graph in units, the least that is placed, and the subgraphs that some of them are.

A unit is a cluster of the partitioner's: what Weft fuses, nobody runs in parts.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path

import onnx
from onnx import helper, numpy_helper

from weft.driver.providers import Subgraph
from weft.frontend.onnx.tensors import element_type_of
from weft.graph.canonical import canonical_text
from weft.graph.fusion_rules import Limits
from weft.graph.partition import partition
from weft.ir.operator_graph import Graph, Node, Value
from weft.ir.tensor_expr import constant_size
from weft.tuner.placement import Part

UNITS = 64  # at most: their runs, of which there are about 64²/2, are all candidates
_SMALL = 64  # bytes of a constant that may decide what is computed


@dataclass(frozen=True)
class Units:
    """``graph`` as ``nodes`` of each unit, in an order in which they can run. ``model``: what it
    was imported from, if that is ONNX's."""

    graph: Graph
    nodes: tuple[tuple[Node, ...], ...]
    model: onnx.ModelProto | None = None

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The units by what they read and make of each other's values and of the inputs."""
        known = self.graph.constants
        found = []
        for nodes in self.nodes:
            made = [v.name for node in nodes for v in node.outputs]
            read = dict.fromkeys(v.name for node in nodes for v in node.inputs)
            reads = tuple(name for name in read if name not in known and name not in set(made))
            found.append(Part(reads, tuple(made)))
        return tuple(found)

    @cached_property
    def _readers(self) -> dict[str, list[Node]]:
        return self.graph.consumers

    @cached_property
    def _final(self) -> frozenset[str]:
        return frozenset(v.name for v in self.graph.outputs)

    @property
    def passed(self) -> tuple[Value, ...]:
        """What units make that others read, or that is an output."""
        return tuple(v for k in range(len(self.nodes)) for v in self.subgraph([k]).outputs)

    def subgraph(self, units: Iterable[int]) -> Graph:
        """The graph of these units; its inputs and outputs are values of the whole one."""
        nodes = [node for unit in sorted(units) for node in self.nodes[unit]]
        own = {id(node) for node in nodes}
        made = {v.name for node in nodes for v in node.outputs}
        read = dict.fromkeys(v for node in nodes for v in node.inputs if v.name not in made)
        constants = self.graph.constants
        outputs = (
            v
            for node in nodes
            for v in node.outputs
            if v.name in self._final
            or any(id(reader) not in own for reader in self._readers.get(v.name, ()))
        )
        return Graph(
            self.graph.name,
            tuple(v for v in read if v.name not in constants),
            tuple(outputs),
            tuple(nodes),
            {v.name: constants[v.name] for v in read if v.name in constants},
        )

    def asked(self, units: Iterable[int], threads: int) -> Subgraph:
        """What a provider is asked for them."""
        numbers = frozenset(units)
        graph = self.subgraph(numbers)
        alone = len(numbers) == len(self.nodes)
        return Subgraph(graph, threads, partial(onnx_of, graph, self.model), alone)


def units_of(graph: Graph, limits: Limits, model: onnx.ModelProto | None = None) -> Units:
    """``graph`` in units, ``UNITS`` at most: where there are more clusters, those between which
    most data pass are one."""
    clusters = [cluster.nodes for cluster in partition(graph, limits).clusters]
    units = Units(graph, tuple(clusters), model)
    crossing = _crossing(units)
    kept = sorted(sorted(range(len(crossing)), key=lambda k: (crossing[k], k))[: UNITS - 1])
    edges = [0, *(k + 1 for k in kept), len(clusters)]
    joined = (clusters[a:b] for a, b in pairwise(edges))
    return replace(units, nodes=tuple(tuple(n for c in few for n in c) for few in joined if few))


def _crossing(units: Units) -> list[int]:
    """Bytes that are made before and read after each boundary of neighbouring units."""
    last: dict[str, int] = {}
    for k, part in enumerate(units.parts):
        for name in part.reads:
            last[name] = k
    found = [0] * max(len(units.nodes) - 1, 0)
    for k, nodes in enumerate(units.nodes):
        for value in (v for node in nodes for v in node.outputs):
            for boundary in range(k, last.get(value.name, k)):
                found[boundary] += size_of(value)
    return found


def size_of(value: Value) -> int:
    """Bytes of ``value``, whose sizes are numbers."""
    return math.prod(constant_size(n) or 0 for n in value.shape) * value.dtype.numpy.itemsize


def identity(graph: Graph) -> str:
    """The same for graphs that compute the same, whatever their values are called and whatever
    large constants hold: they take the same time."""
    numbers: dict[str, int] = {}
    lines: list[str] = []

    def number(value: Value) -> int:
        if value.name not in numbers:
            data = graph.constants.get(value.name)
            held = "input" if data is None else "constant"
            if data is not None and data.nbytes <= _SMALL:
                held = data.tobytes().hex()
            lines.append(f"{held} {value.shape} {value.dtype}")
            numbers[value.name] = len(numbers)
        return numbers[value.name]

    for node in graph.nodes:
        lines.append(f"{canonical_text(node.program)} of {[number(v) for v in node.inputs]}")
        for value in node.outputs:
            numbers[value.name] = len(numbers)
    lines.append(f"gives {[numbers[v.name] for v in graph.outputs]}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


# ---- ONNX ----------------------------------------------------------------------------------------


def with_data(model: onnx.ModelProto, folder: Path | None) -> onnx.ModelProto:
    """A copy of ``model`` that holds the data that lie in ``folder``."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    if folder is not None:
        onnx.load_external_data_for_model(copy, str(folder))
    return copy


def onnx_of(graph: Graph, model: onnx.ModelProto | None) -> onnx.ModelProto | None:
    """The nodes of ``model`` that compute ``graph``, a subgraph of what was imported from it; None
    where they need more than its inputs."""
    if model is None:
        return None
    makers = {name: node for node in model.graph.node for name in node.output if name}
    initializers = {each.name: each for each in model.graph.initializer}
    given = {v.name for v in graph.inputs} | graph.constants.keys()
    needed: set[str] = set()
    nodes: set[int] = set()
    stack = [v.name for v in graph.outputs]
    while stack:
        name = stack.pop()
        if name in needed:
            continue
        needed.add(name)
        if name in given or name in initializers:
            continue
        if name not in makers:
            return None
        nodes.add(id(makers[name]))
        stack += _reads(makers[name])
    constants = [
        initializers.get(name) or numpy_helper.from_array(graph.constants[name], name)
        for name in sorted(needed)
        if name in initializers or name in graph.constants
    ]
    part = helper.make_graph(
        [node for node in model.graph.node if id(node) in nodes],
        model.graph.name or "part",
        [_declared(v) for v in graph.inputs],
        [_declared(v) for v in graph.outputs],
        constants,
    )
    return helper.make_model(
        part,
        opset_imports=model.opset_import,
        functions=model.functions,
        ir_version=model.ir_version,
    )


def _reads(node: onnx.NodeProto) -> list[str]:
    """What ``node`` and the bodies in it read and do not make."""
    found = [name for name in node.input if name]
    for attribute in node.attribute:
        for body in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
            own = {each.name for each in (*body.input, *body.initializer)}
            own |= {name for inner in body.node for name in inner.output}
            read = [name for inner in body.node for name in _reads(inner)]
            found += [name for name in read if name not in own]
            found += [each.name for each in body.output if each.name not in own]
    return found


def _declared(value: Value) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(value.name, element_type_of(value.dtype), value.shape)


def names(nodes: Sequence[Node]) -> list[str]:
    """What ``nodes`` are called in placements: by the first of their results, which is unique."""
    return [node.outputs[0].name for node in nodes]
