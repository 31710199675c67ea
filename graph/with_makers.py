"""One node of several: a node with the operations of some of its producers in its own program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.frontend.tensor_expr import Program, Tensor
from weft.graph.operator_graph import Node
from weft.graph.rebuild import rebuild


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
