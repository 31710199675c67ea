"""Handlers of Fourier transforms."""

from __future__ import annotations

from weft.frontend.onnx.context import NodeContext, Results, handler
from weft.frontend.onnx.quantization import dtype_attribute
from weft.frontend.onnx.shape import axis_of, static_int
from weft.ir import dtypes
from weft.ir.tensor_expr import constant_size


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


# ---- Handlers of window functions and the mel filter bank, whose inputs are single numbers.


COEFFICIENTS = {
    "HannWindow": (0.5, 0.5),
    "HammingWindow": (25 / 46, 21 / 46),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}


def _number(node: NodeContext, index: int) -> float:
    data = node.static(node.input(index))
    if data.size != 1:
        raise node.malformed(f"input {index} must be one number, its shape is {data.shape}")
    return float(data.reshape(()))


@handler("HannWindow")
@handler("HammingWindow")
@handler("BlackmanWindow")
def window(node: NodeContext) -> Results:
    return node.call(
        "cosine_window",
        size=int(_number(node, 0)),
        coefficients=COEFFICIENTS[node.op_type],
        periodic=bool(node.attribute("periodic", 1)),
        dtype=dtype_attribute(node, "output_datatype", dtypes.float32),
    )


@handler("MelWeightMatrix")
def mel_weight_matrix(node: NodeContext) -> Results:
    n_mel_bins, dft_length, sample_rate = (int(_number(node, i)) for i in range(3))
    lower, upper = _number(node, 3), _number(node, 4)
    if min(n_mel_bins, dft_length) < 0 or sample_rate <= 0 or not -700 < lower <= upper:
        raise node.malformed("bins, lengths and frequencies must be positive and in order")
    return node.call(
        "mel_weight_matrix",
        n_mel_bins=n_mel_bins,
        dft_length=dft_length,
        sample_rate=sample_rate,
        lower_hertz=lower,
        upper_hertz=upper,
        dtype=dtype_attribute(node, "output_datatype", dtypes.float32),
    )
