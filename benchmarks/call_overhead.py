"""What a call costs that computes next to nothing, from Python, for Weft and for peers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from weft.benchmarks.case import TOLERANCE, Case, one_node
from weft.benchmarks.row import LoopOf


class PythonLoop:
    """A call from Python, a number of times; the like of ``NativeLoop`` with Python's share."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call

    def __call__(self, times: int) -> None:
        call = self._call
        for _ in range(times):
            call()

    def results(self) -> list[np.ndarray]:
        """What one more call returns, a mapping, a tuple or an array."""
        found = self._call()
        if isinstance(found, Mapping):
            return list(found.values())
        return list(found) if isinstance(found, tuple) else [found]


def plain(program: Any, inputs: Mapping[str, np.ndarray]) -> PythonLoop:
    """Calls with fresh results."""
    given = tuple(inputs.values())
    return PythonLoop(lambda: program(*given))


def bound(program: Any, inputs: Mapping[str, np.ndarray]) -> PythonLoop:
    """Calls of ``Executable.bind``, as peers are called here."""
    return PythonLoop(program.bind(**inputs))


CALLS: tuple[tuple[str, LoopOf], ...] = (
    ("call overhead", plain),
    ("call overhead, bound", bound),
)
"""With fresh results at each call, and on memory that was bound before."""


def case(name: str) -> Case:
    """The sum of two single elements."""
    x = np.ones(1, np.float32)
    model, inputs = one_node("Add", [("a", x), ("b", x)], ((1,), np.float32))
    exact = TOLERANCE["float32"]
    return Case(name, "call overhead", model, inputs, lambda: [x + x], exact, limit="")
