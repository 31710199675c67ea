"""Handlers of tensors that follow from numbers alone."""

from __future__ import annotations

from typing import Any

from weft.frontend.operators.shape import arange as arange_definition
from weft.frontend.torch.context import NodeContext, Results, handler
from weft.ir import dtypes
from weft.ir.operator_graph import Value
from weft.ir.scalar_expr import Expr, cast


def filled(node: NodeContext, value: Expr | float) -> Value:
    """The result, each element ``value``."""
    if isinstance(value, Expr):
        return node.call("expand", node.cast(value, node.dtype), shape=node.shape)  # type: ignore[no-any-return]
    return node.call("fill", shape=node.shape, value=value, dtype=node.dtype)  # type: ignore[no-any-return]


@handler("aten.full.default", "aten.full_like.default", "aten.fill.Scalar", "prims.fill.default")
def full(node: NodeContext, _: Any, value: float, *__: Any, **___: Any) -> Results:
    return filled(node, value)


@handler("aten.new_full.default")
def new_full(node: NodeContext, _: Value, size: Any, value: float, *__: Any, **___: Any) -> Results:
    return filled(node, value)


@handler("aten.fill.Tensor")
def fill_tensor(node: NodeContext, _: Value, value: Value) -> Results:
    return node.call("expand", node.cast(value, node.dtype), shape=node.shape)


@handler("aten.scalar_tensor.default", "prims.scalar_tensor.default")
def scalar_tensor(node: NodeContext, value: float, **_: Any) -> Results:
    return filled(node, value)


@handler("aten.ones", "aten.ones_like", "aten.new_ones")
def ones(node: NodeContext, *_: Any, **__: Any) -> Results:
    return filled(node, 1)


@handler(
    "aten.zeros", "aten.zeros_like", "aten.new_zeros", "aten.empty", "aten.empty_like",
    "aten.new_empty", "aten.empty_strided", "aten.new_empty_strided", "aten.empty_permuted",
    "prims.empty_strided", "prims.empty_permuted",
)  # fmt: skip
def zeros(node: NodeContext, *_: Any, **__: Any) -> Results:
    """What PyTorch leaves undefined is 0."""
    return filled(node, 0)


@handler("aten.arange.start_step", "aten.arange.start", "aten.arange.default")
def arange(
    node: NodeContext, start: float, end: float | None = None, step: float = 1, **_: Any
) -> Results:
    """``start + i * step``, of floats in the type that PyTorch accumulates in, float64."""
    first = 0 if end is None else start
    inner = dtypes.float64 if node.dtype.is_float else dtypes.int64
    if inner == dtypes.int64 and any(isinstance(x, float) for x in (first, step)):
        raise node.unsupported("integers from a range of floats")
    return _line(node, first, step, inner)


@handler("prims.iota.default")
def iota(node: NodeContext, _: int, *, start: int, step: int, **__: Any) -> Results:
    return _line(node, start, step, dtypes.int64)


def _line(node: NodeContext, start: float, step: float, inner: dtypes.DType) -> Value:
    (count,) = node.shape
    start, step = (cast(n, inner) if isinstance(n, Expr) else n for n in (start, step))
    return node.call(  # type: ignore[no-any-return]
        arange_definition, start=start, step=step, count=count, dtype=node.dtype, compute_in=inner
    )


@handler("aten.eye")
def eye(node: NodeContext, *_: Any, **__: Any) -> Results:
    rows, columns = node.shape
    return node.call("eye", rows=rows, columns=columns, k=0, dtype=node.dtype)
