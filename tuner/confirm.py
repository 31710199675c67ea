"""Whether one program is faster than another, said with confidence.

Samples are paired by round. The gain is the median of the ratios; its interval is the one that
notched box plots show, 1.57 quartile ranges over √n to each side (McGill, Tukey, Larsen,
"Variations of box plots", 1978), of each process by itself, from the least of the lower ends to the
greatest of the upper: identical code may differ between processes by more than within one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.runtime.records import REPLACES

_NOTCH = 1.57
Numbers = Sequence[float] | np.ndarray


@dataclass(frozen=True, slots=True)
class Gain:
    """``median`` of before / after, between ``low`` and ``high``."""

    median: float
    low: float
    high: float

    @property
    def sure(self) -> bool:
        """Whether the plan replaces the one that it was compared with."""
        return self.low > REPLACES


def gain(processes: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Gain:
    """The gain of the second over the first: seconds (before, after) by round, by process."""
    medians, lows, highs = [], [], []
    for before, after in processes:
        low, middle, high = _interval(np.asarray(before) / np.asarray(after))
        medians.append(middle)
        lows.append(low)
        highs.append(high)
    return Gain(float(np.median(medians)), min(lows), max(highs))


def _interval(ratios: np.ndarray) -> tuple[float, float, float]:
    low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75))
    half = _NOTCH * (high - low) / np.sqrt(len(ratios)) if len(ratios) > 1 else middle
    return float(middle - half), float(middle), float(middle + half)


def spearman(one: Numbers, other: Numbers) -> float:
    """The correlation of ranks; 1 for fewer than two, or where one of them is constant."""
    ours, theirs = ranks(one), ranks(other)
    if len(one) < 2 or np.ptp(ours) == 0 or np.ptp(theirs) == 0:
        return 1.0
    return float(np.corrcoef(ours, theirs)[0, 1])


def ranks(values: Numbers) -> np.ndarray:
    """From the least on; equal ones share theirs."""
    ordered = np.sort(values)
    first, last = np.searchsorted(ordered, values), np.searchsorted(ordered, values, "right")
    return np.asarray((first + last - 1) / 2)
