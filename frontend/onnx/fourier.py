"""Handlers of Fourier transforms."""

from __future__ import annotations

from weft.frontend.onnx.context import NodeContext, Results, handler
from weft.frontend.onnx.shape import axis_of, static_int
from weft.frontend.tensor_expr import constant_size


@handler("DFT", since=17)
def dft(node: NodeContext) -> Results:
    x = node.input(0)
    axis = node.attribute("axis", 1)
    if node.opset >= 20:
        given = node.optional(2)
        axis = -2 if given is None else static_int(node, given)
    axis = axis_of(node, axis, len(x.shape))
    inverse, onesided = bool(node.attribute("inverse", 0)), bool(node.attribute("onesided", 0))
    length = node.optional(1)
    if length is not None:
        points = static_int(node, length)
    else:
        size = constant_size(x.shape[axis])
        if size is None:
            raise node.unsupported("the Fourier transform of a dimension of unknown size")
        points = 2 * (size - 1) if inverse and onesided else size
    return node.call("dft", x, length=points, axis=axis, inverse=inverse, onesided=onesided)


@handler("STFT", since=17)
def stft(node: NodeContext) -> Results:
    signal, window, length = node.input(0), node.optional(2), node.optional(3)
    if length is not None:
        points: int | None = static_int(node, length)
    else:
        points = constant_size(signal.shape[1] if window is None else window.shape[0])
    if points is None:
        raise node.unsupported("Fourier transforms of frames of unknown length")
    return node.call(
        "stft",
        signal,
        window,
        step=static_int(node, node.input(1)),
        length=points,
        onesided=bool(node.attribute("onesided", 1)),
    )
