import itertools

import numpy as np
import pytest

from tests.frontend.operators.run_operator import run
from tests.frontend.operators.run_symbolic import run_symbolic
from weft.frontend.operators.registry import instantiate
from weft.ir.build import placeholder
from weft.ir.errors import ExpressionError

rng = np.random.default_rng(0)

# x shape, kernel, strides, pads, dilations, ceil_mode
CASES = {
    "2x2": ((2, 3, 6, 4), (2, 2), (2, 2), (0, 0, 0, 0), (1, 1), False),
    "3x3 padded": ((1, 2, 7, 5), (3, 3), (2, 1), (1, 1, 1, 1), (1, 1), False),
    "lopsided": ((1, 2, 5, 7), (3, 2), (2, 3), (2, 0, 1, 1), (1, 1), False),
    "ceil": ((1, 1, 7, 8), (3, 2), (2, 3), (1, 0, 0, 1), (1, 1), True),
    "ceil past the padding": ((1, 1, 5, 3), (2, 2), (4, 3), (0, 0, 0, 0), (1, 1), True),
    "dilated": ((1, 1, 11, 9), (3, 2), (1, 2), (2, 1, 2, 1), (3, 4), False),
    "stride over kernel": ((1, 1, 11, 13), (2, 1), (5, 4), (0, 0, 0, 0), (1, 1), False),
    "only padding": ((1, 1, 1, 2), (2, 2), (1, 1), (3, 2, 3, 2), (1, 1), False),
    "1-D": ((2, 3, 17), (5,), (3,), (2, 1), (2,), True),
    "3-D": ((1, 1, 4, 5, 3), (2, 3, 1), (1, 2, 1), (1, 0, 0, 0, 1, 0), (1, 1, 1), False),
    "one element": ((1, 1, 1), (1,), (1,), (0, 0), (1,), False),
    "empty batch": ((0, 2, 5, 5), (2, 2), (1, 1), (0, 0, 0, 0), (1, 1), False),
}


