"""Matrix units in LLVM IR: Intel's tiles (AMX), eight registers of 16 rows of 64 bytes.

    once, on the unit:            tileload the sums, emit the loops inside, tilestore the sums
      for r: for l: for q: …      for each 16 lanes: tileload B; for each 16 rows: tileload A, then
                                  the products of that block with all of B's

``tile_operands`` loads the operands. A kernel with tiles configures the registers when it starts
(``ldtilecfg``) and releases them when it ends, so that context switches need not save them
afterwards. A process has to ask the system for permission once: ``native_library``, and the check
of ``processor``.

Reference: Intel, "Architecture Instruction Set Extensions Programming Reference", chapter 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Protocol

from weft.codegen.llvm import tile_operands as llvm_tile_operands
from weft.codegen.llvm.builder import Builder, Value, integer
from weft.codegen.llvm.expressions import evaluate
from weft.codegen.llvm.frame import Frame, TileSums
from weft.codegen.llvm.tile_operands import Operands, tile_load
from weft.codegen.machines.matrix_units import REGISTERS, ROW_BYTES, ROWS
from weft.codegen.tile_issue import Issue, issue_of, issues_in
from weft.ir.instruction import Instruction, Tiles
from weft.ir.loop_ir import For, Stmt

# Of LDTILECFG: palette, bytes of a row of each of 16 tiles, rows of each.
_ABSENT = 16 - REGISTERS
_LAYOUT = bytes(
    [1, *[0] * 15, *[ROW_BYTES, 0] * REGISTERS, *[0, 0] * _ABSENT, *[ROWS] * REGISTERS]
    + [0] * _ABSENT
)
_CONFIG = "@weft_tiles"


class Host(llvm_tile_operands.Host, Protocol):
    """The part of the emitter of statements that tiles use."""

    def emit(self, stmt: Stmt) -> None: ...


def emit_tiles(host: Host, loop: For) -> bool:
    """Emit ``loop``, one block or a loop around several, on its unit; False, with nothing emitted,
    if it does not match: it is then emitted as ordinary loops."""
    frame, instruction = host.frame, loop.instruction
    if instruction is None or instruction.unit is None or frame.lanes.count:
        return False
    if frame.sums is None:
        return _with_sums(host, loop, instruction, instruction.unit)
    issue = issue_of(loop, instruction)
    assert issue is not None, "what is around has looked"
    _emit_issue(host, issue, instruction, instruction.unit)
    return True


def release(frame: Frame) -> None:
    """Release the registers at the end of a kernel."""
    if _CONFIG in frame.b.support:
        frame.b.declare("void @llvm.x86.tilerelease()")
        frame.b.line("call void @llvm.x86.tilerelease()")


def emit_filled(host: Host, stmts: Sequence[Stmt]) -> bool:
    """Emit the first two of ``stmts`` if they zero sums and accumulate into them on a unit: the
    zeros are set in registers. False, with nothing emitted, otherwise."""
    match stmts:
        case [fill, For(instruction=Instruction() as instruction) as loop, *_] if instruction.unit:
            issues = [issue_of(each, instruction) for each in issues_in(loop.body)]
            filled = all(issue is not None and issue.zeroed_by(fill) for issue in issues)
            if filled and host.frame.sums is None and not host.frame.lanes.count:
                return _with_sums(host, loop, instruction, instruction.unit, filled=True)
    return False


def one_issue(frame: Frame, unit: Tiles, places: Sequence[Value]) -> None:
    """A single product of whole registers at ``places``: sums, ``a`` and ``b``."""
    b = frame.b
    _configure(b)
    for register, at in enumerate(places):
        tile_load(b, register, at, integer(ROW_BYTES))
    b.declare(f"void @{unit.symbol}(i8, i8, i8)")
    b.line(f"call void @{unit.symbol}(i8 0, i8 1, i8 2)")
    _tile_store(b, 0, places[0], integer(ROW_BYTES))
    release(frame)


# ---- the sums ------------------------------------------------------------------------------------


def _with_sums(
    host: Host, loop: For, instruction: Instruction, unit: Tiles, *, filled: bool = False
) -> bool:
    """The body of ``loop``, its blocks' sums in tiles; ``filled``: starting from 0."""
    frame = host.frame
    issues = [issue_of(each, instruction) for each in issues_in(loop.body)]
    found = [issue for issue in issues if issue is not None]
    names = {issue.sums for issue in found}
    if not found or len(found) < len(issues) or len(names) != 1:
        return False
    (name,) = names
    target = frame.bindings[name]
    row, *lane = target.strides
    if row.const is None or [s.const for s in lane] != [1] or target.private:
        return False
    down = ceil(max(issue.rows for issue in found) / ROWS)
    across = ceil(max(issue.lanes for issue in found) * target.dtype.itemsize / ROW_BYTES)
    sums = TileSums(down, across)
    if sums.others[-1] >= unit.registers:
        return False
    _configure(frame.b)
    places = []
    for i in range(down):
        for j in range(across):
            offset = i * ROWS * int(row.const) + j * ROW_BYTES // target.dtype.itemsize
            at = frame.b.element(target.pointer, f"i{8 * target.dtype.itemsize}", integer(offset))
            places.append((sums.register(i, j), at))
    stride = integer(int(row.const) * target.dtype.itemsize)
    for register, at in places:
        if filled:
            frame.b.declare("void @llvm.x86.tilezero(i8)")
            frame.b.line(f"call void @llvm.x86.tilezero(i8 {register})")
        else:
            tile_load(frame.b, register, at, stride)
    frame.sums = sums
    host.emit(loop.body)
    frame.sums = None
    for register, at in places:
        _tile_store(frame.b, register, at, stride)
    return True


