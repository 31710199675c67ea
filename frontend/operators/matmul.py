"""Matrix products: NumPy's matmul and BLAS's gemm."""

from __future__ import annotations

from weft.frontend.build import compute, sum
from weft.frontend.operators.broadcast import at, broadcast_shape
from weft.frontend.operators.registry import operator
from weft.frontend.operators.sizes import accumulator, axes_over, require, require_rank, unify
from weft.frontend.scalar_expr import Expr, cast
from weft.frontend.tensor_expr import Tensor


@operator("matmul")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """c[…, m, n] = Σ_k a[…, m, k] · b[…, k, n] with leading dimensions broadcast, as in NumPy.

    A one-dimensional side is a row on the left, a column on the right, and its dimension is gone
    from the result. Sums are kept in the accumulator's dtype and rounded to a's.
    """
    product = product_sums(a, b)
    if product.dtype == a.dtype:
        return product
    return compute(product.shape, lambda *i: cast(product[i], a.dtype), name="matmul")


def product_sums(a: Tensor, b: Tensor) -> Tensor:
    """The matrix product in the accumulator's dtype."""
    require_rank(a, "the left side of a matrix product", 1)
    require_rank(b, "the right side of a matrix product", 1)
    unify(a.shape[-1], b.shape[max(b.rank - 2, 0)], "the inner sizes of a matrix product")
    batch = broadcast_shape([a.shape[:-2], b.shape[:-2]], "matmul")
    rows, columns = a.shape[-2:-1], b.shape[-1:] if b.rank > 1 else ()
    (k,) = axes_over(a.shape[-1:], ["k"])
    acc = accumulator(a.dtype)

    def body(*index: Expr) -> Expr:
        outer = index[: len(batch)]
        row, column = index[len(batch) :][: len(rows)], index[len(batch) + len(rows) :]
        left = at_batch(a, outer, batch, (*row, k))
        right = at_batch(b, outer, batch, (k, *column))
        return sum(cast(left, acc) * cast(right, acc), k)

    return compute((*batch, *rows, *columns), body, name="matmul")


def at_batch(
    x: Tensor, outer: tuple[Expr, ...], batch: tuple[object, ...], inner: tuple[Expr, ...]
) -> Expr:
    """Element ``inner`` of the matrix of ``x`` that the batch index ``outer`` broadcasts to."""
    own = x.rank - len(inner)
    skip = len(batch) - own
    lead = [
        0 if size == 1 and batch[skip + d] != 1 else outer[skip + d]
        for d, size in enumerate(x.shape[:own])
    ]
    return x[(*lead, *inner)]


@operator("gemm")
def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Tensor:
    """alpha · a @ b + beta · c of matrices, ``c`` broadcast to the result."""
    require_rank(a, "the left side of a gemm", 2, 2)
    require_rank(b, "the right side of a gemm", 2, 2)
    m, inner = a.shape[::-1] if transpose_a else a.shape
    other, n = b.shape[::-1] if transpose_b else b.shape
    unify(inner, other, "the inner sizes of a gemm")
    if c is not None:
        fits = broadcast_shape([(m, n), c.shape], "gemm") == (m, n)
        require(fits, "the addend of a gemm is larger than its product")
    (k,) = axes_over([inner], ["k"])
    acc = accumulator(a.dtype)

    def body(i: Expr, j: Expr) -> Expr:
        left, right = a[(k, i) if transpose_a else (i, k)], b[(j, k) if transpose_b else (k, j)]
        value = _times(sum(cast(left, acc) * cast(right, acc), k), alpha)
        if c is not None and beta != 0.0:
            value = value + _times(cast(at(c, (i, j), (m, n)), acc), beta)
        return cast(value, a.dtype)

    return compute((m, n), body, name="gemm")


def _times(value: Expr, factor: float) -> Expr:
    if factor == 1.0:
        return value
    if value.dtype.is_integer:
        require(float(factor).is_integer(), f"an integer gemm cannot be scaled by {factor}")
        return value * int(factor)
    return value * factor
