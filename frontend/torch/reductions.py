"""Handlers of what is folded over dimensions: sums, extrema, statistics, softmax, running sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.frontend.operators.arguments import total
from weft.frontend.operators.reduce import fold_axes
from weft.frontend.operators.sizes import total_size
from weft.frontend.torch.context import NodeContext, Results, dimensions, handler
from weft.frontend.torch.pointwise import pointwise
from weft.ir import build, dtypes
from weft.ir.build import maximum
from weft.ir.operator_graph import Value
from weft.ir.scalar_expr import Expr, apply, cast, literal
from weft.ir.tensor_expr import Axis, Size, Tensor, as_size, constant_size

Axes = Sequence[int] | int | None
Fold = Callable[[Expr, Sequence[Axis]], Expr]


def reduced(node: NodeContext, op: str, x: Value, axes: Axes, keepdim: bool) -> Value:
    """``op`` over ``axes`` of ``x`` in the dtype of the result."""
    over = dimensions(axes, len(x.shape))
    return node.call(op, node.cast(x, node.dtype), axes=over, keepdims=keepdim)  # type: ignore[no-any-return]


def _reduction(target: str, op: str) -> None:
    @handler(target)
    def import_(
        node: NodeContext, x: Value, dim: Axes = None, keepdim: bool = False, **_: Any
    ) -> Results:
        return reduced(node, op, x, dim, keepdim)


for _target, _op in {
    "aten.sum": "reduce_sum",
    "aten.mean": "reduce_mean",
    "aten.prod": "reduce_prod",
    "aten.amax": "reduce_max",
    "aten.amin": "reduce_min",
    "aten.max.default": "reduce_max",
    "aten.min.default": "reduce_min",
    "prims.sum": "reduce_sum",
    "prims.prod": "reduce_prod",
    "prims.amax": "reduce_max",
    "prims.amin": "reduce_min",
}.items():
    _reduction(_target, _op)


def _quantifier(name: str, fold: Fold) -> None:
    @handler(f"aten.{name}")
    def import_(node: NodeContext, x: Value, dim: Axes = None, keepdim: bool = False) -> Results:
        over = dimensions(dim, len(x.shape))

        def definition(t: Tensor) -> Tensor:
            def body(element: Callable[..., Expr], folded: Sequence[Axis], _: object) -> Expr:
                found = cast(element(t), dtypes.bool_)
                return cast(fold(found, folded) if folded else found, node.dtype)

            return fold_axes(name, t, over, keepdim, body)

        return node.call(definition, x)


_quantifier("any", build.any_over)
_quantifier("all", build.all_over)


# ---- where the extremes are ---------------------------------------------------------------------


def position(node: NodeContext, op: str, x: Value, dim: int | None, keepdim: bool) -> Value:
    """Where the greatest or least element lies along ``dim``, or in all of ``x``."""
    if x.dtype == dtypes.bool_:
        x = node.cast(x, dtypes.uint8)
    if dim is None or not x.shape:
        flat = node.call("reshape", x, shape=(total(node.sizes(x)),))
        found = node.call(op, flat, axis=0, keepdims=False)
        kept = (1,) * len(x.shape) if keepdim else ()
        return node.call("reshape", found, shape=kept)  # type: ignore[no-any-return]
    return node.call(op, x, axis=dim, keepdims=keepdim)  # type: ignore[no-any-return]


def _extreme(name: str, fold: str) -> None:
    @handler(f"aten.arg{name}.default")
    def arg(node: NodeContext, x: Value, dim: int | None = None, keepdim: bool = False) -> Results:
        return position(node, f"arg_{name}", x, dim, keepdim)

    @handler(f"aten.{name}.dim")
    def with_index(node: NodeContext, x: Value, dim: int, keepdim: bool = False) -> Results:
        values = reduced(node, fold, x, dim, keepdim)
        return values, position(node, f"arg_{name}", x, dim, keepdim)


_extreme("max", "reduce_max")
_extreme("min", "reduce_min")


# ---- variance -----------------------------------------------------------------------------------


def moments(
    node: NodeContext, x: Value, dim: Axes, correction: float | None, keepdim: bool, root: bool
) -> tuple[Value, Value]:
    """The variance of ``x`` over ``dim``, or its ``root``, and the mean: in two passes, which does
    not cancel."""
    if not x.dtype.is_float:
        raise node.unsupported(f"the variance of {x.dtype}")
    over = dimensions(dim, len(x.shape))
    count: Size = total([node.sizes(x)[axis] for axis in over])
    degrees = _degrees(count, 1 if correction is None else correction)
    mean = node.call(_mean, x, axes=over)

    def definition(t: Tensor, average: Tensor) -> Tensor:
        wide = average.dtype

        def body(element: Callable[..., Expr], folded: Sequence[Axis], outer: Any) -> Expr:
            difference = cast(element(t), wide) - mean_at(average, outer)
            square = difference * difference
            squares = build.sum(square, folded) if folded else square
            found = squares / cast(degrees, wide)
            return cast(apply("sqrt", found) if root else found, t.dtype)

        def mean_at(source: Tensor, outer: tuple[Expr, ...]) -> Expr:
            rest = iter(outer)
            at = []
            for d in range(t.rank):
                if d in over:
                    at.append(literal(0))
                    if keepdim:
                        next(rest)
                else:
                    at.append(next(rest))  # type: ignore[arg-type]
            return source[tuple(at)]

        return fold_axes("variance", t, over, keepdim, body)

    variance = node.call(definition, x, mean)
    kept = node.cast(mean, x.dtype)
    return variance, node.call("reshape", kept, shape=node.sizes(variance))


def _degrees(count: Size, correction: float) -> Expr:
    """``count`` less ``correction``, at least 0: what squares are divided by."""
    known = constant_size(count)
    if known is not None:
        return literal(max(known - correction, 0), dtypes.float64)
    left = cast(as_size(count), dtypes.float64) - literal(correction, dtypes.float64)
    return maximum(left, 0)


def _mean(x: Tensor, *, axes: Sequence[int]) -> Tensor:
    """In the type that the dtype is computed in, dimensions kept."""
    wide = x.dtype.compute
    count = cast(total_size([x.shape[axis] for axis in axes]), wide)

    def body(element: Callable[..., Expr], folded: Sequence[Axis], _: object) -> Expr:
        value = cast(element(x), wide)
        return (build.sum(value, folded) if folded else value) / count

    return fold_axes("mean", x, axes, True, body)


@handler("aten.var.correction", "aten.std.correction")
def variance(
    node: NodeContext,
    x: Value,
    dim: Axes = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Results:
    return moments(node, x, dim, correction, keepdim, ".std." in node.target)[0]


@handler("aten.var_mean.correction", "aten.std_mean.correction")
def variance_and_mean(
    node: NodeContext,
    x: Value,
    dim: Axes = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Results:
    return moments(node, x, dim, correction, keepdim, "std_mean" in node.target)


@handler("prims.var.default")
def prims_var(
    node: NodeContext, x: Value, dims: Axes, correction: float | None = 1, **_: Any
) -> Results:
    return moments(node, x, dims, correction, False, False)[0]


# ---- softmax, running sums ----------------------------------------------------------------------


def _softmax(op: str) -> None:
    @handler(f"aten._{op}.default")
    def import_(node: NodeContext, x: Value, dim: int, half_to_float: bool) -> Results:
        wide = node.cast(x, node.dtype.compute)
        if not x.shape:
            only = 1.0 if op == "softmax" else 0.0
            return pointwise(node, lambda v: v - v + only, x)
        return node.cast(node.call(op, wide, axes=(dim,)), node.dtype)


_softmax("softmax")
_softmax("log_softmax")


def _running(op: str) -> None:
    @handler(f"aten.{op.replace('_', '')}.default")
    def import_(node: NodeContext, x: Value, dim: int, **_: Any) -> Results:
        whole = node.cast(x, node.dtype)
        if not x.shape:
            return whole if whole is not x else node.call("identity", x)
        return node.call(op, whole, axis=dim)


_running("cum_sum")
_running("cum_prod")


@handler("aten.linalg_vector_norm.default")
def vector_norm(
    node: NodeContext,
    x: Value,
    ord: float = 2,
    dim: Axes = None,
    keepdim: bool = False,
    **_: Any,
) -> Results:
    over = dimensions(dim, len(x.shape))
    wide = node.dtype.compute

    def definition(t: Tensor) -> Tensor:
        def body(element: Callable[..., Expr], folded: Sequence[Axis], _: object) -> Expr:
            return cast(norm(abs(cast(cast(element(t), node.dtype), wide)), folded), node.dtype)

        return fold_axes("vector_norm", t, over, keepdim, body)

    def norm(size: Expr, folded: Sequence[Axis]) -> Expr:
        def over_all(fold: Fold, value: Expr) -> Expr:
            return fold(value, folded) if folded else value

        if ord == float("inf"):
            return over_all(build.max_over, size)
        if ord == float("-inf"):
            return over_all(build.min_over, size)
        if ord == 0:
            return over_all(build.sum, cast(size.not_equal(0), wide))
        if ord == 1:
            return over_all(build.sum, size)
        if ord == 2:
            return apply("sqrt", over_all(build.sum, size * size))
        exponent = literal(ord, wide)
        total = over_all(build.sum, apply("pow", size, exponent))
        return apply("pow", total, literal(1 / ord, wide))

    if ord == float("inf"):
        return node.call(lambda t: _non_negative(definition(t)), x)
    return node.call(definition, x)


def _non_negative(x: Tensor) -> Tensor:
    """Over no elements, a greatest size of 0."""
    return build.compute(x.shape, lambda *i: maximum(x[i], 0), name="vector_norm")
