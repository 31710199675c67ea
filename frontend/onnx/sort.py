"""Handlers of sorting and selecting."""

from __future__ import annotations

from weft.frontend.onnx.context import NodeContext, Results, handler
from weft.frontend.onnx.shape import static_int


@handler("TopK")
def top_k(node: NodeContext) -> Results:
    k = node.attribute("k") if node.opset < 10 else static_int(node, node.input(1))
    if k is None:
        raise node.malformed("no k is given")
    return node.call(
        "top_k",
        node.input(0),
        k=k,
        axis=node.attribute("axis", -1),
        largest=bool(node.attribute("largest", 1)),
    )
