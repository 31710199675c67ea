"""What kernels call to make arrays of their own; in plain Python, NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from weft import dtypes
from weft.dtypes import DType

Shape = int | Sequence[int]


def zeros(shape: Shape, dtype: DType = dtypes.float64) -> np.ndarray:
    """An array of zeros: ``tmp = weft.zeros((N, M), weft.f64)``."""
    return np.zeros(shape, dtype.numpy)


def ones(shape: Shape, dtype: DType = dtypes.float64) -> np.ndarray:
    return np.ones(shape, dtype.numpy)


def empty(shape: Shape, dtype: DType = dtypes.float64) -> np.ndarray:
    """An array whose elements must be written before they are read."""
    return np.empty(shape, dtype.numpy)


def statement(name: str) -> AbstractContextManager[None]:
    """``with weft.statement("init"):`` names the statements in it, for schedules and errors."""
    return nullcontext()


# What each function puts into the array; None: nothing.
FILLS: dict[object, int | None] = {
    zeros: 0, np.zeros: 0, ones: 1, np.ones: 1, empty: None, np.empty: None,
}  # fmt: skip
