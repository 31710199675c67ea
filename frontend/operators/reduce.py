"""Reductions over axes. Floats narrower than 32 bits are accumulated in float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.frontend.operators.arithmetic import divided
from weft.frontend.operators.registry import operator
from weft.frontend.operators.sizes import normal_axes, normal_axis, total_size
from weft.ir import build, dtypes
from weft.ir.build import compute, exp, log, max_over, min_over, prod, reduce_axis, scan, sqrt
from weft.ir.scalar_expr import Expr, apply, as_expr, select
from weft.ir.tensor_expr import Axis, Size, Tensor, as_size

Scalar = Callable[[Expr], Expr]
Fold = Callable[[Expr, Sequence[Axis]], Expr]


def _over(x: Tensor, axes: Sequence[int] | None, name: str) -> tuple[int, ...]:
    return normal_axes(range(x.rank) if axes is None else axes, x.rank, f"{name} axes")


def reduced_shape(x: Tensor, axes: Sequence[int], keepdims: bool) -> tuple[Size, ...]:
    if keepdims:
        return tuple(1 if d in axes else s for d, s in enumerate(x.shape))
    return tuple(s for d, s in enumerate(x.shape) if d not in axes)


def fold_axes(
    name: str,
    x: Tensor,
    axes: Sequence[int] | None,
    keepdims: bool,
    body: Callable[[Callable[..., Expr], Sequence[Axis], tuple[Expr, ...]], Expr],
) -> Tensor:
    """``body(element, folded, outer)`` for every element of the reduced shape.

    ``element(tensor)`` reads a tensor of the shape of ``x`` at the outer indices and the axes
    ``folded``; ``outer`` are the indices of the result.
    """
    over = _over(x, axes, name)
    folded = {d: reduce_axis((0, x.shape[d]), name=f"r{d}") for d in over}

    def whole(*outer: Expr) -> Expr:
        kept = iter(i for d, i in enumerate(outer) if not (keepdims and d in folded))
        indices = tuple(folded[d] if d in folded else next(kept) for d in range(x.rank))
        return body(lambda t: t[indices], tuple(folded.values()), outer)

    return compute(reduced_shape(x, over, keepdims), whole, name=name)


def _accumulated(value: Expr) -> Expr:
    return value.astype(value.dtype.compute)


def _sqrt_of_any(value: Expr) -> Expr:
    """The square root; integers go through float64 and truncate."""
    return sqrt(value.astype("float64") if value.dtype.is_integer else value)


def _log_of_any(value: Expr) -> Expr:
    return log(value.astype("float64") if value.dtype.is_integer else value)


def _register(name: str, fold: Fold, before: Scalar | None, after: Scalar | None) -> None:
    @operator(name)
    def definition(
        x: Tensor, *, axes: Sequence[int] | None = None, keepdims: bool = True
    ) -> Tensor:
        def body(element: Callable[..., Expr], folded: Sequence[Axis], outer: object) -> Expr:
            value = _accumulated(element(x))
            value = before(value) if before else value
            value = fold(value, folded) if folded else value
            return (after(value) if after else value).astype(x.dtype)

        return fold_axes(name, x, axes, keepdims, body)


_register("reduce_sum", build.sum, None, None)
_register("reduce_prod", prod, None, None)
_register("reduce_min", min_over, None, None)
_register("reduce_max", max_over, None, None)
_register("reduce_l1", build.sum, abs, None)
_register("reduce_l2", build.sum, lambda v: v * v, _sqrt_of_any)
_register("reduce_log_sum", build.sum, None, _log_of_any)
_register("reduce_sum_square", build.sum, lambda v: v * v, None)


@operator("reduce_mean")
def reduce_mean(x: Tensor, *, axes: Sequence[int] | None = None, keepdims: bool = True) -> Tensor:
    """The sum over the count; integers truncate, an empty float mean is NaN."""
    count = total_size([x.shape[d] for d in _over(x, axes, "reduce_mean")])

    def body(element: Callable[..., Expr], folded: Sequence[Axis], outer: object) -> Expr:
        value = _accumulated(element(x))
        total = build.sum(value, folded) if folded else value
        return divided(total, count.astype(total.dtype)).astype(x.dtype)

    return fold_axes("reduce_mean", x, axes, keepdims, body)


@operator("reduce_log_sum_exp")
def reduce_log_sum_exp(
    x: Tensor, *, axes: Sequence[int] | None = None, keepdims: bool = True
) -> Tensor:
    """log Σ exp x, shifted by the greatest element so that nothing overflows."""
    inner = dtypes.float64 if x.dtype.is_integer else x.dtype.compute

    def greatest(element: Callable[..., Expr], folded: Sequence[Axis], outer: object) -> Expr:
        value = element(x).astype(inner)
        top = max_over(value, folded) if folded else value
        return select(apply("isfinite", top), top, 0)  # inf - inf would be NaN

    shift = fold_axes("reduce_log_sum_exp_shift", x, axes, keepdims, greatest)

    def body(element: Callable[..., Expr], folded: Sequence[Axis], outer: tuple[Expr, ...]) -> Expr:
        value = exp(element(x).astype(inner) - shift[outer])
        total = build.sum(value, folded) if folded else value
        return (log(total) + shift[outer]).astype(x.dtype)

    return fold_axes("reduce_log_sum_exp", x, axes, keepdims, body)


def _register_arg(name: str, fold: Callable[..., Expr]) -> None:
    @operator(name)
    def definition(
        x: Tensor, *, axis: int = 0, keepdims: bool = True, select_last_index: bool = False
    ) -> Tensor:
        over = normal_axis(axis, x.rank, f"{name} axis")

        def body(element: Callable[..., Expr], folded: Sequence[Axis], outer: object) -> Expr:
            return fold(element(x), folded[0], folded, last=select_last_index)

        return fold_axes(name, x, (over,), keepdims, body)


_register_arg("arg_max", build.argmax)
_register_arg("arg_min", build.argmin)


# ---- Running sums and products: recurrences along one axis.


def _register_running(name: str, combine: Callable[[Expr, Expr], Expr], unit: int) -> None:
    @operator(name)
    def definition(
        x: Tensor, *, axis: int, exclusive: bool = False, reverse: bool = False
    ) -> Tensor:
        d = normal_axis(axis, x.rank, f"{name} axis")
        inner = x.dtype.compute

        def moved(i: tuple[Expr, ...], to: Expr) -> tuple[Expr, ...]:
            return (*i[:d], to, *i[d + 1 :])

        def mirrored(i: tuple[Expr, ...]) -> tuple[Expr, ...]:
            return moved(i, as_size(x.shape[d]) - 1 - i[d]) if reverse else i

        def running(itself: Callable[..., Expr], *i: Expr) -> tuple[Expr]:
            t = i[d]
            before = itself(0, *moved(i, t - 1))
            if exclusive:
                element = x[mirrored(moved(i, t - 1))].astype(inner)
                return (select(t > 0, combine(before, element), as_expr(unit, inner)),)
            element = x[mirrored(i)].astype(inner)
            return (select(t > 0, combine(before, element), element),)

        (total,) = scan(x.shape, running, dtypes_=(inner,), along=d + 1, name=f"{name}_running")
        if not reverse and inner == x.dtype:
            return total
        return compute(x.shape, lambda *i: total[mirrored(i)].astype(x.dtype), name=name)


_register_running("cum_sum", lambda a, b: a + b, 0)
_register_running("cum_prod", lambda a, b: a * b, 1)
