"""Window functions and the mel filter bank: tensors made from a few numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft import dtypes
from weft.dtypes import DType
from weft.frontend.build import compute, cos, expm1
from weft.frontend.operators.registry import operator
from weft.frontend.scalar_expr import Expr, literal, select
from weft.frontend.tensor_expr import Tensor


@operator("cosine_window")
def cosine_window(
    *, size: int, coefficients: Sequence[float], periodic: bool = True, dtype: DType
) -> Tensor:
    """Σ_k (-1)**k c_k cos(2π k n / N), N being ``size``, or ``size - 1`` where not periodic.

    Hann, Hamming and Blackman windows are sums of two or three such terms.
    """
    period = size if periodic else size - 1
    step = 2 * math.pi / max(period, 1)

    def body(n: Expr) -> Expr:
        value: Expr = literal(coefficients[0], dtypes.float64)
        for k, c in enumerate(coefficients[1:], start=1):
            value = value + cos(n.astype("float64") * (step * k)) * (c * (-1) ** k)
        return value.astype(dtype)

    return compute((size,), body, name="cosine_window")


@operator("mel_weight_matrix")
def mel_weight_matrix(
    *,
    n_mel_bins: int,
    dft_length: int,
    sample_rate: int,
    lower_hertz: float,
    upper_hertz: float,
    dtype: DType,
) -> Tensor:
    """(dft_length // 2 + 1, n_mel_bins): triangular filters, evenly spaced on the mel scale."""
    low, high = (
        2595 * math.log1p(hertz / 700) / math.log(10) for hertz in (lower_hertz, upper_hertz)
    )
    step = (high - low) / (n_mel_bins + 2)

    def corner(k: Expr) -> Expr:
        hertz = expm1((k.astype("float64") * step + low) / 2595 * math.log(10)) * 700
        return (hertz * (dft_length + 1) // sample_rate).astype("int64")

    corners = compute((n_mel_bins + 2,), corner, name="mel_corners")

    def body(i: Expr, j: Expr) -> Expr:
        left, centre, right = (corners[j + k] for k in range(3))
        rise = (i - left).astype("float64") / (centre - left).astype("float64")
        fall = (right - i).astype("float64") / (right - centre).astype("float64")
        falls = select((i > centre) & (i < right), fall, 0)
        rises = select((i >= left) & (i < centre), rise, falls)
        return select(i.equal(centre), literal(1.0, dtypes.float64), rises).astype(dtype)

    return compute((dft_length // 2 + 1, n_mel_bins), body, name="mel_weight_matrix")
