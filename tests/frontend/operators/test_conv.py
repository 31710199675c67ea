import itertools

import ml_dtypes
import numpy as np
import pytest

from tests.frontend.operators.run_operator import run
from tests.frontend.operators.run_symbolic import run_symbolic
from weft.frontend.operators.registry import instantiate
from weft.ir.build import placeholder
from weft.ir.errors import ExpressionError

rng = np.random.default_rng(0)


def reference(x, w, bias=None, *, strides, pads, dilations, group):
    """One tap at a time over a padded input, in float64."""
    rank = x.ndim - 2
    x, w = x.astype(np.float64), w.astype(np.float64)
    x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)])
    out = [
        (x.shape[2 + d] - (w.shape[2 + d] - 1) * dilations[d] - 1) // strides[d] + 1
        for d in range(rank)
    ]
    c, k = w.shape[1], w.shape[0] // group
    y = np.zeros((x.shape[0], w.shape[0], *out))
    for tap in itertools.product(*map(range, w.shape[2:])):
        where = tuple(
            slice(t * d, t * d + (o - 1) * s + 1 if o else t * d, s)
            for t, d, o, s in zip(tap, dilations, out, strides, strict=True)
        )
        for g in range(group):
            part = x[(slice(None), slice(g * c, (g + 1) * c), *where)]
            weights = w[(slice(g * k, (g + 1) * k), slice(None), *tap)]
            y[:, g * k : (g + 1) * k] += np.einsum("nc...,kc->nk...", part, weights)
    return y if bias is None else y + bias.reshape(-1, *[1] * rank)


