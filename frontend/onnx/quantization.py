"""Handlers of quantisation and of operators on quantised tensors."""

from __future__ import annotations

import onnx

from weft.frontend.onnx.context import NodeContext, Results, handler
from weft.frontend.onnx.contractions import group
from weft.frontend.onnx.tensors import dtype_of
from weft.frontend.onnx.window import spatial, weights_kernel, window_attributes
from weft.ir import dtypes
from weft.ir.dtypes import DType


@handler("QuantizeLinear")
def quantize_linear(node: NodeContext) -> Results:
    x, scale, zero_point = node.input(0), node.input(1), node.optional(2)
    wanted = _dtype(node, "output_dtype")
    if zero_point is not None:
        if wanted is not None and wanted != zero_point.dtype:
            raise node.malformed(f"output_dtype is {wanted}, the zero point {zero_point.dtype}")
        wanted = zero_point.dtype
    return node.call(
        "quantize_linear",
        x,
        scale,
        zero_point,
        dtype=wanted or dtypes.uint8,
        axis=_axis(node, len(x.shape)),
        block_size=int(node.attribute("block_size", 0)),
        saturate=bool(node.attribute("saturate", 1)),
        precision=_dtype(node, "precision"),
    )


@handler("DequantizeLinear")
def dequantize_linear(node: NodeContext) -> Results:
    x, scale, zero_point = node.input(0), node.input(1), node.optional(2)
    if zero_point is not None and zero_point.dtype != x.dtype:
        raise node.malformed(f"x is {x.dtype}, its zero point {zero_point.dtype}")
    return node.call(
        "dequantize_linear",
        x,
        scale,
        zero_point,
        dtype=_dtype(node, "output_dtype") or scale.dtype,
        axis=_axis(node, len(x.shape)),
        block_size=int(node.attribute("block_size", 0)),
    )


@handler("DynamicQuantizeLinear")
def dynamic_quantize_linear(node: NodeContext) -> Results:
    return node.call("dynamic_quantize_linear", node.input(0))


def _dtype(node: NodeContext, name: str) -> DType | None:
    code = int(node.attribute(name, 0))
    return dtype_of(code, node.name) if code else None


def _axis(node: NodeContext, rank: int) -> int:
    """The axis; its default, 1, may lie outside a vector, where all scales are scalar."""
    axis = node.attribute("axis")
    return int(axis) if axis is not None else min(1, max(rank - 1, 0))


@handler("ConvInteger")
def conv_integer(node: NodeContext) -> Results:
    x, w = node.input(0), node.input(1)
    window = window_attributes(node, weights_kernel(node, w.shape), spatial(node, x.shape))
    zero_points = node.optional(2), node.optional(3)
    return node.call("conv_integer", x, w, *zero_points, **window, group=group(node))


@handler("QLinearConv")
def qlinear_conv(node: NodeContext) -> Results:
    x, w = node.input(0), node.input(3)
    window = window_attributes(node, weights_kernel(node, w.shape), spatial(node, x.shape))
    given = [node.input(i) for i in range(8)]
    return node.call("qlinear_conv", *given, node.optional(8), **window, group=group(node))


@handler("MatMulInteger")
def matmul_integer(node: NodeContext) -> Results:
    return node.call("matmul_integer", node.input(0), node.input(1), *node.inputs(4)[2:])


@handler("QLinearMatMul")
def qlinear_matmul(node: NodeContext) -> Results:
    return node.call("qlinear_matmul", *(node.input(i) for i in range(8)))


# ---- Handlers of conversions.


def dtype_attribute(node: NodeContext, name: str, default: DType | None = None) -> DType:
    """The dtype that attribute ``name`` gives, as a number or (opset 1) as a name.

    Without ``default`` the attribute is required.
    """
    given = node.attribute(name) if default is not None else node.required(name)
    if given is None and default is not None:
        return default
    if isinstance(given, str):
        names = onnx.TensorProto.DataType.keys()
        if given.upper() not in names:
            raise node.malformed(f"{name} = {given!r} names no element type")
        given = onnx.TensorProto.DataType.Value(given.upper())
    return dtype_of(given, node.name)


def _converted(node: NodeContext, to: DType) -> Results:
    x = node.input(0)
    if x.dtype == to:
        return x
    return node.call(
        "cast",
        x,
        to=to,
        saturate=bool(node.attribute("saturate", 1)),
        round_mode=node.attribute("round_mode", "up"),
    )


@handler("Cast")
def cast(node: NodeContext) -> Results:
    return _converted(node, dtype_attribute(node, "to"))


@handler("CastLike")
def cast_like(node: NodeContext) -> Results:
    return _converted(node, node.input(1).dtype)


@handler("BitCast")
def bit_cast(node: NodeContext) -> Results:
    return node.call("bit_cast", node.input(0), to=dtype_attribute(node, "to"))
