"""A program together with its arguments, for calls that come again and again."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any, NoReturn

import numpy as np

from weft.codegen.objects.native_library import NativeProgram
from weft.ir.size_arithmetic import bind, evaluate
from weft.runtime.arguments import Placed
from weft.runtime.call_frame import Frame
from weft.runtime.compiled import Compiled
from weft.runtime.pickling import StaysHere


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
        ``failure`` says why. ``results`` are what a call returns, ``held`` is what has to stay
        alive."""
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


# ---- A program on the same arrays, again and again, with other numbers each time.


class NumberedCall:
    """``Executable.bind_arrays``: ``call(numbers)``, one for each input without dimensions, in
    order.

    A call checks nothing: who makes it knows that numbers keep every access in bounds. It takes
    microseconds, on one thread. Raises ``ExecutionError`` as the program does.
    """

    __slots__ = (
        "_arena_bytes", "_cells", "_constants_at", "_derived", "_entry", "_failure", "_frame",
        "_held", "_names", "_parameters", "_parameters_at", "_places", "_sizes",
    )  # fmt: skip

    def __init__(
        self,
        compiled: Compiled,
        native: NativeProgram,
        frame: Frame,
        constants_at: int,
        arrays: Mapping[int, Placed],
    ) -> None:
        """``compiled``, loaded as ``native``, on ``frame``, its constants at ``constants_at``.
        ``arrays``: by the number of the input, each where it is used; outputs are in place."""
        self._entry, self._arena_bytes = native.entry, native.arena_bytes
        self._frame, self._constants_at, self._failure = frame, constants_at, compiled.failure
        inputs = compiled.inputs
        scalars = [k for k in range(len(inputs)) if k not in arrays]
        self._names = [inputs[k].name for k in scalars]
        self._cells = (ctypes.c_int64 * max(1, len(scalars)))()
        at = ctypes.addressof(self._cells)
        cell = {k: at + 8 * n for n, k in enumerate(scalars)}
        places = [arrays[k][1] if k in arrays else cell[k] for k in range(len(inputs))]
        frame.fill(places, [places[pair.input] for pair in compiled.in_place])
        shaped = [inputs[k].shape for k in arrays]
        self._sizes = dict(bind(shaped, [arrays[k][0].shape for k in arrays], (), {}))
        self._parameters = (ctypes.c_int64 * (len(compiled.parameters) + 1))()
        self._parameters_at = ctypes.addressof(self._parameters)
        place = {name: number for number, name in enumerate(compiled.parameters)}
        self._places = [(place[n], k) for k, n in enumerate(self._names) if n in place]
        self._derived = [(place[n], n, value) for n, value in compiled.derived if n in place]
        for name in place.keys() & self._sizes.keys():
            self._parameters[place[name]] = self._sizes[name]
        self._held = (compiled, native, arrays)

    def __call__(self, numbers: Sequence[int]) -> None:
        cells, parameters, frame = self._cells, self._parameters, self._frame
        for place, number in enumerate(numbers):
            cells[place] = number
        for place, k in self._places:
            parameters[place] = numbers[k]
        if self._derived:
            known = {**self._sizes, **dict(zip(self._names, numbers, strict=True))}
            for place, name, expr in self._derived:
                parameters[place] = known[name] = evaluate(expr, known)
        frame.reserve(self._arena_bytes(self._parameters_at, 1))
        inputs_at, outputs_at, status_at = frame.tables
        if self._entry(
            inputs_at, outputs_at, self._constants_at, frame.arena_at, self._parameters_at,
            status_at, 1,
        ):  # fmt: skip
            raise self._failure(*frame.status)
