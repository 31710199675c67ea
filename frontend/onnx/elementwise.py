"""Handlers of mathematical functions, activations, logic and comparison."""

from __future__ import annotations

from weft import dtypes
from weft.frontend.onnx.arithmetic import binary_handler, unary_handler
from weft.frontend.onnx.context import NodeContext, Results, handler

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
