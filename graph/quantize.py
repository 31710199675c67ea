"""Quantisation: what sums products with constants, in int8 and int32; all around it as it was.

    x: float32 → conv → scale_shift → relu → softmax
    →
    quantise(x) → conv+scale_shift+relu in integers → dequantise → softmax

Scales are powers of two, one for each tensor (``exponents``), and symmetric: no zero points.
Integer nodes are ordinary tensor programs (``integral``), and between them everything is int8. A
node that sums no such products (pooling, residual additions, moves) is computed in integers where
all that it reads comes from integer nodes. Jacob et al., "Quantization and training of neural
networks for efficient integer-arithmetic-only inference", 2018, with shifts for multiplications.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from weft.graph.eliminate_dead import eliminate_dead
from weft.graph.exponents import LARGEST, Scale
from weft.graph.factors import contracts
from weft.graph.fixed_reading import Held
from weft.graph.integral import integral
from weft.graph.known import NotIntegral
from weft.graph.rebuild import fresh_name
from weft.graph.with_epilogue import Group, groups
from weft.ir import dtypes
from weft.ir.build import compute, maximum, minimum, round_even
from weft.ir.operator_graph import Graph, Node, Value
from weft.ir.scalar_expr import Expr, cast
from weft.ir.tensor_expr import Axis, Program, Tensor


@dataclass(frozen=True, slots=True)
class Layer:
    """What became of some nodes: ``name`` of their result, ``op`` what they are called.

    Exponents of the int8 ``inputs``, of the ``weights`` and of the ``result``; ``shift``: by how
    many bits sums are shifted to the right; ``sums``: their greatest magnitude. ``refused``: why
    they stay in floating point.
    """

    name: str
    op: str
    inputs: tuple[int, ...] = ()
    weights: tuple[int, ...] = ()
    result: int = 0
    shift: int = 0
    sums: int = 0
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Quantisation:
    """``graph`` with what was quantised; ``layers`` in its order; ``held``: name of a value of the
    original graph -> name of the int8 value that stands for it, and its exponent."""

    graph: Graph
    layers: tuple[Layer, ...]
    held: Mapping[str, tuple[str, int]]


def values_to_observe(graph: Graph) -> tuple[Value, ...]:
    """The values of ``graph`` whose scales ``quantize`` asks for, in order."""
    found: dict[str, Value] = {}
    for group in groups(graph):
        if isinstance(group, Group):
            if _contracts(group, graph.constants):
                found |= {v.name: v for v in _active(group, graph.constants)}
            found[group.output.name] = group.output
    return tuple(found.values())


def quantize(graph: Graph, scales: Mapping[str, Scale]) -> Quantisation:
    """``graph`` in integers where it sums products with constants.

    ``scales``: of values by name; what depends on one that is not there stays in floating point.
    Inputs and outputs, their names and their dtypes stay.
    """
    work = _Quantising(graph, scales)
    for group in groups(graph):
        work.visit(group)
    for value in graph.outputs:
        work.dequantised(value)
    constants = {**graph.constants, **work.constants}
    new = replace(graph, nodes=tuple(work.nodes), constants=constants)
    held = {name: (value.name, h.exponent) for name, (value, h) in work.held.items()}
    return Quantisation(eliminate_dead(new), tuple(work.layers), held)


def _active(group: Group, constants: Mapping[str, np.ndarray]) -> list[Value]:
    return [v for v in group.inputs if v.dtype.is_float and v.name not in constants]


def _contracts(group: Group, constants: Mapping[str, np.ndarray]) -> bool:
    pairs = list(zip(group.program.inputs, group.inputs, strict=True))
    known = {t for t, v in pairs if v.name in constants}
    return contracts(group.program, {t for t, v in pairs if v.dtype.is_float} - known, known)


@dataclass(slots=True)
class _Quantising:
    graph: Graph
    scales: Mapping[str, Scale]
    nodes: list[Node] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    held: dict[str, tuple[Value, Held]] = field(default_factory=dict)
    integers: set[str] = field(default_factory=set)  # values that integer nodes compute
    floats: set[str] = field(default_factory=set)  # values that exist in floating point
    taken: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.taken |= {v.name for v in self.graph.inputs} | set(self.graph.constants)
        self.floats |= self.taken
        self.taken |= {v.name for node in self.graph.nodes for v in node.outputs}

    def visit(self, group: Group | Node) -> None:
        if isinstance(group, Node):
            self.keep([group])
            return
        contraction = _contracts(group, self.graph.constants)
        active = _active(group, self.graph.constants)
        if not contraction and not (active and all(v.name in self.integers for v in active)):
            self.keep(group.nodes)
            return
        op = "+".join(node.op for node in group.nodes)
        try:
            self.quantised(group, op)
        except NotIntegral as why:
            self.layers.append(Layer(group.output.name, op, refused=str(why)))
            self.keep(group.nodes)

    def keep(self, nodes: list[Node] | tuple[Node, ...]) -> None:
        """``nodes`` as they are, on dequantised values."""
        for node in nodes:
            for value in node.inputs:
                self.dequantised(value)
            self.nodes.append(node)
            self.floats |= {v.name for v in node.outputs}

    def quantised(self, group: Group, op: str) -> None:
        """``group`` in integers; ``NotIntegral`` before anything has changed."""
        active = {v.name for v in _active(group, self.graph.constants)}
        scale = self.scales.get(group.output.name)
        if scale is None:
            raise NotIntegral("its values are not finite")
        pairs = list(zip(group.program.inputs, group.inputs, strict=True))
        readings = {v.name: self.reading(v) for v in group.inputs if v.name in active}
        given = {
            t: replace(readings[v.name][1], tensor=Tensor(f"{t.name}.int8", t.shape, dtypes.int8))
            for t, v in pairs
            if v.name in active
        }
        data = {t: self.graph.constants[v.name] for t, v in pairs if v.name in self.graph.constants}
        found = integral(group.program, given, data, scale.exponent)
        values = {given[t].tensor: self.quantise(v) for t, v in pairs if t in given}
        values |= {t: v for t, v in pairs if t not in given}
        for tensor, array in found.constants.items():
            name = fresh_name(f"{group.output.name}.{tensor.name}", self.taken)
            self.constants[name] = array
            values[tensor] = Value(name, tensor.shape, tensor.dtype)
        inputs = [values[t] for t in found.program.inputs]
        name = fresh_name(f"{group.output.name}.int8", self.taken)
        result = Value(name, group.output.shape, dtypes.int8)
        attributes = {"exponent": found.result.exponent, "shift": found.shift}
        last = group.nodes[-1]
        program = found.program
        self.nodes.append(
            Node(last.name, op, tuple(inputs), (result,), attributes, program, last.origin)
        )
        self.held[group.output.name] = (result, found.result)
        self.integers.add(group.output.name)
        exponents = tuple(held.exponent for held in given.values())
        facts = exponents, found.weights, found.result.exponent, found.shift, found.sums
        self.layers.append(Layer(group.output.name, op, *facts))

    # ---- borders ----------------------------------------------------------------------------

    def reading(self, value: Value) -> tuple[Value, Held]:
        """What holds ``value`` as int8, or will once it is quantised."""
        if value.name in self.held:
            return self.held[value.name]
        scale = self.scales.get(value.name)
        if scale is None:
            raise NotIntegral("it reads what is not finite")
        tensor = Tensor(value.name, value.shape, dtypes.int8)
        return value, Held(tensor, 0 if scale.exponent is None else scale.exponent)

    def quantise(self, value: Value) -> Value:
        """``value`` as int8, by a node of its own where it is in floating point."""
        if value.name in self.held:
            return self.held[value.name][0]
        _, held = self.reading(value)
        name = fresh_name(f"{value.name}.int8", self.taken)
        result = Value(name, value.shape, dtypes.int8)
        given = Tensor(value.name, value.shape, value.dtype)
        made = quantised(given, held.exponent)
        self._border("quantise", value, result, Program("quantise", (given,), (made,)), held)
        self.held[value.name] = (result, held)
        return result

    def dequantised(self, value: Value) -> None:
        """``value`` in floating point, by a node of its own where only int8 holds it."""
        if value.name in self.floats or value.name not in self.held:
            return
        source, held = self.held[value.name]
        given = Tensor(source.name, source.shape, source.dtype)
        acc = value.dtype.compute

        def body(*i: Axis) -> Expr:
            return cast(cast(given[i], acc) * 2.0**held.exponent, value.dtype)

        made = compute(value.shape, body, name="dequantise")
        self._border("dequantise", source, value, Program("dequantise", (given,), (made,)), held)
        self.floats.add(value.name)

    def _border(self, op: str, source: Value, result: Value, program: Program, held: Held) -> None:
        attributes = {"exponent": held.exponent}
        self.nodes.append(Node(result.name, op, (source,), (result,), attributes, program))


def quantised(x: Tensor, exponent: int) -> Tensor:
    """``x`` as int8 at ``exponent``: ties to even, saturated, 0 for NaN."""
    acc = x.dtype.compute

    def body(*i: Axis) -> Expr:
        value = round_even(cast(x[i], acc) * 2.0**-exponent)
        return cast(minimum(maximum(value, float(-LARGEST)), float(LARGEST)), dtypes.int8)

    return compute(x.shape, body, name="quantise")
