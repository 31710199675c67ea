"""Handlers of grid sampling, deformable convolution, regions of interest and Col2Im."""

from __future__ import annotations

import numpy as np

from weft.frontend.onnx.context import NodeContext, Results, handler
from weft.frontend.onnx.contractions import group
from weft.frontend.onnx.shape import static_ints
from weft.frontend.onnx.window import integers, spatial, weights_kernel, window_attributes
from weft.ir import dtypes
from weft.ir.tensor_expr import constant_size


@handler("GridSample")
def grid_sample(node: NodeContext) -> Results:
    mode = str(node.attribute("mode", "linear"))
    padding = str(node.attribute("padding_mode", "zeros"))
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    if mode not in ("linear", "nearest", "cubic"):
        raise node.malformed(f"mode is {mode!r}")
    if padding not in ("zeros", "border", "reflection"):
        raise node.malformed(f"padding_mode is {padding!r}")
    return node.call(
        "grid_sample",
        node.input(0),
        node.input(1),
        mode=mode,
        padding=padding,
        align_corners=bool(node.attribute("align_corners", 0)),
    )


@handler("AffineGrid")
def affine_grid(node: NodeContext) -> Results:
    """The standard's own definition goes wrong for one map, and for empty grids."""
    theta, size = node.input(0), static_ints(node, node.input(1))
    if len(size) not in (4, 5) or min(size) < 0:
        raise node.malformed(f"size {size} is not that of images or volumes")
    if constant_size(theta.shape[0]) not in (size[0], None):
        raise node.malformed(f"{theta.shape[0]} maps for a batch of {size[0]}")
    align = bool(node.attribute("align_corners", 0))
    return node.call("affine_grid", theta, sizes=tuple(size[2:]), align_corners=align)


@handler("DeformConv")
def deform_conv(node: NodeContext) -> Results:
    x, w, offset = (node.input(i) for i in range(3))
    window = window_attributes(node, weights_kernel(node, w.shape), spatial(node, x.shape))
    offset_group = int(node.attribute("offset_group", 1))
    if offset_group < 1:
        raise node.malformed(f"offset_group must be at least 1, got {offset_group}")
    return node.call(
        "deform_conv",
        x,
        w,
        offset,
        node.optional(3),
        node.optional(4),
        **window,
        group=group(node),
        offset_group=offset_group,
    )


@handler("RoiAlign")
def roi_align_10(node: NodeContext) -> Results:
    return _roi_align(node, half_pixel=False)


@handler("RoiAlign", since=16)
def roi_align(node: NodeContext) -> Results:
    coordinates = str(node.attribute("coordinate_transformation_mode", "half_pixel"))
    if coordinates not in ("half_pixel", "output_half_pixel"):
        raise node.malformed(f"coordinate_transformation_mode is {coordinates!r}")
    return _roi_align(node, half_pixel=coordinates == "half_pixel")


def _roi_align(node: NodeContext, *, half_pixel: bool) -> Results:
    x, rois, batch_indices = (node.input(i) for i in range(3))
    outputs = (int(node.attribute("output_height", 1)), int(node.attribute("output_width", 1)))
    ratio, scale = int(node.attribute("sampling_ratio", 0)), _scale(node)
    mode = str(node.attribute("mode", "avg"))
    if min(outputs) < 1 or ratio < 0 or mode not in ("avg", "max"):
        raise node.malformed(f"outputs {outputs}, sampling_ratio {ratio}, mode {mode!r}")
    samples = (ratio, ratio)
    if ratio == 0:
        samples = _most_samples(node, node.static(rois), outputs, scale)
    return node.call(
        "roi_align",
        x,
        rois,
        batch_indices,
        outputs=outputs,
        samples=samples,
        adaptive=ratio == 0,
        scale=scale,
        half_pixel=half_pixel,
        mode=mode,
    )


def _most_samples(
    node: NodeContext, rois: np.ndarray, outputs: tuple[int, int], scale: float
) -> tuple[int, int]:
    """How many samples, per dimension, the bins of the largest region take."""
    if not rois.size:
        return 1, 1
    if rois.ndim != 2 or rois.shape[1] != 4 or not np.isfinite(rois).all():
        raise node.malformed("rois must be finite and have 4 columns")
    sizes = np.maximum((rois[:, 2:] - rois[:, :2]).astype(np.float64) * scale, 1.0).max(axis=0)
    bins = sizes[::-1] / np.array(outputs)
    most = [int(count) + 1 for count in np.ceil(bins)]
    if max(most) > 1 << 12:
        raise node.unsupported(f"regions that take {max(most)} samples per bin")
    return most[0], most[1]


@handler("MaxRoiPool")
def max_roi_pool(node: NodeContext) -> Results:
    outputs = tuple(int(v) for v in node.required("pooled_shape"))
    if len(outputs) != 2 or min(outputs) < 1:
        raise node.malformed(f"pooled_shape is {list(outputs)}")
    return node.call(
        "max_roi_pool", node.input(0), node.input(1), outputs=outputs, scale=_scale(node)
    )


def _scale(node: NodeContext) -> float:
    return float(node.attribute("spatial_scale", 1.0))


@handler("Col2Im")
def col2im(node: NodeContext) -> Results:
    image = tuple(int(v) for v in node.static(node.input(1)))
    block = tuple(int(v) for v in node.static(node.input(2)))
    rank, x = len(image), node.input(0)
    if len(block) != rank or min((*image, *block), default=0) < 1:
        raise node.malformed(f"image {list(image)} of blocks {list(block)}")
    flags = x.dtype == dtypes.bool_
    summed = node.call(
        "col2im",
        node.call("cast", x, to=dtypes.int32) if flags else x,
        image=image,
        block=block,
        strides=integers(node, "strides", rank, default=1, least=1),
        dilations=integers(node, "dilations", rank, default=1, least=1),
        pads=integers(node, "pads", 2 * rank, default=0, least=0),
    )
    return node.call("cast", summed, to=x.dtype) if flags else summed
