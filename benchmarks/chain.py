"""Compile time of an elementwise chain against its length: it should grow about linearly."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import weft
from weft.ir.build import compute, maximum, placeholder, tanh
from weft.ir.scalar_expr import Expr
from weft.ir.tensor_expr import Tensor

Step = tuple[Callable[[Expr], Expr], Callable[[np.ndarray], np.ndarray]]


def steps(number: int, distinct: bool) -> Step:
    """Operator ``number`` for Weft and for NumPy; ``distinct``: no two have the same constant."""
    c = 0.001 * number if distinct else 0.0
    every: tuple[Step, ...] = (
        (lambda x: x * (1.01 + c), lambda x: x * (1.01 + c)),
        (lambda x: x + (0.5 + c), lambda x: x + (0.5 + c)),
        (lambda x: maximum(x, 0.25 + c), lambda x: np.maximum(x, 0.25 + c)),
        (tanh, np.tanh),
        (lambda x: x - (0.125 + c), lambda x: x - (0.125 + c)),
    )
    return every[number % len(every)]


def run(quick: bool) -> list[dict[str, Any]]:
    """A row for each length with cold compile seconds; the result is checked in float64.

    Pieces of a regular chain are alike and compiled once; those of a distinct one are not.
    """
    lengths = (100, 200) if quick else (100, 200, 400, 700, 1000)
    return [_row(length, distinct) for distinct in (False, True) for length in lengths]


def _row(length: int, distinct: bool) -> dict[str, Any]:
    x = placeholder((64, 1024), name="x")
    value: Tensor = x
    for number in range(length):
        value = _step(value, number, distinct)
    start = time.perf_counter()
    executable = weft.compile([value], options=weft.Options(cache=False, threads=1))
    seconds = time.perf_counter() - start
    data = np.random.default_rng(0).standard_normal((64, 1024)).astype(np.float32)
    expected = data.astype(np.float64)
    for number in range(length):
        expected = steps(number, distinct)[1](expected)
    error = float(np.abs(executable(data) - expected).max())
    assert error < 1e-4, f"chain of {length}: error {error}"
    return {
        "name": f"{'distinct' if distinct else 'regular'} chain {length}",
        "compile_s": round(seconds, 2),
        "ms_per_operator": round(1e3 * seconds / length, 2),
        "clusters": executable.stats["clusters"],
        "unique_clusters": executable.stats["unique_clusters"],
        "max_error": error,
    }


def _step(source: Tensor, number: int, distinct: bool) -> Tensor:
    step, _ = steps(number, distinct)
    return compute(source.shape, lambda i, j: step(source[i, j]), name=f"t{number}")
