"""Handlers of operators whose output sizes depend on data.

Each calls a definition that gives results of the greatest possible size and a count, and returns as
much of them as counts: a slice where the count is known, else whole results, which whoever runs
them slices (``weft/host/staging.py``).
"""

from __future__ import annotations

from weft.frontend.onnx.context import NodeContext, Results, handler
from weft.frontend.onnx.shape import axis_of, static_int
from weft.frontend.onnx.slice import part_of
from weft.ir.operator_graph import Value


def counted(node: NodeContext, found: Value, count: Value, axis: int = 0) -> Value:
    """The first ``count`` elements of ``found`` along ``axis``."""
    number = node.count(found, count, axis)
    if number is None:
        return found
    sizes = list(found.shape)
    sizes[axis] = number
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
    indices = node.call("reshape", coordinates, shape=coordinates.shape[1:])
    return counted(node, node.call("gather", x, indices, axis=axis), count, axis)


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
    if axis is None:
        x = node.call("reshape", x, shape=(_elements(x),))
    values = counted(node, node.call("gather", x, first, axis=axis or 0), count, axis or 0)
    return values, counted(node, first, count), inverse, counted(node, counts, count)


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
