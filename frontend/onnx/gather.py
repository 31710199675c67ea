"""Handlers of reads at indices that are data."""

from __future__ import annotations

from weft.frontend.onnx.context import NodeContext, Results, handler


@handler("Gather")
def gather(node: NodeContext) -> Results:
    return node.call("gather", node.input(0), node.input(1), axis=node.attribute("axis", 0))


@handler("GatherElements")
def gather_elements(node: NodeContext) -> Results:
    axis = node.attribute("axis", 0)
    return node.call("gather_elements", node.input(0), node.input(1), axis=axis)


@handler("GatherND")
def gather_nd(node: NodeContext) -> Results:
    batch_dims = node.attribute("batch_dims", 0)
    return node.call("gather_nd", node.input(0), node.input(1), batch_dims=batch_dims)


@handler("OneHot")
def one_hot(node: NodeContext) -> Results:
    depth = node.static(node.input(1))
    if depth.size != 1:
        raise node.malformed("depth is a scalar")
    return node.call(
        "one_hot",
        node.input(0),
        node.input(2),
        depth=int(depth.reshape(-1)[0]),
        axis=node.attribute("axis", -1),
    )


# ---- Handlers of writes at indices that are data.


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
