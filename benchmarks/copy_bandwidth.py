"""How fast memory is copied: vector loads and stores, plain and past the caches."""

from __future__ import annotations

import ctypes

import numpy as np

from weft.codegen.llvm_target import host_target, to_object
from weft.codegen.native_library import link

_UNROLL = 8  # vectors a turn: several cache lines in flight
_Copy = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Copy:
    """Calling it copies ``moved / 2`` bytes from one place to another, ``repeat`` times.

    ``moved``: bytes read and written by one copy. A store that is not ``streaming`` may read the
    line that it replaces; that is not counted.
    """

    def __init__(self, moved: int, *, streaming: bool, repeat: int = 1) -> None:
        target = host_target()
        step = _UNROLL * target.vector_bytes
        size = max(step, moved // 2 // step * step)
        self.moved = 2 * size
        text = loop(target.vector_bytes, streaming=streaming)
        self._tracker = link([to_object(text, target)], ("copy",), {})
        self._copy = _Copy(self._tracker["copy"])
        self._held = [np.ones(size + 64, np.uint8) for _ in range(2)]
        target_at, source_at = (array.ctypes.data + -array.ctypes.data % 64 for array in self._held)
        self._arguments = (target_at, source_at, size, repeat)

    def __call__(self) -> None:
        self._copy(*self._arguments)


def loop(vector_bytes: int, *, streaming: bool) -> str:
    """LLVM text of ``copy(target, source, bytes, repeat)``: aligned, a whole number of turns.

    "no-builtins" keeps LLVM from calling libc's memcpy instead.
    """
    vector = f"<{vector_bytes // 8} x i64>"
    flag = ", !nontemporal !0" if streaming else ""
    moves = []
    for k in range(_UNROLL):
        moves += [
            f"  %s{k} = getelementptr i8, ptr %from, i64 {k * vector_bytes}",
            f"  %t{k} = getelementptr i8, ptr %to, i64 {k * vector_bytes}",
            f"  %x{k} = load {vector}, ptr %s{k}, align {vector_bytes}",
            f"  store {vector} %x{k}, ptr %t{k}, align {vector_bytes}{flag}",
        ]
    return "\n".join(
        [
            "define void @copy(ptr noalias %target, ptr noalias %source, i64 %bytes, i64 %repeat)"
            ' "no-builtins" {',
            "entry:",
            "  br label %again",
            "again:",
            "  %r = phi i64 [ 0, %entry ], [ %rn, %copied ]",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %again ], [ %in, %loop ]",
            "  %from = getelementptr i8, ptr %source, i64 %i",
            "  %to = getelementptr i8, ptr %target, i64 %i",
            *moves,
            f"  %in = add i64 %i, {_UNROLL * vector_bytes}",
            "  %more = icmp slt i64 %in, %bytes",
            "  br i1 %more, label %loop, label %copied",
            "copied:",
            "  fence seq_cst",
            "  %rn = add i64 %r, 1",
            "  %once = icmp slt i64 %rn, %repeat",
            "  br i1 %once, label %again, label %done",
            "done:",
            "  ret void",
            "}",
            "!0 = !{i32 1}",
        ]
    )
