"""A program together with its arguments, for calls that come again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import Any, NoReturn

import numpy as np

from weft.pickling import StaysHere


class BoundCall(StaysHere):
    """Runs a program on the same memory at each call: ``Executable.bind``.

    A call checks nothing and allocates nothing. It reads what the arguments contain by then, writes
    to the same results, and returns them. Numbers keep the values that they had when bound. Calls
    from several threads take turns. Raises ``ExecutionError`` as the program does. The like of
    ONNX Runtime's I/O binding.
    """

    __slots__ = ("_failure", "_held", "_lock", "_native", "_results")
    _elsewhere = "pickle the program, or save it, and bind it to memory there"

    def __init__(
        self,
        native: partial[int],
        failure: Callable[[], Exception],
        results: Sequence[np.ndarray],
        held: Sequence[object],
    ) -> None:
        """``native``: the program itself, its arguments converted; where it does not return 0,
        ``failure`` says why. ``held``: what has to stay alive."""
        self._native = native
        self._failure = failure
        self._results = results[0] if len(results) == 1 else tuple(results)
        self._held = held
        self._lock = Lock()

    def __call__(self) -> Any:
        with self._lock:
            if self._native():
                raise self._failure()
        return self._results

    def __deepcopy__(self, _: object) -> NoReturn:
        self.__reduce__()  # a copy would need memory of its own

    @property
    def native(self) -> partial[int]:
        """The program's C function with all of its arguments, for callers that are not Python.

        It returns 0, or something else where the program failed.
        """
        return self._native
