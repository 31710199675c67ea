"""Running sums and products: recurrences along one axis."""

from __future__ import annotations

from collections.abc import Callable

from weft.frontend.build import compute, scan
from weft.frontend.operators.registry import operator
from weft.frontend.operators.sizes import normal_axis
from weft.frontend.scalar_expr import Expr, as_expr, select
from weft.frontend.tensor_expr import Tensor, as_size


def _register(name: str, combine: Callable[[Expr, Expr], Expr], unit: int) -> None:
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


_register("cum_sum", lambda a, b: a + b, 0)
_register("cum_prod", lambda a, b: a * b, 1)
