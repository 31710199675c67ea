"""Handlers of mathematical functions, activations, logic and comparison."""

from __future__ import annotations

import numpy as np

from weft.frontend.onnx.context import Handler, NodeContext, Results, handler
from weft.ir import dtypes
from weft.ir.operator_graph import Value

# ---- Handlers of arithmetic operators.


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


for _op_type in (
    "Exp", "Log", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh", "Asinh",
    "Acosh", "Atanh", "Relu", "Sigmoid", "Softplus", "Softsign", "Mish", "Not",
):  # fmt: skip
    handler(_op_type)(unary_handler(_op_type.lower()))

for _op_type in ("And", "Or", "Xor", "Equal", "Greater", "Less"):
    handler(_op_type)(binary_handler(_op_type.lower()))
handler("GreaterOrEqual")(binary_handler("greater_or_equal"))
handler("LessOrEqual")(binary_handler("less_or_equal"))


@handler("Erf")
def erf(node: NodeContext) -> Results:
    """Of whole numbers, too, as opsets before 13 have it: cut to whole numbers."""
    x = node.input(0)
    if x.dtype.is_float:
        return node.call("erf", x)
    return node.call("cast", node.call("erf", node.call("cast", x, to=dtypes.float32)), to=x.dtype)


handler("Gelu")(unary_handler("gelu", approximate="none"))
handler("Swish")(unary_handler("swish", alpha=1.0))
handler("Elu")(unary_handler("elu", alpha=1.0))
handler("Celu")(unary_handler("celu", alpha=1.0))
handler("Selu", since=6)(
    unary_handler("selu", alpha=1.67326319217681884765625, gamma=1.05070102214813232421875)
)
handler("HardSigmoid")(unary_handler("hard_sigmoid", alpha=0.2, beta=0.5))
handler("HardSwish")(unary_handler("hard_swish"))
handler("LeakyRelu")(unary_handler("leaky_relu", alpha=0.01))
handler("ThresholdedRelu")(unary_handler("thresholded_relu", alpha=1.0))
handler("Shrink")(unary_handler("shrink", bias=0.0, lambd=0.5))
handler("IsNaN")(unary_handler("is_nan"))


@handler("Selu")
def old_selu(node: NodeContext) -> Results:
    return node.call(
        "selu",
        node.input(0),
        alpha=node.attribute("alpha", 1.6732),
        gamma=node.attribute("gamma", 1.0507),
    )


@handler("PRelu")
def channelwise_prelu(node: NodeContext) -> Results:
    """Before opset 7 a slope of one dimension belongs to the channels, dimension 1."""
    x, slope = node.input(0), node.input(1)
    if len(slope.shape) == 1 and slope.shape[0] != 1 and len(x.shape) > 2:
        slope = node.call("trailing_ones", slope, count=len(x.shape) - 2)
    return node.call("prelu", x, slope)


@handler("PRelu", since=7)
def prelu(node: NodeContext) -> Results:
    return node.call("prelu", node.input(0), node.input(1))


@handler("Where")
def where(node: NodeContext) -> Results:
    return node.call("where", node.input(0), node.input(1), node.input(2))


@handler("IsInf")
def is_inf(node: NodeContext) -> Results:
    return node.call(
        "is_inf",
        node.input(0),
        negative=bool(node.attribute("detect_negative", 1)),
        positive=bool(node.attribute("detect_positive", 1)),
    )
