"""Kernels that overwrite what they read: drawn arguments, and Python's own answers for them."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any

import numpy as np

import weft
from weft.ir.size_arithmetic import evaluate

SIZES = (0, 1, 2, 3, 5, 17, 64, 1030, 4099)  # around strips and vectors
STEPS = ROWS = 5
ROUNDING = {"float32": 2e-6, "float64": 1e-12}


def name_of(kernel: Any) -> str:
    return str(kernel.__name__)


def arguments(kernel: Any, size: int) -> dict[str, Any]:
    """Arrays of ``size`` (N) and ``ROWS`` (M); integers are below ``size``, for indices."""
    rng, found = np.random.default_rng(size), dict[str, Any]()
    for each in kernel.lowered.arguments:
        shape = tuple(evaluate(n, {"M": ROWS, "N": size}) for n in each.shape)
        drawn = rng.integers(0, max(size, 1), shape) if each.dtype.is_integer else rng.random(shape)
        found[each.name] = drawn.astype(each.dtype.numpy) if shape else STEPS
    return found


def as_python_does(kernel: Any, threads: int) -> None:
    """Assert that the compiled kernel leaves what the Python function does, at all sizes."""
    run = kernel.compile(options=weft.Options(threads=threads, cache=False))
    for size in SIZES:
        given = arguments(kernel, size)
        wanted = {k: np.copy(v) if isinstance(v, np.ndarray) else v for k, v in given.items()}
        kernel.python(*wanted.values())
        run(*given.values())
        for name, value in wanted.items():
            tolerance = ROUNDING.get(str(getattr(value, "dtype", "")), 0.0)
            np.testing.assert_allclose(given[name], value, rtol=tolerance, err_msg=f"{size}")
