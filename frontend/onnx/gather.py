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
