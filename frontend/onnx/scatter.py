"""Handlers of writes at indices that are data."""

from __future__ import annotations

from weft.frontend.onnx.context import NodeContext, Results, handler


@handler("Scatter", since=9)
@handler("ScatterElements", since=11)
def scatter_elements(node: NodeContext) -> Results:
    return node.call(
        "scatter_elements",
        *(node.input(index) for index in range(3)),
        axis=node.attribute("axis", 0),
        reduction=node.attribute("reduction", "none"),
    )


@handler("ScatterND", since=11)
def scatter_nd(node: NodeContext) -> Results:
    reduction = node.attribute("reduction", "none")
    return node.call("scatter_nd", *(node.input(index) for index in range(3)), reduction=reduction)


@handler("TensorScatter", since=24)
def tensor_scatter(node: NodeContext) -> Results:
    return node.call(
        "tensor_scatter",
        node.input(0),
        node.input(1),
        node.optional(2),
        axis=node.attribute("axis", -2),
        mode=node.attribute("mode", "linear"),
    )
