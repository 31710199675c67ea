"""What follows a sum, in the sum's own loops: one program of a node and of those that only map it.

    s[k, i] = Σ_c x[c, i] * w[k, c];  t[k, i] = s[k, i] * a[k] + b[k];  y[k, i] = max(t[k, i], 0)
    →
    y[k, i] = max(Σ_c x[c, i] * w[k, c] * a[k] + b[k], 0)

Nothing is computed twice: a node joins only its one reader.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.graph.factors import MAX_NODES, factors, is_power
from weft.ir.graph_verifier import same_shape
from weft.ir.operator_graph import Graph, Node, Value
from weft.ir.scalar_expr import Apply, Cast, Expr, Literal, Load, rewrite, substitute, walk
from weft.ir.scalar_reshape import reshape_indices
from weft.ir.tensor_expr import (
    Compute,
    Program,
    Reduce,
    Reshape,
    Tensor,
    as_size,
    constant_size,
    tensors_read,
)


@dataclass(frozen=True, slots=True)
class Group:
    """``nodes``, one after the other, as ``program`` from ``inputs`` to ``output``.

    ``linear``: all of it is sums and products, so that a further constant can go into them.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]
    output: Value
    program: Program
    linear: bool


def groups(graph: Graph) -> list[Group | Node]:
    """The nodes of ``graph`` in order, those of one floating-point result as groups."""
    final = {v.name for v in graph.outputs}
    consumers = graph.consumers
    made: dict[str, int] = {}  # value -> where its group is
    found: list[Group | Node] = []
    for node in graph.nodes:
        if len(node.outputs) != 1 or not node.outputs[0].dtype.is_float:
            found.append(node)
            continue
        active = [v for v in node.inputs if v.dtype.is_float and v.name not in graph.constants]
        joined = None
        if len(active) == 1 and active[0].name in made and active[0].name not in final:
            place = made[active[0].name]
            before = found[place]
            if len(consumers[active[0].name]) == 1 and isinstance(before, Group):
                joined = with_epilogue(before, node, active[0])
        if joined is None:
            made[node.outputs[0].name] = len(found)
            found.append(_alone(node))
        else:
            made[node.outputs[0].name] = place
            found[place] = joined
    return found


def _alone(node: Node) -> Group:
    """``node`` as a group."""
    program = _in_one(node.program)
    return Group((node,), node.inputs, node.outputs[0], program, _is_linear(program))


def _in_one(program: Program) -> Program:
    """``program`` with what its last operations do to a sum in the sum's own."""
    (output,) = program.outputs
    operation = output.operation
    if not isinstance(operation, Compute) or operation.scan or len(operation.values) != 1:
        return program
    made = [t for t in operation.reads if t.operation is not None]
    if len(made) != 1 or not _is_map(operation, made[0]):
        return program
    before = _in_one(replace(program, outputs=(made[0],)))
    linear = _is_linear(before)
    if not linear or not _follows(operation.values[0], made[0], linear):
        return program
    new = _joined(before, operation, made[0], output)
    return program if new is None else replace(program, outputs=(new,))


def _is_linear(program: Program) -> bool:
    operation = program.outputs[0].operation
    while isinstance(operation, Reshape):
        operation = operation.source.operation
    if not isinstance(operation, Compute) or operation.scan or len(operation.values) != 1:
        return False
    nodes = list(walk(operation.values[0]))
    sums = any(isinstance(node, Reduce) for node in nodes)
    return sums and all(
        isinstance(node, Reduce | Cast | Load | Literal) or not node.dtype.is_float
        or (isinstance(node, Apply) and node.op in ("add", "sub", "mul", "div", "neg"))
        for node in nodes
    )  # fmt: skip


def with_epilogue(group: Group, node: Node, value: Value) -> Group | None:
    """``group`` with ``node``, which reads its ``value``; None where ``node`` is no map of it that
    integers can follow without rounding in between."""
    operation = node.program.outputs[0].operation
    given = next(t for t, v in zip(node.program.inputs, node.inputs, strict=True) if v == value)
    if not isinstance(operation, Compute) or operation.scan or len(operation.values) != 1:
        return None
    body = operation.values[0]
    alone = all(t.operation is None for t in operation.reads)
    if not alone or not _is_map(operation, given) or not _follows(body, given, group.linear):
        return None
    new = _joined(group.program, operation, given, node.program.outputs[0])
    if new is None:
        return None
    tensors = dict(zip(group.program.inputs, group.inputs, strict=True))
    pairs = zip(node.program.inputs, node.inputs, strict=True)
    tensors |= {t: v for t, v in pairs if v != value}
    program = Program(group.program.name, tuple(tensors), (new,))
    linear = group.linear and _is_linear(program)
    nodes = (*group.nodes, node)
    return Group(nodes, tuple(tensors.values()), node.outputs[0], program, linear)


def _is_map(operation: Compute, given: Tensor) -> bool:
    """Whether each element is computed from the same element of ``given``, of the same shape."""
    loads = [n for n in walk(operation.values[0]) if isinstance(n, Load) and n.source == given]
    extents = tuple(axis.extent for axis in operation.axes)
    return same_shape(extents, given.shape) and all(n.indices == operation.axes for n in loads)


def _follows(body: Expr, given: Tensor, linear: bool) -> bool:
    """Whether ``body`` adds constants, takes the lesser or greater, or, where what it follows is
    ``linear``, multiplies by constants."""
    if sum(1 for _ in walk(body)) > MAX_NODES // 4:
        return False

    def follows(expr: Expr) -> bool:
        if given not in tensors_read([expr]):
            return True
        match expr:
            case Load():
                return True
            case Cast(arg):
                return arg.dtype.is_float and follows(arg)
            case Apply("add" | "sub" | "min" | "max", args):
                active = [arg for arg in args if given in tensors_read([arg])]
                return len(active) == 1 and follows(active[0])
            case Apply("mul" | "div" | "neg"):
                parts = factors(expr)
                active = [part for part in parts if given in tensors_read([part])]
                free = all(is_power(p) for p in parts if p not in active)
                alone = len(active) == 1 and active[0] != expr
                return alone and (linear or free) and follows(active[0])
        return False

    return follows(body)


def _joined(program: Program, operation: Compute, given: Tensor, output: Tensor) -> Tensor | None:
    """``operation``, which reads the result of ``program`` as ``given``, in that one's loops."""
    result = program.outputs[0]
    source = result
    while isinstance(source.operation, Reshape):
        source = source.operation.source
    before = source.operation
    if not isinstance(before, Compute) or before.scan or len(before.values) != 1:
        return None
    shape, own = ([as_size(n) for n in t.shape] for t in (source, result))
    ranges = {
        a.name: (0, None if n is None else n - 1)
        for a, n in zip(before.axes, map(constant_size, source.shape), strict=True)
    }
    places: tuple[Expr, ...] = before.axes
    if source is not result:
        loops: dict[str, Expr] = {axis.name: axis for axis in before.axes}
        found = reshape_indices(before.axes, shape, own, ranges)
        places = tuple(substitute(place, loops) for place in found)

    def change(node: Expr) -> Expr | None:
        return before.values[0] if isinstance(node, Load) and node.source == given else None

    at = {axis.name: place for axis, place in zip(operation.axes, places, strict=True)}
    value = rewrite(substitute(operation.values[0], at), change)
    new = Compute(operation.name, before.axes, (value,), written=operation.written)
    tensor = Tensor(output.name, source.shape, output.dtype, new)
    if source is result:
        return tensor
    return Tensor(
        f"{output.name}_reshaped", result.shape, output.dtype, Reshape("reshaped", tensor)
    )
