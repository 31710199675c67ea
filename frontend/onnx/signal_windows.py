"""Handlers of window functions and the mel filter bank, whose inputs are single numbers."""

from __future__ import annotations

from weft import dtypes
from weft.frontend.onnx.cast import dtype_attribute
from weft.frontend.onnx.context import NodeContext, Results, handler

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
