"""A program together with its arguments, for calls that come again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import numpy as np


class BoundCall:
    """Runs a program on the same memory at each call: ``Executable.bind``.

    A call checks nothing and allocates nothing. It reads what the arguments contain by then, writes
    to the same results, and returns them. Numbers keep the values that they had when bound. Calls
    from several threads take turns. Raises ``ExecutionError`` as the program does. The like of
    ONNX Runtime's I/O binding.
    """

    __slots__ = ("_enter", "_held", "_lock", "_results")

    def __init__(
        self, enter: Callable[[], None], results: Sequence[np.ndarray], held: Sequence[object]
    ) -> None:
        """``held``: what has to stay alive."""
        self._enter = enter
        self._results = results[0] if len(results) == 1 else tuple(results)
        self._held = held
        self._lock = Lock()

    def __call__(self) -> Any:
        with self._lock:
            self._enter()
        return self._results
