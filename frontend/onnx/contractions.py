"""Handlers of convolutions."""

from __future__ import annotations

from weft.frontend.onnx.context import NodeContext, Results, handler
from weft.frontend.onnx.window import (
    auto_pad,
    integers,
    spatial,
    weights_kernel,
    window_attributes,
)
from weft.ir.tensor_expr import Size


@handler("Conv")
def conv(node: NodeContext) -> Results:
    x, w = node.input(0), node.input(1)
    window = window_attributes(node, weights_kernel(node, w.shape), spatial(node, x.shape))
    return node.call("conv", x, w, node.optional(2), **window, group=group(node))


@handler("ConvTranspose")
def conv_transpose(node: NodeContext) -> Results:
    x, w = node.input(0), node.input(1)
    sizes, kernel = spatial(node, x.shape), weights_kernel(node, w.shape)
    rank = len(sizes)
    strides = integers(node, "strides", rank, default=1, least=1)
    dilations = integers(node, "dilations", rank, default=1, least=1)
    extra = integers(node, "output_padding", rank, default=0, least=0)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    return node.call(
        "conv_transpose",
        x,
        w,
        node.optional(2),
        strides=strides,
        dilations=dilations,
        output_padding=extra,
        pads=_transposed_pads(node, sizes, spans, strides, extra),
        group=group(node),
    )


def _transposed_pads(
    node: NodeContext,
    sizes: tuple[Size, ...],
    spans: list[int],
    strides: tuple[int, ...],
    extra: tuple[int, ...],
) -> tuple[int, ...]:
    """Explicit pads; those that make ``output_shape``, or stride · size for auto_pad SAME."""
    rank, mode, wanted = len(sizes), auto_pad(node), node.attribute("output_shape")
    if wanted is None and not mode.startswith("SAME"):
        if mode == "VALID":
            return (0,) * (2 * rank)
        return integers(node, "pads", 2 * rank, default=0, least=0)
    if wanted is None:
        totals = [span + e - s for span, e, s in zip(spans, extra, strides, strict=True)]
    else:
        wanted = [int(v) for v in wanted][-rank:]
        if len(wanted) != rank or any(v < 0 for v in wanted):
            raise node.malformed(f"output_shape is {wanted}")
        if not all(isinstance(size, int) for size in sizes):
            raise node.unsupported("output_shape where the input's sizes are symbols")
        totals = [
            s * (int(size) - 1) + e + span - v  # type: ignore[arg-type]
            for size, s, e, span, v in zip(sizes, strides, extra, spans, wanted, strict=True)
        ]
    small = [total // 2 for total in totals]
    large = [total - part for total, part in zip(totals, small, strict=True)]
    return (*small, *large) if mode == "SAME_UPPER" else (*large, *small)


def group(node: NodeContext) -> int:
    count = int(node.attribute("group", 1))
    if count < 1:
        raise node.malformed(f"group must be at least 1, got {count}")
    return count


# ---- Handlers of matrix products and Einstein sums.


@handler("MatMul")
def matmul(node: NodeContext) -> Results:
    return node.call("matmul", node.input(0), node.input(1))


@handler("Gemm")
def gemm(node: NodeContext) -> Results:
    """Before opset 7, C broadcast only with ``broadcast=1``; the definition always does."""
    return node.call(
        "gemm",
        node.input(0),
        node.input(1),
        node.optional(2),
        alpha=float(node.attribute("alpha", 1.0)),
        beta=float(node.attribute("beta", 1.0)),
        transpose_a=bool(node.attribute("transA", 0)),
        transpose_b=bool(node.attribute("transB", 0)),
    )


@handler("Einsum")
def einsum(node: NodeContext) -> Results:
    return node.call("einsum", *node.all_inputs(), equation=str(node.required("equation")))
