"""Grid sampling, deformable convolution, regions of interest and col2im against plain loops."""

import itertools

import numpy as np
import pytest

from tests.frontend.operators.run_operator import run
from tests.frontend.operators.run_symbolic import run_symbolic
from weft.frontend.operators.registry import instantiate
from weft.ir.build import placeholder
from weft.ir.errors import ExpressionError

rng = np.random.default_rng(0)


def pixel(image, index, padding, align_corners):
    """The element of ``image`` (c, spatial…) at an integer index, which may lie outside."""
    at = []
    for i, size in zip(index, image.shape[1:], strict=True):
        if padding == "zeros" and not 0 <= i < size:
            return np.zeros(image.shape[0])
        if padding == "reflection":
            while not 0 <= i < size and (size > 1 or not align_corners):
                low, high = (0, 2 * size - 2) if align_corners else (-1, 2 * size - 1)
                i = low - i if i < 0 else high - i
        at.append(min(max(i, 0), size - 1))
    return image[(slice(None), *at)]


def keys(x, a=-0.75):
    x = abs(x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0.0


KERNELS = {"linear": (range(2), lambda x: max(0, 1 - abs(x))), "cubic": (range(-1, 3), keys)}


def interpolated(image, at, mode, padding, align_corners):
    if mode == "nearest":
        return pixel(image, [int(np.rint(v)) for v in at], padding, align_corners)
    taps, kernel = KERNELS[mode]
    base = [int(np.floor(v)) for v in at]
    total = np.zeros(image.shape[0])
    for offsets in itertools.product(taps, repeat=len(at)):
        index = [b + o for b, o in zip(base, offsets, strict=True)]
        weight = np.prod([kernel(i - v) for i, v in zip(index, at, strict=True)])
        total += weight * pixel(image, index, padding, align_corners)
    return total


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("spatial", [(5, 4), (3,), (2, 3, 4), (1, 2)])
def test_grid_sample(mode, padding, align_corners, spatial):
    x = rng.standard_normal((2, 3, *spatial))
    grid = rng.uniform(-1.7, 1.7, (2, *(2,) * len(spatial), len(spatial)))
    result = run("grid_sample", x, grid, mode=mode, padding=padding, align_corners=align_corners)
    for n, *out in np.ndindex(grid.shape[:-1]):
        at = []
        for value, size in zip(grid[(n, *out)][::-1], spatial, strict=True):
            v = (value + 1) / 2 * (size - 1) if align_corners else ((value + 1) * size - 1) / 2
            margin = 0 if align_corners else 0.5
            if padding == "border" and not -margin <= v <= size - 1 + margin:
                v = min(max(v, 0), size - 1)
            at.append(v)
        expected = interpolated(x[n], at, mode, padding, align_corners)
        np.testing.assert_allclose(result[(n, slice(None), *out)], expected, atol=1e-12)


@pytest.mark.parametrize("kind", ["bool", "uint8", "int64", "float16", "float64"])
@pytest.mark.parametrize("place", ["float16", "float32", "float64"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_images_and_grids_of_any_types(kind, place, mode):
    """Coordinates are exact in both; what is interpolated is cut to whole numbers at the end."""
    x = (rng.standard_normal((1, 2, 3, 5)) * 20).astype(np.int64) % 100
    grid = rng.integers(-4, 5, (1, 4, 2, 2)) / 4
    result = run("grid_sample", x.astype(kind), grid.astype(place), mode=mode, align_corners=True)
    wide = run("grid_sample", x.astype(kind).astype(float), grid, mode=mode, align_corners=True)
    np.testing.assert_allclose(result, wide.astype(kind), rtol=1e-3 if kind == "float16" else 1e-6)


def test_infinite_coordinates_stay_inside():
    x = rng.standard_normal((1, 1, 3, 3))
    grid = np.array([np.inf, -np.inf, 1e30, np.nan, 0, 0]).reshape(1, 1, 3, 2)
    for padding in ("zeros", "border", "reflection"):
        result = run("grid_sample", x, grid, mode="nearest", padding=padding)
        assert np.isfinite(result[0, 0, 0, 2])
    assert run("grid_sample", x, grid, mode="nearest")[0, 0, 0, 0] == 0


def test_grid_sample_of_symbolic_sizes():
    x, grid = rng.standard_normal((2, 3, 4, 5)), rng.uniform(-1, 1, (2, 6, 7, 2))
    names = {0: {0: "n", 2: "h", 3: "w"}, 1: {0: "n", 1: "oh"}}
    np.testing.assert_array_equal(
        run_symbolic("grid_sample", x, grid, sizes=names), run("grid_sample", x, grid)
    )


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("sizes", [(3, 4), (1, 5), (2, 1, 3), (2, 0, 3)])
@pytest.mark.parametrize("batch", [1, 2])
def test_affine_grid(align_corners, sizes, batch):
    rank = len(sizes)
    theta = rng.standard_normal((batch, rank, rank + 1))
    result = run("affine_grid", theta, sizes=sizes, align_corners=align_corners)
    assert result.shape == (batch, *sizes, rank)
    for n, *index in np.ndindex(batch, *sizes):
        ends = [np.linspace(-1, 1, s) for s in sizes]
        cells = [np.linspace(-1 + 1 / s, 1 - 1 / s, s) if s else [] for s in sizes]
        at = [(ends if align_corners else cells)[d][i] for d, i in enumerate(index)]
        expected = theta[n] @ [*at[::-1], 1.0]
        np.testing.assert_allclose(result[(n, *index)], expected, atol=1e-12)


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("masked", [False, True])
def test_deform_conv(group, masked):
    x, w = rng.standard_normal((2, 4, 6, 5)), rng.standard_normal((6, 4 // group, 3, 2))
    strides, pads, dilations, offset_group = (2, 1), (1, 0, 2, 1), (1, 2), 2
    outputs = ((6 + 3 - 3) // 2 + 1, (5 + 1 - 3) // 1 + 1)
    offset = rng.uniform(-2, 2, (2, offset_group * 3 * 2 * 2, *outputs))
    mask = rng.random((2, offset_group * 3 * 2, *outputs)) if masked else None
    bias = rng.standard_normal(6)
    result = run("deform_conv", x, w, offset, bias, mask, strides=strides, pads=pads,
                 dilations=dilations, group=group, offset_group=offset_group)  # fmt: skip
    expected = np.zeros((2, 6, *outputs)) + bias.reshape(-1, 1, 1)
    for n, k, oh, ow, c, r, s in np.ndindex(2, 6, *outputs, 4 // group, 3, 2):
        channel = (k // (6 // group)) * (4 // group) + c
        tap = (channel // (4 // offset_group)) * 6 + r * 2 + s
        at = (
            oh * strides[0] - pads[0] + r * dilations[0] + offset[n, tap * 2, oh, ow],
            ow * strides[1] - pads[1] + s * dilations[1] + offset[n, tap * 2 + 1, oh, ow],
        )
        value = interpolated(x[n, channel : channel + 1], at, "linear", "zeros", False)[0]
        factor = 1.0 if mask is None else mask[n, tap, oh, ow]
        expected[n, k, oh, ow] += value * factor * w[k, c, r, s]
    np.testing.assert_allclose(result, expected, atol=1e-11)


def test_no_offset_is_an_ordinary_convolution():
    x, w = rng.standard_normal((1, 2, 6, 7)), rng.standard_normal((3, 2, 3, 3))
    offset = np.zeros((1, 18, 4, 5))
    np.testing.assert_allclose(run("deform_conv", x, w, offset), run("conv", x, w), atol=1e-12)


@pytest.mark.parametrize("half_pixel", [False, True])
@pytest.mark.parametrize("adaptive", [False, True])
def test_roi_align(half_pixel, adaptive):
    x = rng.standard_normal((2, 3, 8, 9))
    rois = np.array([[0, 0, 8, 7], [1.3, 2.2, 5.9, 6.1], [-3, -2, 20, 18], [4, 4, 4.2, 4.1]])
    batch, outputs, scale = np.array([0, 1, 1, 0]), (3, 2), 0.9
    samples = (12, 12) if adaptive else (2, 3)
    result = run("roi_align", x, rois, batch, outputs=outputs, samples=samples,
                 adaptive=adaptive, scale=scale, half_pixel=half_pixel)  # fmt: skip
    for n, ph, pw in np.ndindex(len(rois), *outputs):
        axes = []
        for d, bin_ in ((0, ph), (1, pw)):
            start, end = rois[n, 1 - d] * scale, rois[n, 3 - d] * scale
            start, end = (start - 0.5, end - 0.5) if half_pixel else (start, end)
            size = end - start if half_pixel else max(end - start, 1.0)
            bins = size / outputs[d]
            count = int(np.ceil(bins)) if adaptive else samples[d]
            axes.append([start + bins * (bin_ + (i + 0.5) / count) for i in range(count)])
        values = []
        for y, z in itertools.product(*axes):
            if not (-1 <= y <= 8 and -1 <= z <= 9):
                values.append(np.zeros(3))
                continue
            at = (min(max(y, 0), 7), min(max(z, 0), 8))
            values.append(interpolated(x[batch[n]], at, "linear", "border", True))
        np.testing.assert_allclose(result[n, :, ph, pw], np.mean(values, 0), atol=1e-12)


def test_max_roi_pool():
    x = rng.standard_normal((2, 3, 7, 9))
    rois = np.array([[0, 0, 0, 8, 6], [1, 2, 1, 5, 3], [0, 3, 3, 3, 3], [1, 6, 4, 30, 30]], float)
    result = run("max_roi_pool", x, rois, outputs=(3, 2), scale=0.75)
    for n, ph, pw in np.ndindex(4, 3, 2):
        spans = []
        for d, bin_, count in ((0, ph, 3), (1, pw, 2)):
            low, high = (np.floor(rois[n, c] * 0.75 + 0.5) for c in (2 - d, 4 - d))
            size = max(high - low + 1, 1) / count
            first = int(np.clip(np.floor(bin_ * size) + low, 0, x.shape[2 + d]))
            past = int(np.clip(np.ceil((bin_ + 1) * size) + low, 0, x.shape[2 + d]))
            spans.append(slice(first, past))
        part = x[int(rois[n, 0])][(slice(None), *spans)].reshape(3, -1)
        expected = part.max(1) if part.size else np.zeros(3)
        np.testing.assert_array_equal(result[n, :, ph, pw], expected)


@pytest.mark.parametrize(
    ("image", "block", "strides", "pads", "dilations"),
    [
        ((5, 6), (2, 3), (1, 1), (0, 0, 0, 0), (1, 1)),
        ((5, 6), (2, 2), (3, 2), (1, 0, 0, 2), (1, 1)),
        ((7, 5), (3, 2), (1, 2), (1, 1, 1, 1), (2, 3)),
        ((9,), (4,), (2,), (1, 2), (1,)),
        ((3, 4, 2), (2, 2, 1), (1, 2, 1), (0, 0, 0, 0, 0, 0), (1, 1, 1)),
    ],
)
def test_col2im(image, block, strides, pads, dilations):
    rank = len(image)
    counts = [
        (image[d] + pads[d] + pads[rank + d] - (block[d] - 1) * dilations[d] - 1) // strides[d] + 1
        for d in range(rank)
    ]
    x = rng.standard_normal((2, 3 * int(np.prod(block)), int(np.prod(counts))))
    columns = x.reshape(2, 3, *block, *counts)
    expected = np.zeros((2, 3, *image))
    for at in np.ndindex(*block, *counts):
        place = [at[rank + d] * strides[d] + at[d] * dilations[d] - pads[d] for d in range(rank)]
        if all(0 <= p < s for p, s in zip(place, image, strict=True)):
            expected[(..., *place)] += columns[(..., *at)]
    result = run("col2im", x, image=image, block=block, strides=strides, pads=pads,
                 dilations=dilations)  # fmt: skip
    np.testing.assert_allclose(result, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("op", "shapes", "attributes"),
    [
        ("grid_sample", [(1, 1, 4, 4), (1, 2, 2, 3)], {}),
        ("grid_sample", [(1, 1, 4, 4), (2, 2, 2, 2)], {}),
        ("grid_sample", [(1, 1, 4, 4), (1, 2, 2, 2)], {"mode": "quintic"}),
        ("deform_conv", [(1, 2, 4, 4), (2, 2, 3, 3), (1, 9, 2, 2)], {}),
        ("deform_conv", [(1, 2, 4, 4), (2, 2, 3, 3), (1, 18, 2, 2)], {"offset_group": 0}),
        ("roi_align", [(1, 1, 4, 4), (2, 5), (2,)], {"outputs": (1, 1), "samples": (1, 1)}),
        ("max_roi_pool", [(1, 1, 4, 4), (2, 5)], {"outputs": (0, 1)}),
        ("col2im", [(1, 5, 4)], {"image": (3, 3), "block": (2, 2)}),
        ("col2im", [(1, 4, 5)], {"image": (3, 3), "block": (2, 2)}),
    ],
)
def test_what_does_not_fit_is_refused(op, shapes, attributes):
    tensors = [placeholder(s, name=f"x{n}") for n, s in enumerate(shapes)]
    with pytest.raises(ExpressionError):
        instantiate(op, tensors, **attributes)
