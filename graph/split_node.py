"""One node for each operation of a node's program, so that clusters may be cut between them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from weft.graph.from_program import from_program
from weft.graph.rebuild import fresh_name, rebuild
from weft.ir.operator_graph import Node, Value
from weft.ir.tensor_expr import Program, Tensor


def split_node(node: Node, taken: set[str]) -> tuple[Node, ...]:
    """Nodes that compute the outputs of ``node``, each by an operation of its own.

    Values in between get names that are not in ``taken``, which grows by them. The nodes that
    compute outputs keep the name, the attributes and, as all, the origin. A node stays whole where
    an output is an input, or two are one result.
    """
    graph = from_program(node.program)
    results = dict(zip((v.name for v in graph.outputs), node.outputs, strict=True))
    made = {v.name for part in graph.nodes for v in part.outputs}
    if len(results) < len(node.outputs) or not results.keys() <= made:
        return (node,)
    values = dict(zip((v.name for v in graph.inputs), node.inputs, strict=True)) | results
    for part in graph.nodes:
        for value in part.outputs:
            if value.name not in values:
                name = fresh_name(f"{node.outputs[0].name}.{value.name}", taken)
                values[value.name] = replace(value, name=name)
    return tuple(_part(part, node, values, results.keys()) for part in graph.nodes)


def _part(part: Node, node: Node, values: Mapping[str, Value], final: Collection[str]) -> Node:
    last = any(v.name in final for v in part.outputs)
    outputs = tuple(values[v.name] for v in part.outputs)
    return Node(
        node.name if last else outputs[0].name,
        part.program.name,
        tuple(values[v.name] for v in part.inputs),
        outputs,
        node.attributes if last else {},
        part.program,
        node.origin,
    )


# ---- One node of several: a node with the operations of some of its producers in its own program.


def with_makers(node: Node, makers: Mapping[str, Node]) -> Node:
    """``node`` with the operations of ``makers``, by the one value that each computes, in its own
    program."""
    own = zip(node.program.inputs, node.inputs, strict=True)
    tensors = {v.name: t for t, v in own if v.name not in makers}
    values = {v.name: v for v in node.inputs if v.name not in makers}
    made: dict[str, Tensor] = {}
    for name in dict.fromkeys(v.name for v in node.inputs if v.name in makers):
        maker = makers[name]
        for tensor, value in zip(maker.program.inputs, maker.inputs, strict=True):
            tensors.setdefault(value.name, tensor)
            values.setdefault(value.name, value)
        given = [tensors[v.name] for v in maker.inputs]
        (made[name],) = rebuild(maker.program, given)[1]
    inputs = [made.get(v.name) or tensors[v.name] for v in node.inputs]
    _, outputs = rebuild(node.program, inputs)
    program = Program(node.program.name, tuple(tensors.values()), outputs)
    return replace(node, inputs=tuple(values.values()), program=program)
