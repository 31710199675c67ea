"""Powers of two as the scales of symmetric int8: x is an integer q with x ≈ q * 2**exponent.

q lies in -127 … 127, so that a range and its negative are one. Of the exponents for given data,
that one is chosen which makes the least squared error: a finer one than the largest magnitude asks
for rounds all others better and saturates a few. (Migacz, "8-bit inference with TensorRT", 2017,
has the same trade by relative entropy; Esser et al., "Learned step size quantization", learn it.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import frexp

import numpy as np

LARGEST = 127  # magnitude of a quantised number
FINER = 4  # exponents below that of the largest magnitude that are looked at
MOST = 100  # magnitude of an exponent: 2**-MOST and its inverse are ordinary float32


def fitting(peak: float) -> int:
    """The least exponent at which ``peak`` > 0 does not saturate."""
    exponent = frexp(peak)[1] - 7  # peak is 64 to 128 times as large
    return exponent + (round(peak * 2.0**-exponent) > LARGEST)


def integers(data: np.ndarray, exponent: int, largest: int = LARGEST) -> np.ndarray:
    """``data`` as float64 integers at ``exponent``, ties to even, saturated at ±``largest``."""
    scaled = np.rint(np.ldexp(data.astype(np.float64, copy=False), -exponent))
    return np.clip(scaled, -largest, largest)


def noise(data: np.ndarray, exponent: int) -> float:
    """The sum of squares of what int8 at ``exponent`` makes wrong in ``data``."""
    wrong = np.ldexp(integers(data, exponent), exponent)
    wrong -= data
    return float(np.vdot(wrong, wrong))


@dataclass(frozen=True, slots=True)
class Scale:
    """What was seen of a value: the best exponent, and the power of its signal to rounding noise.

    ``exponent`` is None where all of it was 0, so that nothing is known. ``decibels``: 10 times the
    decimal logarithm of signal over noise, infinity where nothing is lost.
    """

    exponent: int | None
    decibels: float = float("inf")


def scales_of(
    peaks: Mapping[str, float], runs: Iterable[Mapping[str, np.ndarray]]
) -> dict[str, Scale]:
    """The scales of least squared error, by name, of what ``runs`` compute (each is read once), of
    magnitudes ``peaks``."""
    choices = {name: _choices(peak) for name, peak in peaks.items()}
    wrong = {name: np.zeros(len(exponents)) for name, exponents in choices.items()}
    signal = dict.fromkeys(peaks, 0.0)
    for values in runs:
        for name, exponents in choices.items():
            data = values[name].astype(np.float64).reshape(-1)
            signal[name] += float(np.vdot(data, data))
            wrong[name] += [noise(data, exponent) for exponent in exponents]
    return {name: _best(choices[name], wrong[name], signal[name]) for name in peaks}


def _choices(peak: float) -> range:
    """The exponents that are looked at, the coarsest first; none for values that are all 0."""
    if not peak:
        return range(0)
    top = min(max(fitting(peak), FINER - MOST), MOST)
    return range(top, top - FINER, -1)


def _best(exponents: range, wrong: np.ndarray, signal: float) -> Scale:
    if not exponents:
        return Scale(None)
    best = int(np.argmin(wrong))  # the coarsest of several
    lost = float(wrong[best])
    decibels = 10 * np.log10(signal / lost) if lost and signal else float("inf")
    return Scale(exponents[best], float(decibels))


def weights_exponent(data: np.ndarray) -> int | None:
    """The exponent of least squared error for weights; None where they are all 0."""
    peak = float(np.abs(data).max(initial=0.0))
    return scales_of({"": peak}, [{"": data}])[""].exponent
