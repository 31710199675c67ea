"""Handlers of operators whose output sizes depend on data.

Each calls a definition that counts, asks for the count (import starts again once it is known) and
slices the result to it.
"""

from __future__ import annotations

from weft.frontend.onnx.context import NodeContext, Results, handler
from weft.frontend.onnx.shape import axis_of, static_int
from weft.frontend.onnx.slice import part_of
from weft.ir.operator_graph import Value


def counted(node: NodeContext, found: Value, count: Value, axis: int = 0) -> Value:
    """The first ``count`` elements of ``found`` along ``axis``."""
    sizes = list(found.shape)
    sizes[axis] = static_int(node, count)
    return part_of(node, found, [0] * len(sizes), [1] * len(sizes), sizes)


@handler("NonZero", since=9)
def nonzero(node: NodeContext) -> Results:
    coordinates, count = node.call("nonzero", node.input(0))
    return counted(node, coordinates, count, axis=1)


@handler("Compress", since=9)
def compress(node: NodeContext) -> Results:
    x, condition = node.input(0), node.input(1)
    axis = node.attribute("axis")
    if axis is None:
        x, axis = node.call("reshape", x, shape=(_elements(x),)), 0
    axis = axis_of(node, axis, len(x.shape))
    coordinates, count = node.call("nonzero", condition)
    chosen = counted(node, coordinates, count, axis=1)
    indices = node.call("reshape", chosen, shape=chosen.shape[1:])
    return node.call("gather", x, indices, axis=axis)


def _elements(x: Value) -> int:
    product: int = 1
    for size in x.shape:
        product = product * size  # type: ignore[assignment]
    return product


@handler("Unique", since=11)
def unique(node: NodeContext) -> Results:
    x = node.input(0)
    axis = node.attribute("axis")
    if axis is not None:
        axis = axis_of(node, axis, len(x.shape))
    ordered = bool(node.attribute("sorted", 1))
    first, inverse, counts, count = node.call("unique", x, axis=axis, sorted_=ordered)
    indices = counted(node, first, count)
    if axis is None:
        x = node.call("reshape", x, shape=(_elements(x),))
    values = node.call("gather", x, indices, axis=axis or 0)
    return values, indices, inverse, counted(node, counts, count)


@handler("NonMaxSuppression", since=10)
def non_max_suppression(node: NodeContext) -> Results:
    rows, count = node.call(
        "non_max_suppression",
        *node.inputs(5),
        center_point_box=bool(node.attribute("center_point_box", 0)),
    )
    return counted(node, rows, count)


# ---- Handlers of sorting and selecting.


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
