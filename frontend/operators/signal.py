"""Discrete Fourier transforms as contractions with a table of twiddle factors.

The table depends on no input, so it is folded at compile time. Table, products and sums are
float64 and the result is rounded once: spectra have elements that cancel to almost nothing beside
others that do not, so that float32 sums would leave noise where zeros belong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft.frontend.operators.arguments import axis_index, expect, expect_same, replaced
from weft.frontend.operators.registry import operator
from weft.ir import build, dtypes
from weft.ir.build import compute, cos, expm1, reduce_axis, select, sin
from weft.ir.dtypes import DType
from weft.ir.scalar_expr import Expr, literal
from weft.ir.scalar_expr import select as choose
from weft.ir.tensor_expr import Size, Tensor, constant_size


def _twiddles(rows: int, columns: int, length: int, sign: int) -> Tensor:
    """(k, n, 2): cosine and ``sign`` times sine of 2π k n / length."""

    def body(k: Expr, n: Expr, part: Expr) -> Expr:
        turn = (k * n % max(length, 1)).astype(dtypes.float64)
        angle = turn * (2.0 * math.pi / max(length, 1))
        return select(part.equal(0), cos(angle), sin(angle) * sign)

    return compute((rows, columns, 2), body, name="twiddles")


def _check(x: Tensor, where: str) -> None:
    expect(x.rank >= 2, f"{x.shape} has no signal dimension", where, "WEFT-E0191")
    complex_or_real = constant_size(x.shape[-1]) in (1, 2)
    expect(complex_or_real, f"the last size of {x.shape} is not 1 or 2", where, "WEFT-E0191")
    expect(x.dtype.is_float, f"a signal of {x.dtype}", where, "WEFT-E0192")


@operator("dft")
def dft(x: Tensor, *, length: int, axis: int, inverse: bool, onesided: bool) -> Tensor:
    """The transform of ``x`` (…, 1 or 2: real and imaginary part) along ``axis``: (…, 2).

    The signal is cut or zero-padded to ``length``. ``onesided`` forward gives the first
    length // 2 + 1 frequencies of a real signal; inverse it takes as many and gives (…, 1), real.
    """
    _check(x, "dft")
    axis = axis_index(axis, x.rank, "dft")
    expect(axis < x.rank - 1, "axis holds real and imaginary parts", "dft")
    expect(length > 0, f"length {length} is not positive", "dft")
    real_output = onesided and inverse
    given = constant_size(x.shape[axis])
    expect(given is not None, f"the size of axis {axis} is symbolic", "dft", "WEFT-E0191")
    half = length // 2 + 1
    used = min(given or 0, half if real_output else length)
    points = half if onesided and not inverse else length
    table = _twiddles(points, used, length, 1 if inverse else -1)
    scale = 1.0 / length if inverse else 1.0

    def body(*i: Expr) -> Expr:
        n = reduce_axis((0, used), name="n")
        at = replaced(i[:-1], axis, n)
        value = _complex_product(x, at, table, i[axis], n, i[-1])
        if real_output:
            value = value * _multiplicity(n, length)
        return (build.sum(value, axis=n) * scale).astype(x.dtype)

    shape: tuple[Size, ...] = (*replaced(x.shape[:-1], axis, points), 1 if real_output else 2)
    return compute(shape, body, name="spectrum")


def _multiplicity(n: Expr, length: int) -> Expr:
    """How often frequency ``n`` of a one-sided spectrum counts: twice if it has a mirror image."""
    alone = n.equal(0) | (n * 2).equal(length)
    return select(alone, literal(1.0, dtypes.float64), literal(2.0, dtypes.float64))


def _complex_product(
    x: Tensor, at: tuple[Expr, ...], table: Tensor, k: Expr, n: Expr, part: Expr
) -> Expr:
    """Real (``part`` 0) or imaginary part of element ``at`` of ``x`` times table entry (k, n)."""
    real = x[(*at, literal(0))].astype(dtypes.float64)
    if constant_size(x.shape[-1]) == 1:
        return real * table[k, n, part]
    imaginary = x[(*at, literal(1))].astype(dtypes.float64)
    cosine, sine = table[k, n, 0], table[k, n, 1]
    return select(part.equal(0), real * cosine - imaginary * sine, real * sine + imaginary * cosine)


@operator("stft")
def stft(
    signal: Tensor, window: Tensor | None, *, step: int, length: int, onesided: bool
) -> Tensor:
    """Transforms of the frames of ``length`` samples, ``step`` apart: (batch, frame, frequency, 2).

    ``signal`` is (batch, samples, 1 or 2); ``window`` (length) weights each frame.
    """
    _check(signal, "stft")
    expect(signal.rank == 3, f"{signal.shape} is not (batch, samples, 1 or 2)", "stft")
    expect(step > 0 and length > 0, f"step {step}, length {length}", "stft")
    if window is not None:
        expect_same(window.shape, (length,), "stft")
    batch, samples, _ = signal.shape
    extent = constant_size(samples)
    fits = extent is None or extent >= length
    expect(fits, f"frames of {length} in {samples} samples", "stft", "WEFT-E0191")
    frames = (samples - length) // step + 1
    points = length // 2 + 1 if onesided else length
    table = _twiddles(points, length, length, -1)

    def body(b: Expr, frame: Expr, k: Expr, part: Expr) -> Expr:
        n = reduce_axis((0, length), name="n")
        value = _complex_product(signal, (b, frame * step + n), table, k, n, part)
        weighted = value if window is None else value * window[n].astype(dtypes.float64)
        return build.sum(weighted, axis=n).astype(signal.dtype)

    return compute((batch, frames, points, 2), body, name="frames")


# ---- Window functions and the mel filter bank: tensors made from a few numbers.


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
        falls = choose((i > centre) & (i < right), fall, 0)
        rises = choose((i >= left) & (i < centre), rise, falls)
        return choose(i.equal(centre), literal(1.0, dtypes.float64), rises).astype(dtype)

    return compute((dft_length // 2 + 1, n_mel_bins), body, name="mel_weight_matrix")
