"""What one call in flight needs for itself, and the short way of arguments into it.

A kernel of a few hundred microseconds that has just walked over all of the cache finds Python's own
data gone from it, so that every object which a call touches costs it a trip to memory. Most calls
pass what the call before passed: plain arrays at the same places. For these ``Frame.take`` looks at
each argument once, and everything else is as the last call left it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from weft.runtime.arguments import Placed, clear, empty
from weft.runtime.call_plan import CallPlan, Shapes
from weft.runtime.compiled import ArraySpec, Compiled

_INT64 = 2**63

_address = ctypes.addressof
_buffer = ctypes.c_char.from_buffer


class Frame:
    """An arena, pointer tables, a status, and cells for numbers that are passed by value.

    ``held``: the plan and the addresses for which the tables were last filled, ``native`` the call
    that was then made ready; ``apart``: addresses of arguments and of places for results that were
    seen not to overlap, under that plan.
    """

    __slots__ = (
        "alignments", "apart", "arena", "arena_at", "capacity", "cells", "dtypes", "held", "inputs",
        "native", "outputs", "status", "tables", "written",
    )  # fmt: skip

    def __init__(self, compiled: Compiled, target_alignments: Sequence[int]) -> None:
        inputs, outputs = compiled.inputs, len(compiled.outputs)
        self.alignments = target_alignments
        self.written = bool(compiled.in_place)  # calls write to arguments
        self.arena = np.empty(0, np.uint8)
        self.arena_at = self.capacity = 0
        self.inputs = (ctypes.c_void_p * max(len(inputs), 1))()
        self.outputs = (ctypes.c_void_p * max(outputs, 1))()
        self.status = (ctypes.c_int64 * 4)()
        addresses = [_address(t) for t in (self.inputs, self.outputs, self.status)]
        self.tables: tuple[int, ...] = tuple(addresses)
        self.cells = [None if spec.shape else _cell(spec) for spec in inputs]
        self.dtypes = [spec.dtype.numpy for spec in inputs]
        self.held: object = None
        self.native: Callable[[], int] = int  # replaced before it is called
        self.apart: object = None

    def reserve(self, size: int) -> None:
        """Room for an arena of ``size`` bytes."""
        if size > self.capacity:
            self.arena, self.arena_at = empty((size,), np.dtype(np.uint8), size)
            self.capacity = size

    def fill(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Addresses into the tables, which are of no call until they are all there."""
        self.held = None
        for number, at in enumerate(inputs):
            self.inputs[number] = at
        for number, at in enumerate(outputs):
            self.outputs[number] = at

    def take(self, given: Sequence[object]) -> tuple[Shapes, tuple[int, ...]] | None:
        """The shapes and addresses of arguments that are arrays of the very dtypes declared,
        contiguous and, if calls write to arguments, writable, or plain numbers, which are put into
        their cells.

        None where one of them is anything else, which the general way looks at.
        """
        shapes, places = [], []
        for value, dtype, cell in zip(given, self.dtypes, self.cells, strict=True):
            if type(value) is np.ndarray and value.dtype is dtype:
                place = place_of(value, written=self.written)
                if place is None:
                    return None
                shapes.append(value.shape)
                places.append(place)
            elif cell is not None and _put(cell, value):
                shapes.append(())
                places.append(_address(cell))
            else:
                return None
        return tuple(shapes), tuple(places)

    def take_targets(
        self, out: object, plan: CallPlan, given: Sequence[object], places: tuple[int, ...]
    ) -> list[Placed] | None:
        """The caller's arrays ``out`` with their addresses, if results can be computed right there:
        just as expected, contiguous, aligned, clear of each other and of the arguments ``given``,
        which lie at ``places``. None where the general way has to look at them."""
        wanted = out if isinstance(out, tuple | list) else (out,)
        if len(wanted) != len(plan.outputs):
            return None
        found: list[Placed] = []
        for array, output, align in zip(wanted, plan.outputs, self.alignments, strict=True):
            if type(array) is not np.ndarray or array.dtype is not output[1]:
                return None
            at = place_of(array, written=True)
            if at is None or at % align or array.shape != output[0]:
                return None
            found.append((array, at))
        held = (plan, places, [at for _, at in found])
        if self.apart != held:
            written = [(at, at + array.nbytes) for array, at in found]
            sizes = [getattr(value, "nbytes", 8) for value in given]
            read = [(at, at + size) for at, size in zip(places, sizes, strict=True)]
            if not clear(written, read):
                return None
            self.apart = held
        return found


def place_of(array: np.ndarray, *, written: bool) -> int | None:
    """Where ``array`` lies; None if it is not contiguous, is empty, or is to be ``written`` and
    cannot."""
    try:
        return _address(_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        flags = array.flags
        if written or flags.writeable or not flags.c_contiguous:
            return None
        return int(array.__array_interface__["data"][0])


def _cell(spec: ArraySpec) -> ctypes._SimpleCData[float] | ctypes._SimpleCData[int] | None:
    match str(spec.dtype):
        case "float64":
            return ctypes.c_double()
        case "float32":
            return ctypes.c_float()
        case "int64":
            return ctypes.c_int64()
    return None


def _put(cell: ctypes._SimpleCData[float] | ctypes._SimpleCData[int], value: object) -> bool:
    """Whether ``value`` is a plain number of the cell's own kind, which it then holds."""
    kind, number = type(cell), type(value)
    if kind is ctypes.c_int64:
        fits = number is int and -_INT64 <= value < _INT64  # type: ignore[operator]
    else:
        fits = number is float or (number is np.float64 and kind is ctypes.c_double)
    if fits:
        cell.value = value  # type: ignore[assignment]
    return fits
