"""Handlers of Softmax, LogSoftmax and Hardmax."""

from __future__ import annotations

from weft.frontend.onnx.context import Handler, NodeContext, Results, handler


def _along(op: str) -> Handler:
    def function(node: NodeContext) -> Results:
        return node.call(op, node.input(0), axes=(int(node.attribute("axis", -1)),))

    return function


def _flattened(op: str) -> Handler:
    """Before opset 13 the input was a matrix: dimensions from ``axis`` on are one line."""

    def function(node: NodeContext) -> Results:
        x = node.input(0)
        rank, axis = len(x.shape), int(node.attribute("axis", 1))
        if not -rank <= axis <= rank:
            raise node.malformed(f"axis {axis} is outside a rank of {rank}")
        first = axis + rank if axis < 0 else axis
        return node.call(op, x, axes=tuple(range(first, rank)))

    return function


_OPERATORS = {"Softmax": "softmax", "LogSoftmax": "log_softmax", "Hardmax": "hardmax"}

for _op_type, _op in _OPERATORS.items():
    handler(_op_type)(_flattened(_op))
    handler(_op_type, since=13)(_along(_op))
