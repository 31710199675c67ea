"""Handlers of reductions and running sums."""

from __future__ import annotations

from weft.frontend.onnx.context import Handler, NodeContext, Results, handler

REDUCTIONS = {
    "ReduceSum": "reduce_sum",
    "ReduceMean": "reduce_mean",
    "ReduceProd": "reduce_prod",
    "ReduceMin": "reduce_min",
    "ReduceMax": "reduce_max",
    "ReduceL1": "reduce_l1",
    "ReduceL2": "reduce_l2",
    "ReduceLogSum": "reduce_log_sum",
    "ReduceLogSumExp": "reduce_log_sum_exp",
    "ReduceSumSquare": "reduce_sum_square",
}


def _axes(node: NodeContext) -> tuple[int, ...] | None:
    """The axes, None for all: an attribute in older opsets, an optional input in newer ones."""
    given = node.attribute("axes")
    if given is None:
        tensor = node.optional(1)
        given = () if tensor is None else node.static(tensor).reshape(-1).tolist()
    if not given and not node.attribute("noop_with_empty_axes", 0):
        return None
    return tuple(given)


def _reduction(op: str) -> Handler:
    def function(node: NodeContext) -> Results:
        keepdims = bool(node.attribute("keepdims", 1))
        return node.call(op, node.input(0), axes=_axes(node), keepdims=keepdims)

    return function


for _op_type, _op in REDUCTIONS.items():
    handler(_op_type)(_reduction(_op))


@handler("ArgMax")
@handler("ArgMin")
def arg(node: NodeContext) -> Results:
    return node.call(
        "arg_max" if node.op_type == "ArgMax" else "arg_min",
        node.input(0),
        axis=node.attribute("axis", 0),
        keepdims=bool(node.attribute("keepdims", 1)),
        select_last_index=bool(node.attribute("select_last_index", 0)),
    )


@handler("CumSum")
@handler("CumProd")
def cumulative(node: NodeContext) -> Results:
    axis = node.static(node.input(1))
    if axis.size != 1:
        raise node.malformed(f"axis must be one number, its shape is {axis.shape}")
    return node.call(
        "cum_sum" if node.op_type == "CumSum" else "cum_prod",
        node.input(0),
        axis=int(axis.reshape(())),
        exclusive=bool(node.attribute("exclusive", 0)),
        reverse=bool(node.attribute("reverse", 0)),
    )


@handler("Det")
def det(node: NodeContext) -> Results:
    return node.call("det", node.input(0))


# ---- Handlers of Softmax, LogSoftmax and Hardmax.


def _along(op: str) -> Handler:
    def function(node: NodeContext) -> Results:
        return node.call(op, node.input(0), axes=(int(node.attribute("axis", -1)),))

    return function


def _flattened(op: str) -> Handler:
    """Before opset 13 the input was a matrix: dimensions from ``axis`` on are one line."""

    def function(node: NodeContext) -> Results:
        x = node.input(0)
        rank, axis = len(x.shape), int(node.attribute("axis", 1))
        if not -rank <= axis <= rank:
            raise node.malformed(f"axis {axis} is outside a rank of {rank}")
        first = axis + rank if axis < 0 else axis
        return node.call(op, x, axes=tuple(range(first, rank)))

    return function


_OPERATORS = {"Softmax": "softmax", "LogSoftmax": "log_softmax", "Hardmax": "hardmax"}

for _op_type, _op in _OPERATORS.items():
    handler(_op_type)(_flattened(_op))
    handler(_op_type, since=13)(_along(_op))
