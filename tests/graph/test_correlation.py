from __future__ import annotations

from functools import partial

import pytest

from tests.graph.correlations import LAYOUTS, convolution
from weft.frontend.operators.registry import instantiate
from weft.graph.correlation import correlation_of
from weft.ir import dtypes
from weft.ir.build import (
    compute,
    max_over,
    placeholder,
    reduce,
    reduce_axis,
    scan,
    select,
    sum,
    var,
)
from weft.ir.scalar_expr import Var, cast
from weft.ir.tensor_expr import Monoid, Tensor, operations

k = reduce_axis((0, 3), name="k")
c = reduce_axis((0, 4), name="c")
x = placeholder((4, 12), name="x")
w = placeholder((5, 4, 3), name="w")
where = placeholder((12,), "int64", name="where")


def slides(*results: Tensor) -> set[tuple[str, str, int]]:
    """(loop, tap, sign) of every slide."""
    assert results[0].operation is not None
    found = correlation_of(results[0].operation)
    return {(s.axis.name, s.tap.name, s.sign) for s in found.slides} if found else set()


def own(body, shape=(5, 10)) -> Tensor:
    return compute(shape, body, name="y")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("pads", [(0, 0), (1, 1), (2, 0)])
@pytest.mark.parametrize("flipped", [False, True])
def test_rows_and_columns_slide_in_every_layout(layout, pads, flipped) -> None:
    program = convolution(2, 3, 4, 7, 8, layout="".join(layout), pads=pads, flipped=flipped)
    position = {d: f"i{1 + n}" for n, d in enumerate(layout)}
    assert slides(*program.outputs) == {(position["h"], "a", 1), (position["w"], "b", 1)}


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("group", [1, 2, 4])
def test_weft_s_own_convolutions_in_any_rank_and_groups(rank: int, group: int) -> None:
    image = placeholder((2, 4, *[9] * rank), name="x")
    kernel = placeholder((8, 4 // group, *[3] * rank), name="w")
    program = instantiate("conv", [image, kernel], pads=[1] * (2 * rank), group=group)
    found = [correlation_of(operation) for operation in operations(program)]
    assert [len(f.slides) for f in found if f] == [rank]


@pytest.mark.parametrize("attributes", [{"strides": [2, 2]}, {"dilations": [2, 2]}])
def test_weft_s_own_strided_and_dilated_convolutions_are_none(attributes) -> None:
    image, kernel = placeholder((1, 4, 9, 9), name="x"), placeholder((4, 4, 3, 3), name="w")
    program = instantiate("conv", [image, kernel], **attributes)
    assert [correlation_of(operation) for operation in operations(program)] == [None]


def test_a_stride_along_one_loop_leaves_the_other() -> None:
    image, kernel = placeholder((1, 4, 9, 9), name="x"), placeholder((4, 4, 3, 3), name="w")
    program = instantiate("conv", [image, kernel], strides=[1, 2])
    assert slides(*program.outputs) == {("i2", "r", 1)}


def test_backwards_casts_conditions_epilogues_and_gathers_of_windows() -> None:
    half = placeholder((4, 12), "float16", name="h")
    assert slides(own(lambda o, i: sum(x[c, i - k + 2] * w[o, c, k], (c, k)))) == {("i", "k", -1)}
    assert slides(own(lambda o, i: sum(x[c, k - i + 9] * w[o, c, k], (c, k)))) == {("i", "k", -1)}
    assert slides(own(lambda o, i: sum(cast(half[c, i + k], dtypes.float32) * w[o, c, k], (c, k))))
    assert slides(own(lambda o, i: sum(w[o, c, k] * x[c, i + k - 1], (c, k), where=i + k >= 1)))
    assert slides(own(lambda o, i: 2.0 * sum(x[c, i + k] * w[o, c, k], (c, k)) + x[0, i]))
    assert slides(own(lambda o, i: sum(x[c, where[i + k] % 12] * w[o, c, k], (c, k))))


def test_an_addition_under_another_name_is_one() -> None:
    left, right = Var("p", dtypes.float32), Var("q", dtypes.float32)
    plus = Monoid("my_plus", (left,), (right,), (right + left,), (0.0,))
    assert slides(own(partial(folded, plus))) == {("i", "k", 1)}


@pytest.mark.parametrize(
    "body",
    [
        lambda o, i: sum(x[c, i * 2 + k] * w[o, c, k], (c, k)),
        lambda o, i: sum(x[c, i + 2 * k] * w[o, c, k], (c, k)),
        lambda o, i: sum(x[c, 2 * (k - i) // 3 + i] * w[o, c, k], (c, k)),
        lambda o, i: sum(x[c, 9 - i] * w[o, c, k], (c, k)),
        lambda o, i: sum(x[c, where[i] % 9 + k] * w[o, c, k], (c, k)),
        lambda o, i: sum(x[c, i + k] * w[o, c, (k + i) % 3], (c, k)),
        lambda o, i: sum(x[c, i + k] * x[c, i], (c, k)),
        lambda o, i: sum(x[c, i + k] + w[o, c, k], (c, k)),
        lambda o, i: sum(x[c, i + k], (c, k)),
        lambda o, i: max_over(x[c, i + k] * w[o, c, k], (c, k)),
        lambda o, i: sum(x[c, i + k] * w[o, c, k], (c, k), where=x[c, i] > 0.0),
        lambda o, i: sum(select(k < 1, x[c, i], x[c, i + k]) * w[o, c, k], (c, k)),
    ],
)
def test_what_is_no_correlation(body) -> None:
    assert slides(own(body, (5, 5))) == set()


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "float16", "bfloat16"])
def test_only_sums_of_wide_floats(dtype: str) -> None:
    program = convolution(1, 3, 4, 7, 7, dtype=dtype)
    assert slides(*program.outputs) == set()


def folded(monoid: Monoid, o, i):
    return reduce(monoid, (x[c, i + k] * w[o, c, k],), (c, k))[0]


def test_sums_whose_order_counts_are_none() -> None:
    left, right = Var("p", dtypes.float32), Var("q", dtypes.float32)
    ordered = Monoid("plus", (left,), (right,), (left + right,), (0.0,), frozenset())
    shifted = Monoid("plus", (left,), (right,), (left + right,), (1.0,))
    for monoid in (ordered, shifted):
        assert slides(own(partial(folded, monoid))) == set()


def test_scans_and_unknown_sizes_are_none() -> None:
    n = var("n")
    long = placeholder((4, n), name="long")
    assert not slides(own(lambda o, i: sum(long[c, i + k] * w[o, c, k], (c, k)), (5, n - 2)))
    body = lambda y, t, i: (sum(x[c, i + k] * w[0, c, k], (c, k)),)  # noqa: E731
    assert not slides(*scan((3, 5), body, dtypes_=(dtypes.float32,), name="s"))


def test_a_huge_body_is_not_looked_at() -> None:
    def body(o, i):
        value = x[c, i + k] * w[o, c, k]
        for n in range(300):
            value = value + float(n)
        return sum(value, (c, k))

    assert slides(own(body)) == set()