def windows(case):
    """(x, attributes, output sizes, output index -> the input positions under its window)."""
    shape, kernel, strides, pads, dilations, ceil = CASES[case]
    rank, outputs = len(kernel), []
    for d in range(rank):
        span = (kernel[d] - 1) * dilations[d] + 1
        free = shape[2 + d] + pads[d] + pads[rank + d] - span
        count = (-(-free // strides[d]) if ceil else free // strides[d]) + 1
        if ceil and (count - 1) * strides[d] >= shape[2 + d] + pads[d]:
            count -= 1
        outputs.append(count)

    def positions(out):
        return itertools.product(
            *(
                [o * s - p + r * t for r in range(k)]
                for o, s, p, t, k in zip(out, strides, pads[:rank], dilations, kernel, strict=True)
            )
        )

    attributes = {"kernel": kernel, "strides": strides, "pads": pads, "dilations": dilations,
                  "ceil_mode": ceil}  # fmt: skip
    return rng.standard_normal(shape), attributes, outputs, positions


def fold(x, outputs, positions, function):
    """``function`` of the elements (n, c, found) and positions that lie inside ``x``."""
    y = np.zeros((*x.shape[:2], *outputs))
    for out in itertools.product(*map(range, outputs)):
        at = list(positions(out))
        inside = [p for p in at if all(0 <= i < s for i, s in zip(p, x.shape[2:], strict=True))]
        found = [x[(..., *p)] for p in inside]
        found = np.stack(found, -1) if found else np.zeros((*x.shape[:2], 0))
        y[(..., *out)] = function(found, at, inside)
    return y


@pytest.mark.parametrize("case", CASES)
def test_max_pool(case):
    x, attributes, outputs, positions = windows(case)
    expected = fold(x, outputs, positions, lambda v, at, inside: v.max(-1, initial=-np.inf))
    np.testing.assert_array_equal(run("max_pool", x, **attributes), expected)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("column_major", [False, True])
@pytest.mark.parametrize("ties", [False, True])
def test_max_pool_with_indices(case, column_major, ties):
    """Of equal elements the first in row-major order wins, however indices are counted."""
    x, attributes, outputs, positions = windows(case)
    x = np.round(x) if ties else x
    values, indices = run("max_pool_with_indices", x, **attributes, column_major=column_major)
    np.testing.assert_array_equal(values, run("max_pool", x, **attributes))
    order = "F" if column_major else "C"
    area = int(np.prod(x.shape[2:]))

    def flat(v, at, inside):
        if not inside:
            return -1
        first = np.argmax(v, -1)
        along = np.array([np.ravel_multi_index(p, x.shape[2:], order=order) for p in inside])
        lead = np.arange(x.shape[0] * x.shape[1]).reshape(x.shape[:2]) * area
        return lead + along[first]

    np.testing.assert_array_equal(indices, fold(x, outputs, positions, flat))


def test_max_pool_of_nan_and_of_ties():
    x = np.array([[[1.0, np.nan, 3.0, 7.0, 7.0, 7.0]]])
    values, indices = run("max_pool_with_indices", x, kernel=(3,), strides=(3,))
    np.testing.assert_array_equal(values, [[[np.nan, 7.0]]])
    np.testing.assert_array_equal(indices, [[[1, 3]]])
    np.testing.assert_array_equal(run("max_pool", x, kernel=(3,), strides=(3,)), values)


def test_padding_never_wins_over_negative_integers():
    x = np.full((1, 1, 2, 2), -128, np.int8)
    np.testing.assert_array_equal(run("max_pool", x, kernel=(2, 2), pads=(1, 1, 1, 1)), -128)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("include", [False, True])
def test_average_pool(case, include):
    x, attributes, outputs, positions = windows(case)
    pads, rank = attributes["pads"], x.ndim - 2

    def mean(v, at, inside):
        padded = [
            p for p in at
            if all(-pads[d] <= p[d] < x.shape[2 + d] + pads[rank + d] for d in range(rank))
        ]  # fmt: skip
        count = len(padded) if include else len(inside)
        return v.sum(-1) / max(count, 1)

    expected = fold(x, outputs, positions, mean)
    result = run("average_pool", x, **attributes, count_include_pad=include)
    np.testing.assert_allclose(result, expected, atol=1e-14)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_lp_pool(p):
    x, attributes, outputs, positions = windows("ceil")
    norm = fold(x, outputs, positions, lambda v, at, i: (np.abs(v) ** p).sum(-1) ** (1 / p))
    np.testing.assert_allclose(run("lp_pool", x, **attributes, p=p), norm, rtol=1e-12)


@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (1, 1, 1), (2, 1, 3, 2, 5), (0, 3, 2)])
def test_global_pools(shape):
    x = rng.standard_normal(shape)
    axes = tuple(range(2, x.ndim))
    np.testing.assert_allclose(
        run("global_average_pool", x), x.mean(axes, keepdims=True), atol=1e-15
    )
    np.testing.assert_array_equal(run("global_max_pool", x), x.max(axes, keepdims=True))
    norm = (np.abs(x) ** 3).sum(axes, keepdims=True) ** (1 / 3)
    np.testing.assert_allclose(run("global_lp_pool", x, p=3), norm, rtol=1e-12)


def test_half_precision_means_are_summed_in_float32():
    x = np.full((1, 1, 70_000), 1.0, np.float16)
    assert run("global_average_pool", x)[0, 0, 0] == 1.0


def test_unpooling_undoes_pooling_where_the_greatest_were():
    x = rng.permutation(2 * 3 * 4 * 6).astype(np.float32).reshape(2, 3, 4, 6) + 1
    values, indices = run("max_pool_with_indices", x, kernel=(2, 2), strides=(2, 2))
    back = run("max_unpool", values, indices, sizes=(4, 6))
    np.testing.assert_array_equal(back, np.where(np.isin(x, values), x, 0))


@pytest.mark.parametrize("height", [4, 7])
def test_symbolic_sizes(height):
    x = rng.standard_normal((2, 3, height, 5))
    attributes = {"kernel": (3, 2), "strides": (2, 2), "pads": (1, 0, 1, 1)}
    for op, more in (("max_pool", {}), ("average_pool", {}), ("average_pool", {"ceil_mode": True})):
        result = run_symbolic(op, x, sizes={0: {0: "n", 2: "h"}}, **attributes, **more)
        np.testing.assert_allclose(result, run(op, x, **attributes, **more), atol=1e-15)


@pytest.mark.parametrize(
    ("code", "attributes"),
    [
        ("WEFT-E0153", {"kernel": (2,)}),
        ("WEFT-E0154", {"kernel": (0, 2)}),
        ("WEFT-E0154", {"kernel": (2, 2), "strides": (1, 0)}),
        ("WEFT-E0155", {"kernel": (2, 20)}),
    ],
)
def test_bad_windows_are_refused(code, attributes):
    with pytest.raises(ExpressionError) as caught:
        instantiate("max_pool", [placeholder((1, 1, 5, 5), name="x")], **attributes)
    assert caught.value.code == code
