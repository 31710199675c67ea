"""Handlers of quantised operators that onnxruntime has beside the standard's: what its quantiser
writes, domain com.microsoft.

Where onnxruntime does the same in float32, element by element, a handler is the operator between a
DequantizeLinear and a QuantizeLinear; ``operators/qlinear.py`` has those that round otherwise.
Scales and zero points of activations are scalars.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft.frontend.onnx.context import Handler, NodeContext, Results, handler
from weft.frontend.onnx.pool import pooling_attributes
from weft.frontend.onnx.quantization import dequantize_linear, quantize_linear
from weft.frontend.onnx.slice import split_parts
from weft.ir import dtypes
from weft.ir.operator_graph import Value
from weft.ir.tensor_expr import constant_size

MICROSOFT = "com.microsoft"
SMALL = (dtypes.int8, dtypes.uint8)

handler("QuantizeLinear", domain=MICROSOFT)(quantize_linear)
handler("DequantizeLinear", domain=MICROSOFT)(dequantize_linear)


class Quantised(NamedTuple):
    """A tensor of small integers, each of which stands for (x - zero_point) * scale."""

    x: Value
    scale: Value
    zero_point: Value | None


def _operand(node: NodeContext, first: int) -> Quantised:
    """Inputs ``first``, of small integers, and the next two."""
    x = node.input(first)
    if x.dtype not in SMALL:
        raise node.malformed(f"input {first} is {x.dtype}, must be int8 or uint8")
    scale, zero_point = _parameters(node, first + 1, x)
    return Quantised(x, scale, zero_point)


def _parameters(node: NodeContext, first: int, like: Value) -> tuple[Value, Value | None]:
    """A scale and the zero point after it, of the dtype of ``like``; both have one element."""
    scale, zero_point = node.input(first), node.optional(first + 1)
    if scale.dtype != dtypes.float32:
        raise node.malformed(f"the scale, input {first}, is {scale.dtype}, must be float32")
    if zero_point is not None and zero_point.dtype != like.dtype:
        raise node.malformed(
            f"the zero point, input {first + 1}, is {zero_point.dtype}, must be {like.dtype}"
        )
    for index, value in enumerate((scale, zero_point), first):
        if value is not None and not _single(value):
            raise node.malformed(f"input {index} must be one scale or zero point")
    return scale, zero_point


def _single(value: Value) -> bool:
    return all(constant_size(size) == 1 for size in value.shape)


def _floats(node: NodeContext, given: Quantised) -> Results:
    return node.call("dequantize_linear", *given)


def _integers(node: NodeContext, x: Value, first: int, like: Value) -> Results:
    """``x`` by the scale and zero point that inputs ``first`` and the next are."""
    return node.call("quantize_linear", x, *_parameters(node, first, like), dtype=like.dtype)


# ---- Element by element.


def _binary(op: str) -> Handler:
    def function(node: NodeContext) -> Results:
        a, b = _operand(node, 0), _operand(node, 3)
        if a.x.dtype != b.x.dtype:
            raise node.malformed(f"operands are {a.x.dtype} and {b.x.dtype}")
        return node.call(op, *a, *b, *_parameters(node, 6, a.x))

    return function


handler("QLinearAdd", domain=MICROSOFT)(_binary("qlinear_add"))
handler("QLinearMul", domain=MICROSOFT)(_binary("qlinear_mul"))


def _in_floats(node: NodeContext, op: str, **attributes: Any) -> Results:
    given = _operand(node, 0)
    return _integers(node, node.call(op, _floats(node, given), **attributes), 3, given.x)


@handler("QLinearLeakyRelu", domain=MICROSOFT)
def qlinear_leaky_relu(node: NodeContext) -> Results:
    return _in_floats(node, "leaky_relu", alpha=float(node.attribute("alpha", 0.01)))


@handler("QLinearReduceMean", domain=MICROSOFT)
def qlinear_reduce_mean(node: NodeContext) -> Results:
    axes = tuple(int(axis) for axis in node.required("axes"))
    keep = bool(node.required("keepdims"))
    return _in_floats(node, "reduce_mean", axes=axes, keepdims=keep)


@handler("QLinearWhere", domain=MICROSOFT)
def qlinear_where(node: NodeContext) -> Results:
    a, b = _operand(node, 1), _operand(node, 4)
    if a.x.dtype != b.x.dtype:
        raise node.malformed(f"operands are {a.x.dtype} and {b.x.dtype}")
    chosen = node.call("where", node.input(0), _floats(node, a), _floats(node, b))
    return _integers(node, chosen, 7, a.x)


@handler("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(node: NodeContext) -> Results:
    """The scale and zero point of the result come first."""
    count = len(node.all_inputs())
    if count < 5 or count % 3 != 2:
        raise node.malformed(f"{count} inputs are not two and three for each operand")
    operands = [_operand(node, first) for first in range(2, count, 3)]
    parts = [_integers(node, _floats(node, given), 0, operands[0].x) for given in operands]
    return node.call("concat", *parts, axis=int(node.required("axis")))


# ---- Pooling, sigmoid and softmax.


def _unary(node: NodeContext, op: str, **attributes: Any) -> Results:
    given = _operand(node, 0)
    return node.call(op, *given, *_parameters(node, 3, given.x), **attributes)


@handler("QLinearSigmoid", domain=MICROSOFT)
def qlinear_sigmoid(node: NodeContext) -> Results:
    return _unary(node, "qlinear_sigmoid")


@handler("QLinearAveragePool", domain=MICROSOFT)
def qlinear_average_pool(node: NodeContext) -> Results:
    _channels_first(node)
    include = bool(node.attribute("count_include_pad", 0))
    attributes = pooling_attributes(node)
    return _unary(node, "qlinear_average_pool", count_include_pad=include, **attributes)


@handler("QLinearGlobalAveragePool", domain=MICROSOFT)
def qlinear_global_average_pool(node: NodeContext) -> Results:
    _channels_first(node)
    return _unary(node, "qlinear_global_average_pool")


def _channels_first(node: NodeContext) -> None:
    if node.attribute("channels_last", 0):
        raise node.unsupported("channels_last, which onnxruntime's optimiser sets")


@handler("QLinearSoftmax", domain=MICROSOFT)
def qlinear_softmax(node: NodeContext) -> Results:
    """``opset`` is that of the Softmax that it was: before 13, of a matrix."""
    given = _operand(node, 0)
    rank = len(given.x.shape)
    flat = int(node.required("opset")) < 13
    axis = int(node.attribute("axis", -1))
    if not -rank <= axis < rank:
        raise node.malformed(f"axis {axis} is outside a rank of {rank}")
    axes = tuple(range(axis % rank, rank)) if flat else (axis,)
    result = _parameters(node, 3, given.x)
    return node.call("qlinear_softmax", given.x, given.scale, *result, axes=axes)


# ---- Products of matrices.


def _scaled(node: NodeContext, sums: Value, factor: Value, bias: Value | None = None) -> Results:
    """``sums``, int32, times ``factor``, plus ``bias``, in float32."""
    result = node.call("mul", node.call("cast", sums, to=dtypes.float32), factor)
    return result if bias is None else node.call("add", result, bias)


def _scale(node: NodeContext, index: int) -> Results:
    """Input ``index``; a vector with one scale as a scalar: it adds no dimension."""
    scale = node.input(index)
    if scale.dtype != dtypes.float32:
        raise node.malformed(f"the scale, input {index}, is {scale.dtype}, must be float32")
    return node.call("reshape", scale, shape=()) if _single(scale) and scale.shape else scale


def _sums(
    node: NodeContext, a: Value, b: Value, a_zero_point: Value | None, b_zero_point: Value | None
) -> Results:
    for x, zero_point in ((a, a_zero_point), (b, b_zero_point)):
        if x.dtype not in SMALL or (zero_point is not None and zero_point.dtype != x.dtype):
            types = f"{x.dtype}, its zero point {zero_point.dtype if zero_point else None}"
            raise node.malformed(f"an operand is {types}; both must be int8 or uint8")
    return node.call("matmul_integer", a, b, a_zero_point, b_zero_point)


@handler("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(node: NodeContext) -> Results:
    sums = _sums(node, node.input(0), node.input(1), node.optional(4), node.optional(5))
    factor = node.call("mul", _scale(node, 2), _scale(node, 3))
    return _scaled(node, sums, factor, node.optional(6))


@handler("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(node: NodeContext) -> Results:
    a, scale, zero_point = node.call("dynamic_quantize_linear", node.input(0))
    sums = _sums(node, a, node.input(1), zero_point, node.optional(3))
    return _scaled(node, sums, node.call("mul", scale, _scale(node, 2)), node.optional(4))


@handler("QGemm", domain=MICROSOFT)
def qgemm(node: NodeContext) -> Results:
    """(A - a0) (B - b0) + C in int32, times alpha and the scales; quantised if y has a scale."""
    a, zero_point = node.input(0), node.optional(8)
    left, right = _turned(node, a, "transA"), _turned(node, node.input(3), "transB")
    sums = _sums(node, left, right, node.input(2), node.input(5))
    if node.optional(6) is not None:
        sums = node.call("add", sums, node.input(6))
    alpha = node.constant(np.array(node.attribute("alpha", 1.0), np.float32))
    factor = node.call("mul", node.call("mul", alpha, _scale(node, 1)), _scale(node, 4))
    if (node.optional(7) is None) != (zero_point is None):
        raise node.malformed("the scale and the zero point of y come together")
    if zero_point is None:
        return _scaled(node, sums, factor)
    value = _scaled(node, sums, node.call("div", factor, _scale(node, 7)))
    one = node.constant(np.array(1, np.float32))
    return node.call("quantize_linear", value, one, zero_point, dtype=zero_point.dtype)


def _turned(node: NodeContext, x: Value, attribute: str) -> Results:
    if len(x.shape) != 2:
        raise node.malformed(f"an operand has rank {len(x.shape)}, must have 2")
    return node.call("transpose", x, perm=(1, 0)) if node.attribute(attribute, 0) else x


@handler("QAttention", domain=MICROSOFT)
def qattention(node: NodeContext) -> Results:
    """Self-attention whose queries, keys and values are one product of quantised matrices."""
    x, weight, mask = node.input(0), node.input(1), node.optional(5)
    if node.optional(8) is not None or node.wants(1):
        raise node.unsupported("past and present keys and values")
    if node.attribute("do_rotary", 0):
        raise node.unsupported("rotary embedding of queries and keys")
    heads = int(node.required("num_heads"))
    width = constant_size(weight.shape[-1]) if weight.shape else None
    if len(x.shape) != 3 or len(weight.shape) != 2 or width is None:
        raise node.malformed(f"shapes {x.shape} and {weight.shape} of input and weights")
    if heads < 1 or width % (3 * heads):
        raise node.malformed(f"{width} columns are not three for each feature of {heads} heads")
    sums = _sums(node, x, weight, node.optional(6), node.optional(7))
    factor = node.call("mul", _scale(node, 3), _scale(node, 4))
    projected = _scaled(node, sums, factor, node.input(2))
    parts = split_parts(node, projected, 2, [width // 3] * 3)
    scale = node.attribute("scale")
    return node.call(
        "attention",
        *parts,
        None if mask is None else _left_out(node, mask),
        q_heads=heads,
        kv_heads=heads,
        scale=None if not scale else float(scale),
        causal=bool(node.attribute("unidirectional", 0)),
    )


def _left_out(node: NodeContext, mask: Value) -> Results:
    """What a mask (batch, keys) of 0 and 1 adds to scores (batch, head, query, key)."""
    if len(mask.shape) != 2:
        raise node.unsupported(f"a mask of {len(mask.shape)} dimensions, not (batch, keys)")
    if constant_size(mask.shape[1]) == 1:
        return None  # by agreement: all keys
    away = node.constant(np.array(node.attribute("mask_filter_value", -10000.0), np.float32))
    zeros = node.constant(np.zeros((), np.float32))
    keep = node.call("greater", mask, node.constant(np.zeros((), np.int32)))
    added = node.call("where", keep, zeros, away)
    return node.call("reshape", added, shape=(mask.shape[0], 1, 1, mask.shape[1]))
