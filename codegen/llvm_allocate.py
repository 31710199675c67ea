"""Where buffers of a kernel lie: in registers, in a thread's scratch memory, or in the team's."""

from __future__ import annotations

from typing import Protocol

from weft.codegen import llvm_region
from weft.codegen.llvm_builder import Value, integer
from weft.codegen.llvm_expressions import evaluate, evaluate_all
from weft.codegen.llvm_frame import Binding, Frame
from weft.codegen.llvm_memory import memory_type
from weft.codegen.loop_ir import Allocate, Buffer, Stmt
from weft.errors import CompileError
from weft.frontend.scalar_expr import Expr, Literal, literal


class Host(Protocol):
    """The emitter of statements, as seen from here."""

    frame: Frame
    scratch: list[Expr]  # bytes of scratch in use at each local allocation
    shared: list[Expr]  # bytes of the team's memory behind each allocation
    top: Expr  # of the scratch memory in use

    def emit(self, stmt: Stmt) -> None: ...


def allocate(host: Host, stmt: Allocate) -> None:
    """The body of ``stmt``, with memory for its buffer."""
    frame, buffer = host.frame, stmt.buffer
    bindings, top = frame.bindings, host.top
    match buffer.scope:
        case "register":
            binding = _register(host, buffer)
        case "shared":
            binding = _shared(host, buffer)
        case _:
            binding = _local(host, buffer)
    frame.bindings = {**bindings, buffer.name: binding}
    host.emit(stmt.body)
    frame.bindings, host.top = bindings, top


def _register(host: Host, buffer: Buffer) -> Binding:
    """A stack slot; rows padded to whole vectors, so that each vector is one LLVM register."""
    frame = host.frame
    sizes = [_constant(size, buffer) for size in buffer.shape]
    private = frame.lanes.count
    row = 0
    if sizes and not private and sizes[-1] > 1:
        width = frame.target.vector_bytes // buffer.dtype.itemsize
        row = sizes[-1]
        sizes[-1] = -(-row // width) * width
    strides, total = [], 1
    for size in reversed(sizes):
        strides.append(integer(total))
        total *= size
    elements = max(total, 1) * max(private, 1)
    pointer = frame.b.alloca(memory_type(buffer.dtype), elements)
    padded = sizes[-1] if row else 0
    order = tuple(reversed(strides))
    return Binding(pointer, buffer.dtype, order, "register", private, elements, row, padded)


def _local(host: Host, buffer: Buffer) -> Binding:
    """A piece of the thread's scratch memory, stacked on those of the scopes outside."""
    private = host.frame.lanes.count
    binding = _carved(host, buffer, host.frame.scratch, host.top, private)
    host.top = host.top + _cache_lines(buffer, private)
    host.scratch.append(host.top)
    return binding


def _shared(host: Host, buffer: Buffer) -> Binding:
    """A piece of the team's memory for itself: other threads may be in other scopes."""
    below = host.shared[-1] if host.shared else literal(0)
    host.shared.append(below + _cache_lines(buffer, 0))
    return _carved(host, buffer, llvm_region.SHARED, below, 0)


def _carved(host: Host, buffer: Buffer, memory: Value, at: Expr, private: int) -> Binding:
    frame, b = host.frame, host.frame.b
    offset = evaluate(frame, at)
    assert isinstance(offset, Value)
    strides = tuple(b.materialise(v) for v in evaluate_all(frame, buffer.strides))
    pointer = b.element(memory, "i8", offset)
    return Binding(pointer, buffer.dtype, strides, buffer.scope, private)


def _cache_lines(buffer: Buffer, private: int) -> Expr:
    """Bytes of ``buffer`` in whole cache lines, with a copy for each of ``private`` lanes."""
    bytes_: Expr = literal(buffer.dtype.itemsize * max(private, 1))
    for size in buffer.shape:
        bytes_ = bytes_ * size
    return (bytes_ + 63) // 64 * 64


def _constant(size: Expr, buffer: Buffer) -> int:
    if isinstance(size, Literal):
        return int(size.value)
    raise CompileError(
        "WEFT-E0501",
        f"register buffer {buffer.name} has a size that is not constant",
        why="registers are laid out when code is generated",
        hint="give it local scope, or specialise the size",
    )
