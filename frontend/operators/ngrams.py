"""Counting n-grams of tokens that are numbers."""

from __future__ import annotations

from weft.frontend.build import all_of, compute, minimum, reduce_axis, scatter, select, sum
from weft.frontend.operators.arguments import expect, expect_same
from weft.frontend.operators.registry import operator
from weft.frontend.scalar_expr import Expr, literal
from weft.frontend.tensor_expr import Tensor


@operator("ngram_counts")
def ngram_counts(x: Tensor, grams: Tensor, *, skips: int) -> Tensor:
    """(row, gram) -> how often the gram stands in the row ``x`` (row, token). float32.

    ``grams`` is (gram, token). A gram's tokens are 1 to ``skips`` + 1 apart, all equally far;
    single tokens are counted once.
    """
    where = "ngram_counts"
    expect(x.rank == 2 and grams.rank == 2, "x and grams are matrices", where, "WEFT-E0191")
    expect(x.dtype == grams.dtype, f"{grams.dtype} grams of {x.dtype}", where, "WEFT-E0192")
    length = int(str(grams.shape[1]))
    expect(0 <= skips <= 1000 and length >= 1, f"{skips} skips, {length} tokens", where)
    steps = range(1, 2 if length == 1 else skips + 2)

    def body(row: Expr, gram: Expr) -> Expr:
        counts: Expr = literal(0.0, "float32")
        for step in steps:
            start = reduce_axis((0, x.shape[1]), name=f"start_{step}")
            inside = start + (length - 1) * step < x.shape[1]
            same = all_of([x[row, start + k * step].equal(grams[gram, k]) for k in range(length)])
            hit = select(inside, same.astype("float32"), literal(0.0, "float32"))
            counts = counts + sum(hit, axis=start)
        return counts

    return compute((x.shape[0], grams.shape[0]), body, name="counts")


@operator("ngram_vectors")
def ngram_vectors(
    counts: Tensor, places: Tensor, weights: Tensor | None, *, width: int, binary: bool
) -> Tensor:
    """(row, place) -> the counts of all grams at ``places``; 0 or 1 if ``binary``; weighted."""
    where = "ngram_vectors"
    expect_same(counts.shape[1:], places.shape, where)
    zeros = compute(
        (counts.shape[0], width),
        lambda i, j: literal(0.0, "float32"),
        name="zeros",
        dtype="float32",
    )
    total = scatter(
        zeros,
        counts.shape,
        lambda i, g: ((i, places[g]), counts[i, g]),
        combine="add",
        name="total",
    )
    if weights is not None:
        expect_same(weights.shape, (width,), where)

    def body(i: Expr, j: Expr) -> Expr:
        value = minimum(total[i, j], 1.0) if binary else total[i, j]
        return value if weights is None else value * weights[j]

    return compute((counts.shape[0], width), body, name="vectors")
