"""The floating-point mode of this thread and the flags of what happened in it, read and written by
two functions that share nothing with the code under test."""

from __future__ import annotations

import ctypes
import platform
from functools import cache

import pytest

from weft.codegen.llvm.target import host_target, to_object
from weft.codegen.objects.native_library import Library, link

DENORMAL_OPERAND, UNDERFLOW = 1 << 1, 1 << 4  # MXCSR's flags
STANDARD = 0x1F80  # no traps, to nearest, denormals as IEEE 754 has them, no flags
FLUSHING = 0x8040  # FTZ and DAZ
DOWN = 0x2000  # rounding

needs_mxcsr = pytest.mark.skipif(platform.machine() != "x86_64", reason="reads MXCSR")

_TEXT = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)

define i32 @read_mode() {
  %word = alloca i32, align 4
  call void @llvm.x86.sse.stmxcsr(ptr %word)
  %mode = load i32, ptr %word, align 4
  ret i32 %mode
}

define void @write_mode(i32 %mode) {
  %word = alloca i32, align 4
  store i32 %mode, ptr %word, align 4
  call void @llvm.x86.sse.ldmxcsr(ptr %word)
  ret void
}
"""


@cache
def _library() -> Library:
    return link([to_object(_TEXT, host_target())], ("read_mode", "write_mode"), {})


def mode() -> int:
    return int(ctypes.CFUNCTYPE(ctypes.c_uint32)(_library()["read_mode"])())


def set_mode(mode: int) -> None:
    ctypes.CFUNCTYPE(None, ctypes.c_uint32)(_library()["write_mode"])(mode)
