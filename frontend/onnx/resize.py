"""Handlers of Resize and Upsample: sizes and scales of each axis, then one axis after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from weft.frontend.onnx.context import NodeContext, Results, handler
from weft.frontend.onnx.shape import checked_sizes, open_sizes
from weft.frontend.operators.resize import COORDINATES, NEAREST, RADIUS, Kernel, Sampling
from weft.ir import dtypes
from weft.ir.operator_graph import Value
from weft.ir.tensor_expr import Size


@dataclass(frozen=True, slots=True)
class _Target:
    """What one axis becomes; ``scale`` None means exactly outputs / size."""

    axis: int
    outputs: Size
    scale: float | None


@handler("Upsample")
def upsample_1(node: NodeContext) -> Results:
    scales = [1.0, 1.0, node.required("height_scale"), node.required("width_scale")]
    return _legacy(node, scales)


@handler("Upsample", since=7)
def upsample_7(node: NodeContext) -> Results:
    return _legacy(node, node.required("scales"))


@handler("Upsample", since=9)
@handler("Resize", since=10)
def upsample_9(node: NodeContext) -> Results:
    return _legacy(node, node.static(node.input(1)).tolist())


def _legacy(node: NodeContext, scales: Sequence[float]) -> Results:
    """Before opset 11: asymmetric coordinates, nearest rounding down."""
    mode = str(node.attribute("mode", "nearest"))
    mode = "linear" if mode == "bilinear" else mode
    rank = len(node.input(0).shape)
    targets = _scaled(node, range(rank), scales, [(0.0, 1.0)] * rank, crop=False)
    return _resize(node, targets, {}, Kernel(_mode(node, mode), "floor"), "asymmetric")


@handler("Resize", since=11)
def resize(node: NodeContext) -> Results:
    shape = node.input(0).shape
    axes = _axes(node, len(shape))
    coordinates = str(node.attribute("coordinate_transformation_mode", "half_pixel"))
    nearest = str(node.attribute("nearest_mode", "round_prefer_floor"))
    if coordinates not in COORDINATES or nearest not in NEAREST:
        raise node.malformed(f"coordinates {coordinates!r}, nearest_mode {nearest!r}")
    crop = coordinates == "tf_crop_and_resize"
    roi = _roi(node, len(axes)) if crop else [(0.0, 1.0)] * len(axes)
    scales = _list(node, 2)
    wanted = node.optional(3)
    sizes = None if wanted is None or wanted.shape == (0,) else open_sizes(node, wanted)
    if (scales is None) == (sizes is None):
        raise node.malformed("exactly one of scales and sizes must be given")
    if scales is not None:
        targets = _scaled(node, axes, scales, roi, crop=crop)
    else:
        targets = _sized(node, axes, checked_sizes(node, sizes or ()))
    kernel = Kernel(
        _mode(node, str(node.attribute("mode", "nearest"))),
        nearest,
        float(node.attribute("cubic_coeff_a", -0.75)),
    )
    return _resize(node, targets, dict(zip(axes, roi, strict=True)), kernel, coordinates)


def _mode(node: NodeContext, mode: str) -> str:
    if mode not in RADIUS:
        raise node.malformed(f"mode is {mode!r}, must be one of {', '.join(RADIUS)}")
    return mode


def _axes(node: NodeContext, rank: int) -> list[int]:
    axes = [int(a) for a in node.attribute("axes") or range(rank)]
    if any(not -rank <= a < rank for a in axes) or len({a % rank for a in axes}) != len(axes):
        raise node.malformed(f"axes {axes} of a tensor of rank {rank}")
    return [a % rank for a in axes]


def _list(node: NodeContext, index: int) -> list[float] | None:
    """Input ``index`` as numbers; None where it is absent or empty."""
    value = node.optional(index)
    if value is None or value.shape == (0,):
        return None
    return [float(v) for v in np.ravel(node.static(value))]


def _roi(node: NodeContext, count: int) -> list[tuple[float, float]]:
    given = _list(node, 1)
    if given is None or len(given) != 2 * count:
        raise node.malformed(f"roi must have {2 * count} values for tf_crop_and_resize")
    return list(zip(given[:count], given[count:], strict=True))


def _scaled(
    node: NodeContext,
    axes: Sequence[int],
    scales: Sequence[float],
    roi: Sequence[tuple[float, float]],
    *,
    crop: bool,
) -> list[_Target]:
    if len(scales) != len(axes) or any(not 0 < s < math.inf for s in scales):
        raise node.malformed(f"scales {list(scales)} for {len(axes)} axes")
    shape = node.input(0).shape
    return [
        _Target(a, _times(node, shape[a], s, end - start if crop else 1.0), float(s))
        for a, s, (start, end) in zip(axes, scales, roi, strict=True)
    ]


def _times(node: NodeContext, size: Size, scale: float, part: float) -> Size:
    """floor(size · part · scale); of a symbol only where scale is a simple fraction."""
    if isinstance(size, int):
        return max(0, math.floor(size * part * scale))
    exact = Fraction(scale * part).limit_denominator(1 << 12)
    if not math.isclose(exact, scale * part, rel_tol=1e-6):
        raise node.unsupported(f"a size that is a symbol scaled by {scale}")
    return (size * exact.numerator) // exact.denominator


def _sized(node: NodeContext, axes: Sequence[int], sizes: Sequence[Size]) -> list[_Target]:
    if len(sizes) != len(axes):
        raise node.malformed(f"sizes {list(sizes)} for {len(axes)} axes")
    policy = str(node.attribute("keep_aspect_ratio_policy", "stretch"))
    if policy == "stretch":
        return [_Target(a, s, None) for a, s in zip(axes, sizes, strict=True)]
    given = [node.input(0).shape[a] for a in axes]
    if not all(isinstance(s, int) for s in sizes) or not all(
        isinstance(size, int) and size > 0 for size in given
    ):
        raise node.unsupported("keep_aspect_ratio_policy where sizes are symbols or 0")
    ratios = [int(s) / int(n) for s, n in zip(sizes, given, strict=True)]  # type: ignore[arg-type]
    if policy not in ("not_larger", "not_smaller"):
        raise node.malformed(f"keep_aspect_ratio_policy is {policy!r}")
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return [
        _Target(a, int(scale * int(size) + 0.5), scale)  # type: ignore[arg-type]
        for a, size in zip(axes, given, strict=True)
    ]


def _resize(
    node: NodeContext,
    targets: Sequence[_Target],
    roi: dict[int, tuple[float, float]],
    kernel: Kernel,
    coordinates: str,
) -> Results:
    """Interpolate the axes that change; integers stay in float32 until the last one."""
    x = node.input(0)
    crop = coordinates == "tf_crop_and_resize"
    work = []
    for t in targets:
        whole = roi.get(t.axis, (0.0, 1.0)) == (0.0, 1.0)
        if t.outputs != x.shape[t.axis] or t.scale not in (None, 1.0) or (crop and not whole):
            part = roi.get(t.axis, (0.0, 1.0))
            work.append((t.axis, Sampling(x.shape[t.axis], t.outputs, t.scale, coordinates, part)))
    if not work:
        return node.call("identity", x)
    if kernel.mode == "nearest":
        y = _nearest(node, x, work, kernel)
    else:
        y = _weighted(node, x, work, kernel)
    if not crop:
        return y
    flags = [node.call("resize_outside", sampling=sampling) for _, sampling in work]
    value = float(node.attribute("extrapolation_value", 0.0))
    return node.call("fill_outside", y, *flags, axes=tuple(a for a, _ in work), value=value)


def _nearest(
    node: NodeContext, x: Value, work: Sequence[tuple[int, Sampling]], kernel: Kernel
) -> Value:
    """One quasi-affine read where the positions are one, else a look-up per axis."""
    tables = [
        (axis, node.call("resize_positions", sampling=sampling, kernel=kernel), sampling)
        for axis, sampling in work
    ]
    maps: list[tuple[Any, ...]] = []
    for axis, positions, sampling in tables:
        found = _quasi_affine(node.known(positions), sampling)
        if found is None:
            x = node.call("interpolate", x, positions, None, axis=axis)
        else:
            maps.append((axis, *found, positions.shape[0]))
    return node.call("subsample", x, maps=tuple(maps)) if maps else x


def _quasi_affine(positions: np.ndarray | None, sampling: Sampling) -> tuple[int, int, int] | None:
    """(multiply, add, by) with positions[o] = (o·multiply + add) div by for all o, if there is one.

    With the ratio of sizes fixed, every o bounds ``add`` from both sides.
    """
    if positions is None or not positions.size or not isinstance(sampling.size, int):
        return None
    ratio = Fraction(positions.shape[0], sampling.size)
    if sampling.scale is not None:
        ratio = Fraction(sampling.scale).limit_denominator(1 << 12)
    if ratio <= 0:
        return None
    multiply, by = ratio.denominator, ratio.numerator
    rest = positions[:, 0] * by - np.arange(positions.shape[0]) * multiply
    least, most = int(rest.max()), int(rest.min()) + by - 1
    return (multiply, least, by) if least <= most else None


def _weighted(
    node: NodeContext, x: Value, work: Sequence[tuple[int, Sampling]], kernel: Kernel
) -> Value:
    exclude = bool(node.attribute("exclude_outside", 0))
    antialias = bool(node.attribute("antialias", 0))
    final = x.dtype
    between = final.compute if final.is_float else dtypes.float32
    for n, (axis, sampling) in enumerate(work):
        own = kernel
        if antialias and sampling.outputs != 0:
            scale = sampling.scale
            if scale is None and isinstance(sampling.size, int):
                scale = int(sampling.outputs) / max(sampling.size, 1)  # type: ignore[arg-type]
            if scale is None:
                raise node.unsupported("antialias where sizes are symbols")
            own = Kernel(kernel.mode, kernel.nearest, kernel.cubic, min(scale, 1.0) or 1.0)
        positions = node.call("resize_positions", sampling=sampling, kernel=own)
        weights = node.call(
            "resize_weights", sampling=sampling, kernel=own, dtype=between, exclude_outside=exclude
        )
        dtype = final if n == len(work) - 1 else between
        x = node.call("interpolate", x, positions, weights, axis=axis, dtype=dtype)
    return x
