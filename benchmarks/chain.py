"""Compile time of an elementwise chain against its length: it should grow about linearly."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import weft
from weft.frontend.build import compute, maximum, placeholder, tanh
from weft.frontend.scalar_expr import Expr
from weft.frontend.tensor_expr import Tensor

STEPS: tuple[Callable[[Expr], Expr], ...] = (
    lambda x: x * 1.01,
    lambda x: x + 0.5,
    lambda x: maximum(x, 0.25),
    lambda x: tanh(x),
    lambda x: x - 0.125,
)
NUMPY = (
    lambda x: x * 1.01,
    lambda x: x + 0.5,
    lambda x: np.maximum(x, 0.25),
    np.tanh,
    lambda x: x - 0.125,
)


def run(quick: bool) -> list[dict[str, Any]]:
    """A row for each length with cold compile seconds; the result is checked in float64."""
    lengths = (100, 200) if quick else (100, 200, 400, 700, 1000)
    return [_row(length) for length in lengths]


def _row(length: int) -> dict[str, Any]:
    x = placeholder((64, 1024), name="x")
    value: Tensor = x
    for number in range(length):
        value = _step(value, number)
    start = time.perf_counter()
    executable = weft.compile([value], options=weft.Options(cache=False, threads=1))
    seconds = time.perf_counter() - start
    data = np.random.default_rng(0).standard_normal((64, 1024)).astype(np.float32)
    expected = data.astype(np.float64)
    for number in range(length):
        expected = NUMPY[number % len(NUMPY)](expected)
    error = float(np.abs(executable(data) - expected).max())
    assert error < 1e-4, f"chain of {length}: error {error}"
    return {
        "name": f"chain {length}",
        "compile_s": round(seconds, 2),
        "ms_per_operator": round(1e3 * seconds / length, 2),
        "clusters": executable.stats["clusters"],
        "unique_clusters": executable.stats["unique_clusters"],
        "max_error": error,
    }


def _step(source: Tensor, number: int) -> Tensor:
    step = STEPS[number % len(STEPS)]
    return compute(source.shape, lambda i, j: step(source[i, j]), name=f"t{number}")
