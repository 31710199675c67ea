"""Random nodes that look at windows of images, sample them, or normalise over axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.end_to_end.random_models import F32, I64, Growing, Refused
from tests.end_to_end.random_operators import makes, number

I8, U8 = np.dtype(np.int8), np.dtype(np.uint8)


def window(g: Growing, space: list[int], *, transposed: bool = False) -> dict[str, Any]:
    """Kernel, strides, dilations and pads of every kind."""
    n = len(space)
    kernel = [int(g.rng.integers(1, max(2, min(k, 4) + 1))) for k in space]
    found: dict[str, Any] = {"kernel_shape": kernel}
    apart = [
        g.choice(1, 2) if 2 * k - 1 <= size else 1 for k, size in zip(kernel, space, strict=True)
    ]
    found |= g.some(strides=g.integers(1, 3, n)) | g.some(dilations=apart)
    if g.chance(0.3):
        found["auto_pad"] = g.choice("SAME_UPPER", "SAME_LOWER", "VALID")
    elif g.chance(0.7):
        found["pads"] = [int(g.rng.integers(0, k + 2 * transposed)) for k in kernel * 2]
    return found


def image(
    g: Growing, op_type: str, k: int = 0, ranks: tuple[int, int] = (3, 5), **types: Any
) -> str:
    x = g.tensor(op_type, k, *ranks, most=8, **types)
    if not g.values[x].size and g.values[x].shape[1] == 0:
        raise Refused("no channels")
    return x


def filters(
    g: Growing, x: str, kernel: list[int], transposed: bool = False
) -> tuple[list[int], int]:
    """The shape of weights for ``x``, and the number of groups."""
    channels = g.values[x].shape[1]
    groups = g.choice(*(d for d in range(1, channels + 1) if channels % d == 0), 1)
    out = g.size(5)
    if transposed:
        return [channels, out, *kernel], groups
    return [groups * out, channels // groups, *kernel], groups


@makes("Conv", "ConvTranspose")
def conv(g: Growing, op_type: str) -> None:
    x = image(g, op_type)
    transposed = op_type == "ConvTranspose"
    space, dtype = list(g.values[x].shape[2:]), g.values[x].dtype
    found = window(g, space, transposed=transposed)
    shape, groups = filters(g, x, found["kernel_shape"], transposed)
    reads = [x, g.weight(shape, int(np.prod(shape[1:])), dtype)]
    if g.chance(0.5):
        reads.append(g.weight([shape[1] * groups if transposed else shape[0]], 1, dtype))
    if transposed and "strides" in found and g.chance(0.4):
        found["output_padding"] = [int(g.rng.integers(0, n)) for n in found["strides"]]
    elif transposed and "auto_pad" not in found and g.chance(0.2):
        found.pop("pads", None)
        found["output_shape"] = [n * 2 for n in space]
    if g.chance(0.3):
        found.pop("kernel_shape")
    g.add(op_type, *reads, group=groups, **found)


@makes("ConvInteger", "QLinearConv")
def integer_conv(g: Growing, op_type: str) -> None:
    x = image(g, op_type)
    space = list(g.values[x].shape[2:])
    found = window(g, space)
    shape, groups = filters(g, x, found["kernel_shape"])
    kind = g.choice(I8, U8)
    w, zero = g.weight(shape, 1, kind), g.fixed(g.choice(0, 3), g.values[x].dtype)
    if op_type == "ConvInteger":
        g.add(
            op_type,
            x,
            w,
            zero,
            *([g.fixed(2, kind)] if g.chance(0.5) else []),
            group=groups,
            **found,
        )
        return
    scale = g.fixed(g.choice(0.0625, 0.25))
    wide = g.fixed(2.0 ** -g.rng.integers(1, 5, g.choice((), (shape[0],))))
    zeros = g.fixed(np.zeros(g.values[wide].shape), kind)
    reads = [
        x,
        scale,
        zero,
        w,
        wide,
        zeros,
        g.fixed(0.5),
        g.fixed(g.choice(0, 5), g.values[x].dtype),
    ]
    if g.chance(0.5):
        reads.append(g.weight([shape[0]], 1, np.dtype(np.int32)))
    g.add(op_type, *reads, group=groups, **found)


@makes("AveragePool", "MaxPool", "LpPool")
def pool(g: Growing, op_type: str) -> None:
    x = image(g, op_type)
    found = window(g, list(g.values[x].shape[2:]))
    if op_type == "AveragePool":
        found |= g.some(count_include_pad=int(g.chance(0.5)))
    if op_type == "LpPool":
        found |= g.some(p=g.choice(1, 2, 3))
    known = g._schema(op_type, "").attributes
    found |= {"ceil_mode": 1} if g.chance(0.4) else {}
    found |= {"storage_order": 1} if g.chance(0.1) else {}
    outputs = 2 if op_type == "MaxPool" and g.chance(0.3) else 1
    g.add(op_type, x, outputs=outputs, **{k: v for k, v in found.items() if k in known})


@makes("MaxUnpool")
def unpool(g: Growing, op_type: str) -> None:
    """Of a pool without overlaps and rests, whose indices are those of the result."""
    kernel, (n, c, *space) = g.integers(1, 3, 2), g.shape(4, 5)
    x = g.weight([n, c, *(a * b for a, b in zip(kernel, space, strict=True))])
    y, places = g.add("MaxPool", x, outputs=2, kernel_shape=kernel, strides=kernel)
    size = {"output_shape": np.asarray(g.values[x].shape)} if g.chance(0.4) else {}
    g.add(op_type, y, places, kernel_shape=kernel, strides=kernel, **size)


@makes("MaxRoiPool", "RoiAlign")
def regions(g: Growing, op_type: str) -> None:
    x = image(g, op_type, ranks=(4, 4))
    batch, _, height, width = g.values[x].shape
    n = g.size(4)
    corners = np.sort(g.rng.integers(0, 2 * max(height, width), (n, 2, 2)), 1).reshape(n, 4)
    dtype, images = g.values[x].dtype, g.rng.integers(0, batch, n)
    scale = g.choice(0.5, 1.0, 0.25)
    if op_type == "MaxRoiPool":
        rois = np.concatenate([images[:, None], corners], 1)
        g.add(
            op_type, x, g.fixed(rois, dtype), pooled_shape=g.integers(1, 3, 2), spatial_scale=scale
        )
        return
    mode = {"coordinate_transformation_mode": g.choice("half_pixel", "output_half_pixel")}
    sizes = g.some(output_height=g.size(3), output_width=g.size(3), mode=g.choice("avg", "max"),
                   sampling_ratio=g.choice(0, 1, 2), **(mode if g.opset >= 16 else {}))  # fmt: skip
    g.add(
        op_type,
        x,
        g.fixed(corners + 0.3, dtype),
        g.fixed(images, I64),
        spatial_scale=scale,
        **sizes,
    )


@makes("DeformConv")
def deform_conv(g: Growing, op_type: str) -> None:
    x = image(g, op_type, ranks=(4, 4))
    n, _, *space = g.values[x].shape
    dtype = g.values[x].dtype
    found = window(g, space)
    found.pop("auto_pad", None)
    kernel = found["kernel_shape"]
    shape, groups = filters(g, x, kernel)
    strides, dilations = (found.get(name, [1, 1]) for name in ("strides", "dilations"))
    pads = found.get("pads", [0] * 4)
    out = [
        max(
            0,
            (space[d] + pads[d] + pads[d + 2] - dilations[d] * (kernel[d] - 1) - 1) // strides[d]
            + 1,
        )
        for d in range(2)
    ]
    taps = kernel[0] * kernel[1]
    reads = [x, g.weight(shape, taps, dtype), g.weight([n, 2 * taps, *out], 1, dtype)]
    if g.chance(0.5):
        reads += [
            g.weight([shape[0]], 1, dtype),
            *([g.weight([n, taps, *out], 1, dtype)] if g.chance(0.5) else []),
        ]
    g.add(op_type, *reads, group=groups, **found)


@makes("Col2Im")
def col2im(g: Growing, op_type: str) -> None:
    space, block = [g.size(7) + 2 for _ in range(2)], g.integers(1, 3, 2)
    found = {
        "strides": g.integers(1, 2, 2),
        "dilations": g.integers(1, 2, 2),
        "pads": g.integers(0, 1, 4),
    }
    count = 1
    for d in range(2):
        span = (
            space[d]
            + found["pads"][d]
            + found["pads"][d + 2]
            - found["dilations"][d] * (block[d] - 1)
            - 1
        )
        count *= max(0, span // found["strides"][d] + 1)
    x = g.weight(
        [g.size(2), g.size(3) * block[0] * block[1], count], 1, g.choice(*g.types(op_type))
    )
    g.add(op_type, x, image_shape=space, block_shape=block, **found)


@makes("GridSample", "AffineGrid")
def sampling(g: Growing, op_type: str) -> None:
    align = g.some(align_corners=int(g.chance(0.5)))
    if op_type == "AffineGrid":
        d = g.choice(2, 3)
        n, c, *space = g.shape(2 + d, 4)
        dtype = g.choice(*g.types(op_type))
        g.add(op_type, g.weight([n, d, d + 1], 1, dtype), size=[n, c, *space], **align)
        return
    x = image(g, op_type, ranks=(4, 5))
    n, d = g.values[x].shape[0], g.values[x].ndim - 2
    grid = g.weight([n, *g.shape(d, 5), d], 1, g.choice(*g.types(op_type, 1)))
    modes = ("bilinear", "nearest", "bicubic") if g.opset < 20 else ("linear", "nearest", "cubic")
    g.add(
        op_type,
        x,
        grid,
        **align,
        **g.some(mode=g.choice(*modes), padding_mode=g.choice("zeros", "border", "reflection")),
    )


@makes("Resize", "Upsample")
def resize(g: Growing, op_type: str) -> None:
    x = image(g, op_type, ranks=(2, 4))
    shape = g.values[x].shape
    scales = [g.choice(1.0, 1.0, 2.0, 1.5, 0.6, 3.0) for _ in shape]
    if op_type == "Upsample":
        scales = [max(1.0, s) for s in scales]
        scales[:2] = [1.0] * min(2, len(scales))
        g.add(op_type, x, scales=scales, mode=g.choice("nearest", "linear"))
        return
    mode = g.choice("nearest", "linear", "cubic")
    scales[:2] = [1.0] * min(2, len(scales)) if mode == "cubic" or g.chance(0.5) else scales[:2]
    if g.opset < 11:
        g.add(op_type, x, scales=scales, mode=g.choice("nearest", "linear"))
        return
    modes = [
        "half_pixel",
        "asymmetric",
        "align_corners",
        "pytorch_half_pixel",
        "tf_crop_and_resize",
    ]
    modes += ["half_pixel_symmetric"] * (g.opset >= 19)
    found = g.some(coordinate_transformation_mode=g.choice(*modes))
    found |= (
        {"nearest_mode": g.choice("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")}
        if mode == "nearest"
        else {}
    )
    found |= (
        g.some(cubic_coeff_a=-0.5, exclude_outside=int(g.chance(0.5))) if mode == "cubic" else {}
    )
    if g.opset >= 18 and mode != "nearest" and g.chance(0.3):
        found["antialias"] = 1
    kept = list(range(len(shape)))
    if g.opset >= 18 and g.chance(0.3):
        kept = kept[-2:]
        found["axes"] = kept
        if g.chance(0.5):
            found["keep_aspect_ratio_policy"] = g.choice("not_larger", "not_smaller", "stretch")
    if found.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        found["roi"] = np.asarray([0.1] * len(kept) + [0.9] * len(kept), np.float32)
        found |= g.some(extrapolation_value=1.5)
    if "keep_aspect_ratio_policy" in found or g.chance(0.4):
        found["sizes"] = [max(1, int(shape[k] * scales[k])) for k in kept]
    else:
        found["scales"] = np.asarray([scales[k] for k in kept], np.float32)
    if g.opset < 13:
        found.setdefault("roi", np.zeros(0, np.float32))
        found.setdefault("scales", np.zeros(0, np.float32))
    g.add(op_type, x, mode=mode, **found)


@makes("BatchNormalization", "InstanceNormalization", "GroupNormalization", "LRN",
       "MeanVarianceNormalization")  # fmt: skip
def channel_norm(g: Growing, op_type: str) -> None:
    x = image(g, op_type, ranks=(2 if op_type == "BatchNormalization" else 3, 5))
    channels, dtype = g.values[x].shape[1], g.values[x].dtype
    if op_type == "LRN":
        g.add(op_type, x, size=g.choice(1, 2, 3, 5), **g.some(alpha=0.01, beta=0.5, bias=2.0))
        return
    if op_type == "MeanVarianceNormalization":
        axes = {"axes": g.axes(x, 1)}
        g.add(op_type, x, **(g.some(**axes) if g.values[x].ndim > 3 else axes))
        return
    groups = g.choice(*(d for d in range(1, channels + 1) if channels % d == 0))
    count = groups if op_type == "GroupNormalization" and g.opset < 21 else channels
    reads = [x, g.weight([count], 1, dtype), g.weight([count], 1, dtype)]
    extra = g.some(epsilon=0.01)
    if op_type == "BatchNormalization":
        reads += [g.weight([channels], 1, dtype), g.fixed(g.rng.random(channels) + 0.5, dtype)]
        if g.opset >= 14 and g.chance(0.2):
            g.add(op_type, *reads, outputs=3, training_mode=1, **extra, **g.some(momentum=0.7))
            return
    elif op_type == "GroupNormalization":
        extra["num_groups"] = groups
    g.add(op_type, *reads, **extra)


@makes("LayerNormalization", "RMSNormalization")
def layer_norm(g: Growing, op_type: str) -> None:
    x = g.tensor(op_type, 0, 1)
    axis, dtype = g.axis(x), g.values[x].dtype
    shape = g.values[x].shape[axis:]
    reads = [x, g.weight(shape, 1, dtype)]
    outputs = 1
    if op_type == "LayerNormalization":
        reads += [g.weight(shape, 1, dtype)] if g.chance(0.5) else []
        outputs = g.choice(1, 1, 3)
    g.add(op_type, *reads, outputs=outputs, axis=axis, **g.some(epsilon=0.01))


@makes("Dropout")
def dropout(g: Growing, op_type: str) -> None:
    g.add(op_type, g.tensor(op_type), outputs=g.choice(1, 2) if g.opset >= 12 else 1)


@makes(
    "RandomNormal",
    "RandomUniform",
    "RandomNormalLike",
    "RandomUniformLike",
    "Bernoulli",
    "Multinomial",
)
def random_numbers(g: Growing, op_type: str) -> None:
    """What is known of random numbers: that each is what it is, whoever reads it."""
    dtype = number(g.choice(F32, np.dtype(np.float16), np.dtype(np.float64)))
    extra: dict[str, Any] = g.some(seed=3.0)
    if op_type == "Multinomial":
        x = g.weight([g.size(4), g.size(5)])
        (y,) = g.add(op_type, x, sample_size=g.size(7), **extra)
    elif op_type == "Bernoulli":
        (y,) = g.add(op_type, g.fixed(g.rng.random(g.shape(2))), dtype=dtype, **extra)
    elif op_type.endswith("Like"):
        (y,) = g.add(op_type, g.tensor(op_type, 0, 1), dtype=dtype, **extra)
    else:
        (y,) = g.add(op_type, shape=g.shape(g.choice(1, 2, 3)), dtype=dtype, **extra)
    g.private.add(y)
    g.add("Equal" if g.opset >= 11 else "Sub", y, y)
