"""The determinant, as one affine recurrence."""

from __future__ import annotations

from collections.abc import Callable

from weft.frontend.operators.registry import operator
from weft.ir import build, dtypes
from weft.ir.build import compute, reduce_axis, scan
from weft.ir.errors import ExpressionError
from weft.ir.scalar_expr import Expr, literal, select
from weft.ir.tensor_expr import Tensor, constant_size


@operator("det")
def det(x: Tensor) -> Tensor:
    """(…, n, n) to (…), by a division-free algorithm (Bird, "A simple division-free algorithm for
    computing determinants", 2011): without pivots, no access depends on data. In float64.

    S_0 = A and S_k[i, j] = Σ_{l > i} (S_{k-1}[i, l] A[l, j] - S_{k-1}[l, l] A[i, j]);
    then det A = (-1)**(n-1) S_{n-1}[0, 0].
    """
    n = constant_size(x.shape[-1]) if x.rank >= 2 else None
    if n is None or x.shape[-2] != x.shape[-1]:
        raise ExpressionError(
            "WEFT-E0184",
            f"det of a tensor of shape {x.shape}",
            where="det",
            hint="the last two dimensions must be one constant size",
        )
    batch = x.shape[:-2]
    if n == 0:
        return compute(batch, lambda *b: literal(1, x.dtype), name="det")

    def step(itself: Callable[..., Expr], *index: Expr) -> tuple[Expr]:
        *b, k, i, j = index
        r = reduce_axis((i + 1, n), name="l")

        def a(row: Expr, column: Expr) -> Expr:
            return x[(*b, row, column)].astype(dtypes.float64)

        def before(row: Expr, column: Expr) -> Expr:
            return itself(0, *b, k - 1, row, column)

        term = before(i, r) * a(r, j) - before(r, r) * a(i, j)
        return (select(k > 0, build.sum(term, r), a(i, j)),)

    (steps,) = scan(
        (*batch, n, n, n), step, dtypes_=(dtypes.float64,), along=len(batch) + 1, name="det_steps"
    )
    sign = (-1) ** (n - 1)
    return compute(batch, lambda *b: (steps[(*b, n - 1, 0, 0)] * sign).astype(x.dtype), name="det")
