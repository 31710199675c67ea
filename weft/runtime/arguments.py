"""The arrays of a call: from whatever the user passed to addresses that compiled code may use.

Every refusal is a ``CallError`` that names the argument, what was expected and the valid names.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from weft.ir.errors import CallError
from weft.ir.scalar_expr import Literal
from weft.ir.size_arithmetic import text
from weft.runtime.compiled import ArraySpec

OVERLAP_WORK = 100_000  # candidates that NumPy may try before two arrays count as overlapping

Placed = tuple[np.ndarray, int]  # an array and its address
Out = np.ndarray | Sequence[np.ndarray | None] | Mapping[str, np.ndarray] | None


def describe(spec: ArraySpec) -> str:
    """``x: float32[n, 64]``"""
    return f"{spec.name}: {spec.dtype}[{', '.join(text(size) for size in spec.shape)}]"


def listing(specs: Sequence[ArraySpec]) -> str:
    return ", ".join(describe(spec) for spec in specs) or "none"


def not_by_name(value: object) -> CallError:
    """The error for ``value`` where inputs should be given by name."""
    return CallError(
        "WEFT-E0602",
        f"run takes inputs by name, not a {type(value).__name__}",
        hint='run({"x": x}), or call the program: program(x)',
    )


def arrange(
    specs: Sequence[ArraySpec], arrays: Sequence[object], by_name: Mapping[str, object]
) -> list[object]:
    """Positional and named arguments as one list in the order of ``specs``."""
    names = [spec.name for spec in specs]
    if len(arrays) > len(specs):
        raise CallError(
            "WEFT-E0600",
            f"{len(arrays)} arguments for {len(specs)} inputs",
            hint=f"inputs, in order: {listing(specs)}",
        )
    given: dict[str, object] = dict(zip(names, arrays, strict=False))
    for name, value in by_name.items():
        if name not in names:
            raise CallError(
                "WEFT-E0601", f"there is no input {name!r}", hint=f"inputs: {listing(specs)}"
            )
        if name in given:
            raise CallError("WEFT-E0601", f"input {name!r} is given twice")
        given[name] = value
    if missing := [name for name in names if name not in given]:
        raise CallError(
            "WEFT-E0601",
            f"missing: {', '.join(map(repr, missing))}",
            hint=f"inputs: {listing(specs)}",
        )
    return [given[name] for name in names]


def as_array(value: object, spec: ArraySpec) -> np.ndarray:
    """``value`` as an array of the declared dtype and rank, its memory shared where possible.

    Where no dimensions are declared, a Python number that the dtype holds will do.
    """
    if type(value) is np.ndarray:
        array = value
    elif not spec.shape and isinstance(value, int | float | np.integer):
        array = _number(value, spec)
    else:
        array = imported(value, f"input {spec.name!r}", f"expected {describe(spec)}")
    if array.dtype != spec.dtype.numpy:
        raise CallError(
            "WEFT-E0603",
            f"input {spec.name!r} has dtype {array.dtype}, not {spec.dtype}",
            why="nothing is converted silently",
            hint=f"expected {describe(spec)}: before the call, "
            f"{spec.name} = {spec.name}.astype({str(spec.dtype)!r})",
        )
    if array.ndim != len(spec.shape):
        raise CallError(
            "WEFT-E0604",
            f"input {spec.name!r} has {array.ndim} dimensions {array.shape}, not {len(spec.shape)}",
            hint=f"expected {describe(spec)}",
        )
    return array


def fitting(value: object, spec: ArraySpec) -> np.ndarray:
    """The same, of all the sizes that are declared as numbers."""
    array = as_array(value, spec)
    pairs = zip(spec.shape, array.shape, strict=True)
    sizes = tuple(size.value if isinstance(size, Literal) else n for size, n in pairs)
    if array.shape != sizes:
        raise CallError(
            "WEFT-E0605",
            f"input {spec.name!r} has shape {array.shape}, not {sizes}",
            hint=f"expected {describe(spec)}",
        )
    return array


def _number(value: int | float | np.integer, spec: ArraySpec) -> np.ndarray:
    """A Python number, or an integer of any width, as an array without dimensions."""
    if isinstance(value, np.floating):  # np.float64 is a float, but of a dtype of its own
        return np.asarray(value)
    dtype = spec.dtype
    fits = dtype.is_float and not isinstance(value, bool)
    if not isinstance(value, float):
        within = dtype.is_float or dtype.lowest <= int(value) <= dtype.highest
        fits = within and isinstance(value, bool) == (dtype.kind == "bool")
    if fits:
        return np.asarray(value, dtype.numpy)
    raise CallError(
        "WEFT-E0603",
        f"input {spec.name!r} is {value!r}, which {dtype} does not hold",
        hint=f"expected {describe(spec)}",
    )


def imported(value: object, what: str, expected: str) -> np.ndarray:
    """The elements of ``value``, which is no plain array but may have one. Raises ``CallError``."""
    if isinstance(value, np.ndarray):  # a subclass: its plain array
        check_unmasked(value, what)
        return np.asarray(value)
    reasons: list[str] = []
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except Exception as error:  # the producer may raise anything
            reasons.append(f"__dlpack__: {error}")
    if hasattr(value, "__array__"):
        try:
            return np.asarray(value)
        except Exception as error:
            reasons.append(f"__array__: {error}")
    raise CallError(
        "WEFT-E0602",
        f"{what} is a {type(value).__name__}, not an array",
        why="; ".join(reasons) or "it has neither __dlpack__ nor __array__",
        hint=f"{expected}: a NumPy array, or anything with DLPack on the CPU",
    )


def check_unmasked(array: np.ndarray, what: str) -> None:
    """Compiled code knows of no mask: it would compute with what lies below it."""
    if np.ma.is_masked(array):
        raise CallError(
            "WEFT-E0602",
            f"{what} is an array with masked elements",
            why="compiled code reads and writes what lies below the mask",
            hint="numpy.ma.filled(array, value) has a value in their place",
        )


def address(array: np.ndarray) -> int:
    """Where the array's first element lies."""
    try:
        # A quarter of the time of the general way, which serves read-only and empty arrays.
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        return int(array.__array_interface__["data"][0])


