"""Handlers of conversions."""

from __future__ import annotations

import onnx

from weft.dtypes import DType
from weft.frontend.onnx.context import NodeContext, Results, handler
from weft.frontend.onnx.tensors import dtype_of


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
