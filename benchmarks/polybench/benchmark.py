"""What one benchmark of the suite is: its program, its data and what must come out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.ir.dtypes import DType

Array = np.ndarray[Any, Any]
Arguments = dict[str, Any]  # by name, in the order of the kernel's parameters
Sizes = Mapping[str, int]

DATASETS = ("mini", "small", "medium", "large", "extralarge")


@dataclass(frozen=True, slots=True)
class Benchmark:
    """``make(real)`` is the ``@weft.kernel`` with elements of dtype ``real``.

    ``inputs(numpy dtype, **sizes)`` are fresh arguments, ``oracle(**arguments)`` what the arrays
    that the kernel writes must hold afterwards, by name, in float64 or exact integers.
    Some published inputs are a fixed point of their kernel or an ill-conditioned problem: answers
    are compared on ``regular`` ones too. ``operations(**sizes)`` counts the arithmetic of the
    published loops to leading order.
    """

    name: str
    make: Callable[[DType], Any]
    inputs: Callable[..., Arguments]
    oracle: Callable[..., Arguments]
    operations: Callable[..., float]
    names: tuple[str, ...]  # of the sizes
    published: tuple[tuple[int, ...], ...]  # their values in each of DATASETS
    dtype: str = "float64"  # of the elements, as published
    matrix: bool = False  # one of the suite's cubic dense matrix kernels, reported apart
    residual: Callable[[Arguments, Arguments], float] | None = None  # of arguments before, after
    regular: Callable[..., Arguments] | None = None  # more inputs, well-conditioned and uneven

    def sizes(self, dataset: str) -> dict[str, int]:
        """The published sizes of ``dataset``, by name."""
        return dict(zip(self.names, self.published[DATASETS.index(dataset)], strict=True))


def as_dtype(arguments: Mapping[str, Any], real: np.dtype[Any]) -> Arguments:
    """``arguments`` with every float array and float scalar in ``real``."""
    return {name: _as_dtype(value, real) for name, value in arguments.items()}


def _as_dtype(value: Any, real: np.dtype[Any]) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return np.ascontiguousarray(value, dtype=real)
    return float(real.type(value)) if isinstance(value, float) else value


def noisy(inputs: Callable[..., Arguments]) -> Callable[..., Arguments]:
    """``inputs`` with noise of ±0.5 on every float array."""

    def made(real: np.dtype[Any], **sizes: int) -> Arguments:
        random = np.random.default_rng(1)
        given = inputs(np.dtype(np.float64), **sizes)
        for name, value in given.items():
            if isinstance(value, np.ndarray):
                given[name] = value + random.uniform(-0.5, 0.5, value.shape)
        return as_dtype(given, real)

    return made


def filled(*shape: int, value: float = 0.0) -> Array:
    """A float64 array full of ``value``."""
    return np.full(shape, value)


def grid(*shape: int) -> list[Array]:
    """Index arrays that broadcast to ``shape``, int64."""
    return list(np.ogrid[tuple(slice(n) for n in shape)])


def broadcast(value: Array, *shape: int) -> Array:
    """A float64 array of ``shape`` of its own."""
    return np.array(np.broadcast_to(value, shape), dtype=np.float64)
