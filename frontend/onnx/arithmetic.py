"""Handlers of arithmetic operators."""

from __future__ import annotations

import numpy as np

from weft.frontend.onnx.context import Handler, NodeContext, Results, handler
from weft.graph.operator_graph import Value


def aligned_inputs(node: NodeContext) -> tuple[Value, Value]:
    """Both inputs of a binary operator, ready for NumPy's broadcasting.

    Before opset 7 the second is aligned with the first at ``axis`` where that is given, which is to
    say that sizes of 1 follow it.
    """
    left, right = node.input(0), node.input(1)
    axis = node.attribute("axis") if node.opset < 7 and node.attribute("broadcast", 0) else None
    if axis is None:
        return left, right
    rank = len(left.shape)
    count = rank - (axis + rank if axis < 0 else axis) - len(right.shape)
    if count < 0:
        raise node.malformed(f"axis {axis} leaves no room for the shape {right.shape}")
    return left, node.call("trailing_ones", right, count=count) if count else right


def binary_handler(op: str) -> Handler:
    """A handler that calls ``op`` on two aligned inputs."""

    def function(node: NodeContext) -> Results:
        return node.call(op, *aligned_inputs(node))

    return function


def unary_handler(op: str, **parameters: float | str) -> Handler:
    """A handler that calls ``op`` with the node's attributes over the defaults ``parameters``."""

    def function(node: NodeContext) -> Results:
        given = {name: node.attribute(name, default) for name, default in parameters.items()}
        return node.call(op, node.input(0), **given)

    return function


for _op_type in ("Add", "Sub", "Mul", "Div", "Pow"):
    handler(_op_type)(binary_handler(_op_type.lower()))
for _op_type in ("And", "Or", "Xor"):
    handler(f"Bitwise{_op_type}")(binary_handler(f"bitwise_{_op_type.lower()}"))
for _op_type in (
    "Neg", "Abs", "Sign", "Reciprocal", "Sqrt", "Floor", "Ceil", "Round",
):  # fmt: skip
    handler(_op_type)(unary_handler(_op_type.lower()))
handler("BitwiseNot")(unary_handler("bitwise_not"))


@handler("Min")
@handler("Max")
@handler("Sum")
@handler("Mean")
def variadic(node: NodeContext) -> Results:
    operands = node.all_inputs()
    if not operands:
        raise node.malformed(f"{node.op_type} takes at least one input")
    return node.call(node.op_type.lower(), *operands)


@handler("Mod")
def mod(node: NodeContext) -> Results:
    return node.call("fmod" if node.attribute("fmod", 0) else "mod", *aligned_inputs(node))


@handler("BitShift")
def bit_shift(node: NodeContext) -> Results:
    direction = node.required("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise node.malformed(f"direction {direction!r} is neither 'LEFT' nor 'RIGHT'")
    return node.call(f"shift_{direction.lower()}", *aligned_inputs(node))


@handler("Clip")
def clip_attributes(node: NodeContext) -> Results:
    x = node.input(0)
    bounds = [node.attribute("min"), node.attribute("max")]
    low, high = (None if b is None else node.constant(np.array(b), x.dtype) for b in bounds)
    return node.call("clip", x, low, high)


@handler("Clip", since=11)
def clip(node: NodeContext) -> Results:
    return node.call("clip", *node.inputs(3))