def _tile_store(b: Builder, register: int, at: Value, stride: Value) -> None:
    b.declare("void @llvm.x86.tilestored64(i8, ptr, i64)")
    b.line(f"call void @llvm.x86.tilestored64(i8 {register}, {at}, {stride})")


def layout_of_tiles(name: str) -> list[str]:
    """The constant ``name``: the configuration with all registers whole."""
    text = "".join(f"\\{byte:02X}" for byte in _LAYOUT)
    return [f'{name} = internal constant [64 x i8] c"{text}", align 64']


def _configure(b: Builder) -> None:
    if _CONFIG in b.support:
        return
    b.support[_CONFIG] = "\n".join([*layout_of_tiles(_CONFIG), ""])
    b.declare("void @llvm.x86.ldtilecfg(ptr)")
    b.first(f"call void @llvm.x86.ldtilecfg(ptr {_CONFIG})")


def _emit_issue(host: Host, issue: Issue, instruction: Instruction, unit: Tiles) -> None:
    """All products of the block: each tile of ``b`` and of ``a`` is loaded once."""
    frame, b, sums = host.frame, host.frame.b, host.frame.sums
    assert sums is not None, "sums are in tiles"
    *held, row = sums.others
    operands = Operands(host, issue, instruction, b.materialise(evaluate(frame, issue.steps)))
    b.declare(f"void @{unit.symbol}(i8, i8, i8)")
    for i in range(ceil(issue.rows / ROWS)):
        operands.load_rows(row, i * ROWS)
        for j in range(ceil(issue.lanes / operands.lanes)):
            words = held[j % len(held)]
            if i == 0:
                operands.load_words(words, j * operands.lanes)
            numbers = sums.register(i, j), row, words
            b.line(f"call void @{unit.symbol}({', '.join(f'i8 {n}' for n in numbers)})")
    _stay_awake(b)


def _stay_awake(b: Builder) -> None:
    """One floating-point addition per block: tile stores use the floating-point unit, which powers
    down after 0.6 µs without work and takes as long as ten blocks to wake up."""
    b.line('call float asm sideeffect "vaddss $1, $1, $0", "=x,x"(float 0.0)')
