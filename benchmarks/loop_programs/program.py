"""One loop program: a kernel and its arguments at a size."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import weft

Array = np.ndarray[Any, Any]
Arguments = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Program:
    kernel: weft.Kernel
    make: Callable[[int], Arguments]
    large: int  # a size that takes some tens of milliseconds


def rng(n: int) -> np.random.Generator:
    return np.random.default_rng(n)


def floats(n: int, *shape: int) -> Array:
    return rng(n).uniform(-1.0, 1.0, shape)


def float32(n: int, *shape: int) -> Array:
    return floats(n, *shape).astype(np.float32)


def zeros32(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


def whole(n: int, low: int, high: int, *shape: int, dtype: Any = np.int64) -> Array:
    return rng(n).integers(low, high, shape).astype(dtype)


def definite(n: int) -> Array:
    """Symmetric and positive definite, well conditioned."""
    half = floats(n, n, n)
    return half @ half.T / max(n, 1) + 2.0 * np.eye(n)


def dominant(n: int) -> Array:
    """Its diagonal outweighs its rows: factored without pivots."""
    return floats(n, n, n) + (n + 1.0) * np.eye(n)
