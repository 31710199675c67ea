"""Tables of keys: encoding labels and categories, replacing missing values."""

from __future__ import annotations

from weft.frontend.operators.arguments import expect, expect_same
from weft.frontend.operators.registry import operator
from weft.ir.build import (
    all_of,
    compute,
    isnan,
    max_over,
    minimum,
    reduce_axis,
    scatter,
    select,
    sum,
)
from weft.ir.scalar_expr import Expr, Number, literal
from weft.ir.tensor_expr import Tensor, constant_size


def _matches(value: Expr, key: Expr) -> Expr:
    """Equality in which NaN is NaN."""
    same = value.equal(key)
    return same | (isnan(value) & isnan(key)) if value.dtype.is_float else same


def _position(value: Expr, keys: Tensor) -> Expr:
    """The last position of ``value`` among ``keys``, -1 where it is not there."""
    k = reduce_axis((0, keys.shape[0]), name="k")
    found = max_over(select(_matches(value, keys[k]), k, -1), axis=k)
    return select(found < 0, literal(-1), found)


@operator("look_up")
def look_up(x: Tensor, keys: Tensor, values: Tensor, *, default: Number) -> Tensor:
    """``values[k]`` where ``x`` is ``keys[k]`` (of several the last), else ``default``."""
    expect_same(keys.shape, values.shape, "look_up")
    expect(x.dtype == keys.dtype, f"{keys.dtype} keys for {x.dtype}", "look_up", "WEFT-E0192")
    place = compute(x.shape, lambda *i: _position(x[i], keys), name="place")
    return compute(
        x.shape,
        lambda *i: select(place[i] < 0, literal(default, values.dtype), values[place[i]]),
        name="looked_up",
    )


@operator("one_hot_categories")
def one_hot_categories(x: Tensor, categories: Tensor, *, unknown_is_zero: bool) -> Tensor:
    """(…, category) -> 1 where the element is that category, else 0. float32.

    An element of no category gives zeros, or is an execution error unless ``unknown_is_zero``.
    """
    expect(x.dtype == categories.dtype, f"{categories.dtype} categories", "one_hot", "WEFT-E0192")
    place = compute(x.shape, lambda *i: _position(x[i], categories), name="place")
    numbers = compute(categories.shape, lambda c: c, name="numbers")

    def body(*i: Expr) -> Expr:
        found = place[i[:-1]]
        # The load is out of range, and so an error, where nothing was found.
        return i[-1].equal(found if unknown_is_zero else numbers[found]).astype("float32")

    return compute((*x.shape, categories.shape[0]), body, name="one_hot")


@operator("impute")
def impute(x: Tensor, values: Tensor, *, missing: Number) -> Tensor:
    """``x`` (sample, feature) with ``missing`` (or NaN) replaced, by one value or by feature."""
    expect(x.rank == 2, f"{x.shape} is not (sample, feature)", "impute", "WEFT-E0191")
    expect(x.dtype == values.dtype, f"{values.dtype} into {x.dtype}", "impute", "WEFT-E0192")
    single = constant_size(values.shape[0]) == 1
    if not single:
        expect_same(values.shape, x.shape[1:], "impute")

    def body(n: Expr, c: Expr) -> Expr:
        gone = _matches(x[n, c], literal(missing, x.dtype))
        return select(gone, values[literal(0) if single else c], x[n, c])

    return compute(x.shape, body, name="imputed")


# ---- Counting n-grams of tokens that are numbers.


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
