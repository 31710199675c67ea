"""A program called again and again by native code: Python's share of a call is not timed."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from weft.codegen.llvm.target import host_target, to_object
from weft.codegen.objects.native_library import link
from weft.runtime.executable import Executable

_PLACES = ("inputs", "outputs", "constants", "arena", "parameters", "status")


class NativeLoop:
    """``loop(times)`` runs the program ``times`` times on the same memory."""

    def __init__(self, executable: Executable, inputs: Mapping[str, np.ndarray]) -> None:
        """Raises ``CallError`` as ``Executable.bind`` does."""
        self._bound = executable.bind(**inputs)
        self._entry = ctypes.cast(self._bound.native.func, ctypes.c_void_p)  # type: ignore[arg-type]

    def __call__(self, times: int) -> None:
        if _repeat()(self._entry, *self._bound.native.args, times):
            self._bound()  # raises what went wrong

    def results(self) -> list[np.ndarray]:
        """What one more run computes, in the order of the program's outputs."""
        found = self._bound()
        return list(found) if isinstance(found, tuple) else [found]


@cache
def _repeat() -> Any:
    kinds = [*[ctypes.c_void_p] * (1 + len(_PLACES)), ctypes.c_int32, ctypes.c_int64]
    tracker = link([to_object(repeat_ir(), host_target())], ("repeat",), {})
    function: Any = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(tracker["repeat"])
    function.code = tracker  # keeps it mapped
    return function


def repeat_ir() -> str:
    """LLVM text of ``repeat(entry, …its arguments, times)``: the first status that is not 0."""
    places = ", ".join(f"ptr %{name}" for name in _PLACES)
    return "\n".join(
        [
            f"define i32 @repeat(ptr %entry, {places}, i32 %threads, i64 %times) {{",
            "begin:",
            "  %some = icmp sgt i64 %times, 0",
            "  br i1 %some, label %loop, label %good",
            "loop:",
            "  %i = phi i64 [ 0, %begin ], [ %in, %next ]",
            f"  %code = call i32 %entry({places}, i32 %threads)",
            "  %failed = icmp ne i32 %code, 0",
            "  br i1 %failed, label %bad, label %next",
            "next:",
            "  %in = add i64 %i, 1",
            "  %more = icmp slt i64 %in, %times",
            "  br i1 %more, label %loop, label %good",
            "bad:",
            "  ret i32 %code",
            "good:",
            "  ret i32 0",
            "}",
        ]
    )
