"""Counting n-grams of integers, which word vectorisers weight."""

from __future__ import annotations

from weft import dtypes
from weft.frontend import build
from weft.frontend.build import all_of, compute, reduce_axis, scatter, select
from weft.frontend.operators.arguments import expect, expect_same
from weft.frontend.operators.registry import operator
from weft.frontend.scalar_expr import Expr
from weft.frontend.tensor_expr import Tensor, as_size, constant_size


@operator("count_ngrams")
def count_ngrams(
    x: Tensor, counts: Tensor, grams: Tensor, columns: Tensor, *, most_skipped: int
) -> Tensor:
    """``counts`` (row, column) plus how often the ``grams`` (gram, n) are in the rows of ``x``.

    Gram g counts in column ``columns[g]``. Its items follow each other in the row at one distance
    of up to ``most_skipped`` items in between; single items count once.
    """
    expect(x.rank == 2, f"{x.shape} is not (row, item)", "count_ngrams", "WEFT-E0191")
    expect(x.dtype == grams.dtype, f"grams of {grams.dtype}", "count_ngrams", "WEFT-E0192")
    expect_same(columns.shape, grams.shape[:1], "count_ngrams")
    length = constant_size(grams.shape[1])
    expect(length is not None and length > 0, f"grams of {length} items", "count_ngrams")
    assert length is not None
    distances = 1 if length == 1 else most_skipped + 1

    def frequency(row: Expr, gram: Expr) -> Expr:
        skip = reduce_axis((0, distances), name="skip")
        first = reduce_axis((0, x.shape[1]), name="first")
        reach = first + (skip + 1) * (length - 1)
        items = [x[row, first + (skip + 1) * n].equal(grams[gram, n]) for n in range(length)]
        found = select(reach < as_size(x.shape[1]), all_of(items), False)
        return build.sum(found.astype(dtypes.int64), axis=(skip, first))

    found = compute((x.shape[0], grams.shape[0]), frequency, name="frequency")
    return scatter(
        counts,
        found.shape,
        lambda row, gram: ((row, columns[gram]), found[row, gram]),
        combine="add",
        name="counts",
    )


@operator("weight_counts")
def weight_counts(counts: Tensor, weights: Tensor, *, as_flags: bool) -> Tensor:
    """``counts`` (row, column), or 1 where they are not 0, times ``weights`` (column). float32."""
    expect_same(counts.shape[1:], weights.shape, "weight_counts")

    def body(row: Expr, column: Expr) -> Expr:
        count = counts[row, column]
        value = (count > 0).astype(weights.dtype) if as_flags else count.astype(weights.dtype)
        return value * weights[column]

    return compute(counts.shape, body, name="weighted")