def located(array: np.ndarray, alignment: int) -> tuple[np.ndarray, int]:
    """``array``, or a copy that is C-contiguous at a multiple of ``alignment``, and its address."""
    if array.flags.c_contiguous:
        at = address(array)
        if at % alignment == 0:
            return array, at
    copy, at = empty(array.shape, array.dtype, array.nbytes)
    np.copyto(copy, array)
    return copy, at


def empty(shape: tuple[int, ...], dtype: np.dtype, size: int) -> tuple[np.ndarray, int]:
    """A fresh array of ``size`` bytes at a multiple of 64, and its address.

    ``CallError`` where memory does not suffice.
    """
    try:
        memory = np.empty(size + 64, np.uint8)
    except (MemoryError, ValueError, OverflowError) as error:
        raise CallError(
            "WEFT-E0607", f"an array of {size} bytes cannot be allocated", why=str(error)
        ) from None
    at = address(memory)
    offset = -at % 64
    return np.ndarray(shape, dtype, memory, offset), at + offset


def check_target(array: object, spec: ArraySpec, shape: tuple[int, ...]) -> np.ndarray:
    """``array`` as a place for a result: a writable array of exactly this dtype and shape."""
    if not isinstance(array, np.ndarray):
        raise CallError(
            "WEFT-E0606", f"out for {spec.name!r} is a {type(array).__name__}, not a NumPy array"
        )
    if array.dtype != spec.dtype.numpy or array.shape != shape:
        raise CallError(
            "WEFT-E0606",
            f"out for {spec.name!r} is {array.dtype}{list(array.shape)},"
            f" not {spec.dtype}{list(shape)}",
            hint=f"expected {describe(spec)}",
        )
    check_writable(array, f"out for {spec.name!r}")
    return array


def check_in_place(given: object, array: np.ndarray, name: str) -> None:
    """An input that the call overwrites: the caller's own memory, writable."""
    if not isinstance(given, np.ndarray) and not hasattr(given, "__dlpack__"):
        raise CallError(
            "WEFT-E0606",
            f"input {name!r} is computed in place, and a {type(given).__name__} has no memory to"
            " share",
            hint="pass a NumPy array or anything with DLPack",
        )
    check_writable(array, f"input {name!r}, which is computed in place,")


def check_writable(array: np.ndarray, what: str) -> None:
    if not array.flags.writeable:
        raise CallError("WEFT-E0606", f"{what} is read-only")
    check_unmasked(array, what)
    if array.size and _overlaps_itself(array):  # NumPy gives empty arrays strides of 0
        why = f"it is a view of shape {array.shape} with strides of {array.strides} bytes"
        raise CallError("WEFT-E0606", f"{what} overlaps itself", why=why, hint="pass a copy of it")


def _overlaps_itself(array: np.ndarray) -> bool:
    """Whether elements of ``array`` may share bytes: a dim's stride is within what the dims of
    smaller strides span. No slice or transposition of an array that does not is like that."""
    strides = zip(array.strides, array.shape, strict=True)
    span = array.itemsize
    for stride, size in sorted((abs(stride), size) for stride, size in strides if size > 1):
        if stride < span:
            return True
        span += stride * (size - 1)
    return False


def check_apart(
    written: Sequence[tuple[str, np.ndarray]], others: Sequence[tuple[str, np.ndarray]]
) -> None:
    """No written array shares an element with another written one or with ``others``."""
    for number, (name, array) in enumerate(written):
        for other_name, other in (*written[:number], *others):
            if _overlap(array, other):
                raise CallError(
                    "WEFT-E0606",
                    f"{name} overlaps {other_name}",
                    why="a result would overwrite what is still to be read or returned",
                    hint="pass arrays that share no memory",
                )


def _overlap(one: np.ndarray, other: np.ndarray) -> bool:
    try:
        return bool(np.shares_memory(one, other, max_work=OVERLAP_WORK))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def apart(spans: Sequence[tuple[int, int]]) -> bool:
    """Whether blocks of memory, each from an address to before another, are disjoint."""
    return all(one[1] <= other[0] for one, other in pairwise(sorted(spans)))


def clear(written: Sequence[tuple[int, int]], read: Sequence[tuple[int, int]]) -> bool:
    """Whether the blocks that are ``written`` are apart from each other and from those ``read``."""
    return apart(written) and all(
        end <= other or after <= begin for begin, end in written for other, after in read
    )


def targets_of(out: Out, outputs: Sequence[ArraySpec]) -> list[Any]:
    """The caller's array for each output, None where there is none."""
    match out:
        case None:
            return [None] * len(outputs)
        case Mapping():
            names = [spec.name for spec in outputs]
            if unknown := [name for name in out if name not in names]:
                raise CallError(
                    "WEFT-E0601",
                    f"there is no output {unknown[0]!r}",
                    hint=f"outputs: {listing(outputs)}",
                )
            return [out.get(name) for name in names]
        case tuple() | list():
            wanted = list(out)
        case _:
            wanted = [out]
    if len(wanted) != len(outputs):
        raise CallError(
            "WEFT-E0606",
            f"out has {len(wanted)} arrays for {len(outputs)} outputs",
            hint=f"outputs, in order: {listing(outputs)}",
        )
    return wanted