# x shape, filters, kernel, strides, pads, dilations, group
CASES = {
    "1x1": ((2, 3, 5, 4), 4, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    "one element": ((1, 1, 1, 1), 1, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    "3x3 padded": ((1, 3, 7, 5), 2, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    "lopsided pads": ((1, 2, 5, 7), 3, (3, 2), (2, 1), (0, 2, 1, 0), (1, 1), 1),
    "stride over kernel": ((2, 2, 11, 13), 2, (2, 3), (5, 4), (0, 0, 0, 0), (1, 1), 1),
    "dilated": ((1, 2, 13, 11), 2, (3, 2), (2, 1), (2, 1, 0, 3), (3, 5), 1),
    "pads beyond input": ((1, 1, 2, 1), 1, (3, 3), (1, 2), (5, 4, 3, 6), (1, 1), 1),
    "groups": ((2, 6, 5, 5), 9, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 3),
    "depthwise": ((2, 5, 7, 6), 5, (3, 3), (2, 1), (1, 1, 1, 1), (1, 1), 5),
    "depthwise, two filters each": ((1, 3, 4, 4), 6, (2, 2), (1, 1), (0, 0, 0, 0), (1, 1), 3),
    "1-D": ((2, 3, 17), 2, (5,), (3,), (2, 1), (2,), 1),
    "3-D": ((1, 2, 4, 5, 3), 3, (2, 3, 1), (1, 2, 1), (1, 0, 0, 1, 1, 0), (1, 1, 1), 1),
    "empty batch": ((0, 3, 4, 4), 2, (3, 3), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    "no output": ((1, 1, 2, 3), 1, (3, 3), (1, 1), (0, 0, 0, 0), (1, 1), 1),
}


def arguments(case):
    x_shape, filters, kernel, strides, pads, dilations, group = CASES[case]
    x = rng.standard_normal(x_shape)
    w = rng.standard_normal((filters, x_shape[1] // group, *kernel))
    attributes = {"strides": strides, "pads": pads, "dilations": dilations, "group": group}
    return x, w, rng.standard_normal(filters), attributes


@pytest.mark.parametrize("case", CASES)
def test_conv(case):
    x, w, bias, attributes = arguments(case)
    expected = reference(x, w, bias, **attributes)
    np.testing.assert_allclose(run("conv", x, w, bias, **attributes), expected, atol=1e-12)
    without = run("conv", x, w, None, **attributes)
    np.testing.assert_allclose(without, reference(x, w, **attributes), atol=1e-12)


@pytest.mark.parametrize("size", [5, 6, 9])
def test_conv_of_symbolic_sizes(size):
    x, w = rng.standard_normal((3, 2, size, 7)), rng.standard_normal((4, 2, 3, 3))
    attributes = {"strides": (2, 1), "pads": (1, 0, 2, 1), "dilations": (1, 2), "group": 1}
    result = run_symbolic("conv", x, w, sizes={0: {0: "n", 2: "h"}}, **attributes)
    np.testing.assert_allclose(result, reference(x, w, **attributes), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_floats_are_summed_in_float32(dtype):
    """1 + 4096 · 2^-12 · …: in float16 the small terms would all vanish."""
    x = np.full((1, 4097, 1), 2.0**-12, dtype)
    x[0, 0, 0] = 1
    w = np.ones((1, 4097, 1), dtype)
    assert run("conv", x, w, None)[0, 0, 0] == 2


def test_integers_are_summed_in_int32():
    x, w = np.full((1, 100, 1), 127, np.int8), np.full((1, 100, 1), -128, np.int8)
    result = run("conv_integer", x, w, None, None)
    assert result.dtype == np.int32 and result[0, 0, 0] == 100 * 127 * -128


def test_conv_integer_pads_with_the_zero_point():
    x = rng.integers(0, 256, (2, 4, 5, 6)).astype(np.uint8)
    w = rng.integers(-128, 128, (6, 2, 3, 3)).astype(np.int8)
    zero = rng.integers(-128, 128, 6).astype(np.int8)
    attributes = {"strides": (2, 1), "pads": (1, 2, 0, 1), "dilations": (1, 1), "group": 2}
    result = run("conv_integer", x, w, np.uint8(131), zero, **attributes)
    shifted = w.astype(np.int32) - zero.astype(np.int32).reshape(-1, 1, 1, 1)
    np.testing.assert_array_equal(
        result, reference(x.astype(np.int32) - 131, shifted, **attributes)
    )


def test_qlinear_conv_saturates_and_scales_per_filter():
    x = rng.integers(0, 256, (1, 3, 6, 6)).astype(np.uint8)
    w = rng.integers(-128, 128, (4, 3, 3, 3)).astype(np.int8)
    scales, bias = np.float32([0.5, 0.01, 0.002, 0.0001]), np.int32([-7, 0, 1000, 5])
    attributes = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1), "group": 1}
    zeros = np.uint8(120), np.zeros(4, np.int8), np.uint8(3)
    result = run("qlinear_conv", x, np.float32(0.02), zeros[0], w, scales, zeros[1],
                 np.float32(0.7), zeros[2], bias, **attributes)  # fmt: skip
    sums = reference(x.astype(np.int32) - 120, w, bias, **attributes)
    real = sums * (0.02 * scales / 0.7).reshape(-1, 1, 1)
    expected = np.clip(np.rint(real) + 3, 0, 255)
    assert set(np.unique(expected)) >= {0, 255}
    assert np.abs(result.astype(int) - expected).max() <= 1  # rounding of the scale in float32
    assert (result == expected).mean() > 0.99


def transposed(x, w, bias=None, *, strides, pads, dilations, output_padding, group):
    """Scatters each input through each tap, in float64, then cuts the pads off."""
    rank = x.ndim - 2
    spans = [(w.shape[2 + d] - 1) * dilations[d] + 1 for d in range(rank)]
    full = [strides[d] * (x.shape[2 + d] - 1) + spans[d] + output_padding[d] for d in range(rank)]
    c, k = x.shape[1] // group, w.shape[1]
    y = np.zeros((x.shape[0], k * group, *full))
    for at in itertools.product(*map(range, x.shape[2:]), *map(range, w.shape[2:])):
        place = tuple(at[d] * strides[d] + at[rank + d] * dilations[d] for d in range(rank))
        for g in range(group):
            element = x[(slice(None), slice(g * c, (g + 1) * c), *at[:rank])]
            y[(slice(None), slice(g * k, (g + 1) * k), *place)] += (
                element @ w[(slice(g * c, (g + 1) * c), slice(None), *at[rank:])]
            )
    cut = tuple(slice(pads[d], full[d] - pads[rank + d]) for d in range(rank))
    y = y[(slice(None), slice(None), *cut)]
    return y if bias is None else y + bias.reshape(-1, *[1] * rank)


# x shape, filters per group, kernel, strides, pads, dilations, output padding, group
TRANSPOSED = {
    "stride 1": ((2, 3, 4, 5), 2, (3, 2), (1, 1), (0, 0, 0, 0), (1, 1), (0, 0), 1),
    "stride 1, dilated": ((1, 2, 4, 5), 2, (3, 2), (1, 1), (1, 0, 2, 1), (2, 3), (0, 0), 1),
    "stride 2": ((1, 2, 3, 4), 3, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), (1, 0), 1),
    "stride over kernel": ((1, 2, 3, 2), 1, (2, 1), (3, 5), (0, 0, 0, 0), (1, 1), (0, 2), 1),
    "dilated and strided": ((1, 2, 4, 3), 2, (2, 3), (3, 2), (1, 0, 0, 2), (2, 3), (1, 1), 1),
    "large pads": ((1, 1, 5, 6), 1, (5, 4), (3, 2), (6, 5, 5, 3), (1, 1), (0, 0), 1),
    "groups": ((2, 6, 3, 3), 2, (3, 2), (2, 1), (0, 1, 1, 0), (1, 1), (1, 0), 3),
    "one element": ((1, 1, 1, 1), 1, (1, 1), (4, 4), (0, 0, 0, 0), (1, 1), (0, 0), 1),
    "1-D": ((1, 2, 7), 3, (4,), (3,), (2, 1), (1,), (2,), 1),
    "3-D": ((1, 2, 2, 3, 2), 1, (2, 3, 2), (2, 1, 3), (0, 1, 0, 1, 0, 0), (1, 2, 1), (0, 0, 1), 1),
    "empty batch": ((0, 2, 3, 3), 2, (3, 3), (2, 2), (0, 0, 0, 0), (1, 1), (0, 0), 1),
}


@pytest.mark.parametrize("case", TRANSPOSED)
def test_conv_transpose(case):
    shape, filters, kernel, strides, pads, dilations, extra, group = TRANSPOSED[case]
    x, w = rng.standard_normal(shape), rng.standard_normal((shape[1], filters, *kernel))
    bias = rng.standard_normal(filters * group)
    attributes = {"strides": strides, "pads": pads, "dilations": dilations,
                  "output_padding": extra, "group": group}  # fmt: skip
    expected = transposed(x, w, bias, **attributes)
    np.testing.assert_allclose(
        run("conv_transpose", x, w, bias, **attributes), expected, atol=1e-12
    )


@pytest.mark.parametrize("case", [c for c in TRANSPOSED if c != "empty batch"])
def test_infinities_reach_the_outputs_of_their_own_taps_alone(case):
    shape, filters, kernel, strides, pads, dilations, extra, group = TRANSPOSED[case]
    x, w = rng.standard_normal(shape), rng.uniform(0.1, 1.0, (shape[1], filters, *kernel))
    x[tuple(n // 2 for n in shape)] = np.inf
    attributes = {"strides": strides, "pads": pads, "dilations": dilations,
                  "output_padding": extra, "group": group}  # fmt: skip
    with np.errstate(invalid="ignore"):  # some of NumPy's products warn, and are right
        expected = transposed(x, w, **attributes)
    assert not np.isnan(expected).any()
    np.testing.assert_allclose(run("conv_transpose", x, w, **attributes), expected, atol=1e-12)


def test_negative_pads_of_a_transposed_convolution_show_the_bias():
    x, w = rng.standard_normal((1, 1, 3)), rng.standard_normal((1, 1, 2))
    wide = run("conv_transpose", x, w, np.array([5.0]), strides=(2,), pads=(-3, -1))
    inner = run("conv_transpose", x, w, np.array([5.0]), strides=(2,))
    np.testing.assert_allclose(wide, np.pad(inner, [(0, 0), (0, 0), (3, 1)], constant_values=5.0))


@pytest.mark.parametrize("size", [2, 7])
def test_conv_transpose_of_symbolic_sizes(size):
    x, w = rng.standard_normal((2, 3, size)), rng.standard_normal((3, 2, 3))
    attributes = {"strides": (2,), "pads": (1, 0), "dilations": (1,), "output_padding": (1,)}
    result = run_symbolic("conv_transpose", x, w, sizes={0: {0: "n", 2: "l"}}, **attributes)
    np.testing.assert_allclose(result, transposed(x, w, **attributes, group=1), atol=1e-12)


@pytest.mark.parametrize(
    ("code", "x_shape", "w_shape", "attributes"),
    [
        ("WEFT-E0150", (1, 3, 8, 8), (4, 2, 3, 3), {}),
        ("WEFT-E0152", (3, 8), (4, 3, 3), {}),
        ("WEFT-E0152", (1, 3, 8, 8), (4, 3, 3), {}),
        ("WEFT-E0153", (1, 3, 8, 8), (4, 3, 3, 3), {"group": 0}),
        ("WEFT-E0153", (1, 3, 8, 8), (4, 1, 3, 3), {"group": 2}),
        ("WEFT-E0154", (1, 3, 8, 8), (4, 3, 3, 3), {"strides": (0, 1)}),
        ("WEFT-E0154", (1, 3, 8, 8), (4, 3, 3, 3), {"strides": (1,)}),
        ("WEFT-E0154", (1, 3, 8, 8), (4, 3, 3, 3), {"dilations": (1, -1)}),
        ("WEFT-E0154", (1, 3, 8, 8), (4, 3, 3, 3), {"pads": (0, 0, -1, 0)}),
        ("WEFT-E0155", (1, 3, 8, 8), (4, 3, 30, 3), {}),
    ],
)
def test_what_does_not_fit_is_refused(code, x_shape, w_shape, attributes):
    x, w = placeholder(x_shape, name="x"), placeholder(w_shape, name="w")
    with pytest.raises(ExpressionError) as caught:
        instantiate("conv", [x, w], **attributes)
    assert caught.value.code == code


def test_a_bias_of_another_size_is_refused():
    tensors = [placeholder(s, name="t") for s in ((1, 3, 8), (4, 3, 3), (3,))]
    with pytest.raises(ExpressionError, match="bias and filters differ: 3 and 4"):
        instantiate("conv", tensors)


def test_a_transposed_convolution_without_outputs_is_refused():
    tensors = [placeholder(s, name="t") for s in ((1, 1, 2), (1, 1, 3))]
    with pytest.raises(ExpressionError, match="-4 outputs"):
        instantiate("conv_transpose", tensors, pads=(4, 4))
