"""Handlers of pooling."""

from __future__ import annotations

from typing import Any

from weft.frontend.onnx.context import NodeContext, Results, handler
from weft.frontend.onnx.window import integers, kernel_shape, spatial, window_attributes


def pooling_attributes(node: NodeContext) -> dict[str, Any]:
    kernel = kernel_shape(node)
    window = window_attributes(node, kernel, spatial(node, node.input(0).shape))
    return {"kernel": kernel, "ceil_mode": bool(node.attribute("ceil_mode", 0)), **window}


@handler("MaxPool")
def max_pool(node: NodeContext) -> Results:
    if not node.wants(1):
        return node.call("max_pool", node.input(0), **pooling_attributes(node))
    column_major = bool(node.attribute("storage_order", 0))
    return node.call(
        "max_pool_with_indices",
        node.input(0),
        **pooling_attributes(node),
        column_major=column_major,
    )


@handler("AveragePool")
def average_pool(node: NodeContext) -> Results:
    include = bool(node.attribute("count_include_pad", 0))
    return node.call(
        "average_pool", node.input(0), **pooling_attributes(node), count_include_pad=include
    )


@handler("LpPool")
def lp_pool(node: NodeContext) -> Results:
    return node.call("lp_pool", node.input(0), p=_order(node), **pooling_attributes(node))


@handler("GlobalAveragePool")
def global_average_pool(node: NodeContext) -> Results:
    return node.call("global_average_pool", node.input(0))


@handler("GlobalMaxPool")
def global_max_pool(node: NodeContext) -> Results:
    return node.call("global_max_pool", node.input(0))


@handler("GlobalLpPool")
def global_lp_pool(node: NodeContext) -> Results:
    return node.call("global_lp_pool", node.input(0), p=_order(node))


def _order(node: NodeContext) -> int:
    """``p``, which was a float before opset 2."""
    p = node.attribute("p", 2)
    if p < 1 or int(p) != p:
        raise node.malformed(f"p must be an integer of at least 1, got {p}")
    return int(p)


@handler("MaxUnpool")
def max_unpool(node: NodeContext) -> Results:
    """Indices count in the shape that the attributes imply; ``output_shape`` only adds zeros."""
    x, indices = node.input(0), node.input(1)
    kernel, sizes = kernel_shape(node), spatial(node, x.shape)
    rank = len(sizes)
    if len(kernel) != rank:
        raise node.malformed(f"kernel_shape has {len(kernel)} values for {rank} dimensions")
    strides = integers(node, "strides", rank, default=1, least=1)
    pads = integers(node, "pads", 2 * rank, default=0, least=0)
    implied = [
        (size - 1) * strides[d] + (kernel[d] - pads[d] - pads[rank + d])
        for d, size in enumerate(sizes)
    ]
    result = node.call("max_unpool", x, indices, sizes=implied)
    given = node.optional(2)
    if given is None:
        return result
    wanted = [int(size) for size in node.static(given)]
    after = [w - i for w, i in zip(wanted[2:], implied, strict=True)]
    if any(isinstance(a, int) and a < 0 for a in after) or len(wanted) != rank + 2:
        raise node.malformed(f"output_shape {wanted} is smaller than what is unpooled")
    return node.call("pad", result, None, before=(0,) * (rank + 2), after=(0, 0, *after))
