"""Algebra on the operator graph that needs no cost model. It looks at what nodes compute only.

y = copy(x)                          uses of y read x
y = reshape(x); z = reshape(y)       z = reshape(x)
y = x[f(i)];    z = y[g(i)]          z = x[f(g(i))]          (slices, transposes, broadcasts)
y = op(x); z = op(x)                 uses of z read y        (common subexpressions)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from weft.graph.canonical import canonical_text
from weft.graph.eliminate_dead import eliminate_dead
from weft.ir.graph_verifier import same_shape
from weft.ir.operator_graph import Graph, Node, Value
from weft.ir.scalar_expr import Load, substitute, walk
from weft.ir.scalar_simplify import simplify as simplify_expr
from weft.ir.tensor_expr import (
    Axis,
    Compute,
    Program,
    Reduce,
    Reshape,
    Tensor,
    constant_size,
)

_LONG = 64  # nodes of index expressions beyond which two moves stay two


def simplify(graph: Graph) -> Graph:
    """``graph`` with copies, chains of views and moves, and repeated computations removed.

    Names of inputs and outputs stay. Linear in the size of the graph.
    """
    state = _State({v.name for v in graph.outputs})
    for node in graph.nodes:
        state.visit(replace(node, inputs=tuple(map(state.value, node.inputs))))
    outputs = tuple(state.value(v) for v in graph.outputs)
    assert outputs == graph.outputs
    return eliminate_dead(replace(graph, nodes=tuple(state.nodes)))


@dataclass(slots=True)
class _State:
    final: set[str]  # names that must keep a definition of their own
    nodes: list[Node] = field(default_factory=list)
    instead: dict[str, Value] = field(default_factory=dict)  # value name -> what to read
    producer: dict[str, Node] = field(default_factory=dict)
    seen: dict[tuple[str, tuple[str, ...]], Node] = field(default_factory=dict)

    def value(self, value: Value) -> Value:
        return self.instead.get(value.name, value)

    def visit(self, node: Node) -> None:
        node = self.composed(node)
        fixed = any(v.name in self.final for v in node.outputs)
        if not fixed and is_copy(node.program):
            self.instead[node.outputs[0].name] = node.inputs[0]
            return
        key = (canonical_text(node.program), tuple(v.name for v in node.inputs))
        twin = self.seen.get(key)
        if twin is not None and not fixed:
            for mine, other in zip(node.outputs, twin.outputs, strict=True):
                self.instead[mine.name] = other
            return
        self.seen.setdefault(key, node)
        self.nodes.append(node)
        self.producer |= {v.name: node for v in node.outputs}

    def composed(self, node: Node) -> Node:
        """``node`` reading past its producer, where both only reshape or both only move."""
        before = self.producer.get(node.inputs[0].name) if len(node.inputs) == 1 else None
        if before is None or len(before.inputs) != 1 or len(before.outputs) != 1:
            return node
        program = _composition(before.program, node.program)
        return node if program is None else replace(node, inputs=before.inputs, program=program)


def is_copy(program: Program) -> bool:
    """Whether the one output is the one input, element by element."""
    if len(program.inputs) != 1 or len(program.outputs) != 1:
        return False
    given, result = program.inputs[0], program.outputs[0]
    if not same_shape(given.shape, result.shape):
        return False
    if is_view(program):
        return True
    load = moved(program)
    return load is not None and all(
        index == axis or constant_size(size) == 1
        for index, axis, size in zip(load.indices, _axes(result), given.shape, strict=True)
    )


def is_view(program: Program) -> bool:
    """Whether the one output is the one input in another shape: no work at all."""
    if len(program.outputs) != 1 or len(program.inputs) != 1:
        return False
    tensor = program.outputs[0]
    while isinstance(tensor.operation, Reshape):
        tensor = tensor.operation.source
    return tensor is program.inputs[0]


def moved(program: Program) -> Load | None:
    """The load that is all that the program does for each element of its one output, if it is."""
    result = program.outputs[0]
    operation = result.operation
    if len(program.outputs) != 1 or not isinstance(operation, Compute) or operation.scan:
        return None
    (value, *others) = operation.values
    if others or not isinstance(value, Load) or value.source not in program.inputs:
        return None
    affine = not any(isinstance(n, Load | Reduce) for i in value.indices for n in walk(i))
    return value if affine else None


def _axes(tensor: Tensor) -> tuple[Axis, ...]:
    assert isinstance(tensor.operation, Compute)
    return tensor.operation.axes


def _composition(first: Program, second: Program) -> Program | None:
    """``second`` after ``first`` as one program on the input of ``first``."""
    source = first.inputs[0]
    result = second.outputs[0]
    if is_view(first) and is_view(second):
        tensor = replace(result, operation=Reshape(result.name, source))
        return replace(second, inputs=(source,), outputs=(tensor,))
    outer, inner = moved(second), moved(first)
    if outer is None or inner is None:
        return None
    axes = _axes(first.outputs[0])
    taken = {axis.name: index for axis, index in zip(axes, outer.indices, strict=True)}
    indices = tuple(simplify_expr(substitute(i, taken)) for i in inner.indices)
    if sum(1 for index in indices for _ in walk(index)) > _LONG:
        return None
    operation = result.operation
    assert isinstance(operation, Compute)
    moved_twice = replace(operation, values=(Load(source, indices, inner.dtype),))
    return replace(second, inputs=(source,), outputs=(replace(result, operation=moved_twice),))
