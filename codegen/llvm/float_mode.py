"""The floating-point environment of compiled code, as LLVM IR: a part of ``runtime``'s module.

A program begins with ``weft_enter``, which sets the mode below for the thread, and restores the
caller's mode on every exit. Workers use the mode of the launch's leader.

* Rounding is to nearest, and nothing traps: the mathematical functions rely on it.
* Denormal operands and results of arithmetic in float32 and float64 are flushed to zeros of their
  sign, unless the program is ``strict``: processors take up to 150 cycles for one. Moves keep all
  bits. x86-64 has two bits for that (FTZ for results, DAZ for operands), AArch64 one (FZ; FZ16
  would be for float16, whose denormals are kept), RISC-V none.
"""

from __future__ import annotations

STANDARD = {"x86_64": 0x1F80, "aarch64": 0, "riscv64": 0}
FLUSHING = {"x86_64": 0x1F80 | 0x8040, "aarch64": 1 << 24, "riscv64": 0}

_OWN = {
    "x86_64": r"""
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)

define internal i64 @read_mode() {
  %word = alloca i32, align 4
  call void @llvm.x86.sse.stmxcsr(ptr %word)
  %mode = load i32, ptr %word, align 4
  %wide = zext i32 %mode to i64
  ret i64 %wide
}

define internal void @write_mode(i64 %mode) {
  %word = alloca i32, align 4
  %low = trunc i64 %mode to i32
  store i32 %low, ptr %word, align 4
  call void @llvm.x86.sse.ldmxcsr(ptr %word)
  ret void
}
""",
    "aarch64": r"""
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)

define internal i64 @read_mode() {
  %mode = call i64 @llvm.aarch64.get.fpcr()
  ret i64 %mode
}

define internal void @write_mode(i64 %mode) {
  call void @llvm.aarch64.set.fpcr(i64 %mode)
  ret void
}
""",
    "riscv64": r"""
define internal i64 @read_mode() {
  ret i64 0
}

define internal void @write_mode(i64 %mode) {
  ret void
}
""",
}

_COMMON = r"""
define i64 @weft_enter(i32 %strict) {
  %caller = call i64 @read_mode()
  %exact = icmp ne i32 %strict, 0
  %mode = select i1 %exact, i64 $STANDARD, i64 $FLUSHING
  call void @write_mode(i64 %mode)
  ret i64 %caller
}

define void @weft_leave(i64 %caller) {
  call void @write_mode(i64 %caller)
  ret void
}
"""


def float_mode_ir(machine: str) -> str:
    """The functions for ``machine``; ``KeyError`` for one without a port."""
    text = _OWN[machine] + _COMMON
    text = text.replace("$STANDARD", str(STANDARD[machine]))
    return text.replace("$FLUSHING", str(FLUSHING[machine]))
