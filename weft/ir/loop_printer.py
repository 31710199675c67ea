"""Loop IR as text, for people, dumps and golden tests."""

from __future__ import annotations

from collections.abc import Iterator

from weft.ir.loop_ir import (
    Allocate,
    AsyncCopy,
    AwaitCopies,
    Barrier,
    Block,
    Buffer,
    Check,
    Comment,
    CommitCopies,
    For,
    If,
    Issue,
    Kernel,
    Let,
    LoadMatrices,
    Prefetch,
    Single,
    Stmt,
    Store,
    Update,
    While,
)
from weft.ir.scalar_expr import Expr, Literal
from weft.ir.scalar_printer import scalar_text


def print_kernel(kernel: Kernel) -> str:
    """The kernel, its buffers, its loops; one statement to a line."""
    kind = "region" if kernel.region else "kernel"
    lines = [f"{kind} {kernel.name}({', '.join(kernel.parameters)})"]
    lines += [f"  {print_buffer(buffer)}" for buffer in kernel.buffers]
    lines += print_stmt(kernel.body, 1).splitlines()
    lines += [f"  # {k}: {text}" for k, text in enumerate(kernel.messages, 1)]
    return "\n".join(lines)


def print_buffer(buffer: Buffer) -> str:
    """``name: dtype[shape]``; strides, scope, aliases and claims where they are unusual."""
    shape = ", ".join(map(scalar_text, buffer.shape))
    text = f"{buffer.name}: {buffer.dtype}[{shape}]"
    strides = tuple(scalar_text(s) for s in buffer.strides)
    if strides != _row_major(buffer):
        text += f" strides ({', '.join(strides)})"
    text += "" if buffer.scope == "global" else f" {buffer.scope}"
    text += "" if buffer.writable else " const"
    text += f" aliases {', '.join(buffer.aliases)}" if buffer.aliases else ""
    text += f" ahead {buffer.ahead}" if buffer.ahead else ""
    if (s := buffer.swizzle) is not None:
        text += f" swizzled {s.bits} bits from {s.base}, by {s.shift}"
    return text + _streams(buffer.streams)


def _row_major(buffer: Buffer) -> tuple[str, ...]:
    strides: list[str] = []
    step: Expr | None = None
    for size in reversed(buffer.shape):
        strides.append("1" if step is None else scalar_text(step))
        step = size if step is None else step * size
    return tuple(reversed(strides))


def print_stmt(stmt: Stmt, depth: int = 0) -> str:
    """``stmt`` indented by ``depth`` steps of two spaces."""
    return "\n".join(_lines(stmt, "  " * depth))


def _lines(stmt: Stmt, pad: str) -> Iterator[str]:
    while isinstance(stmt, Let):
        yield f"{pad}let {stmt.name} = {scalar_text(stmt.value)}"
        stmt = stmt.body
    deeper = pad + "  "
    match stmt:
        case Block(stmts):
            for each in stmts:
                yield from _lines(each, pad)
        case For():
            step = f" step {stmt.step}" if stmt.step != 1 else ""
            low, high = scalar_text(stmt.lower), scalar_text(stmt.upper)
            yield f"{pad}for {stmt.var} in {low} .. {high}{step} {stmt.kind}:"
            yield from _lines(stmt.body, deeper)
        case While():
            yield f"{pad}while {scalar_text(stmt.condition)}:"
            yield from _lines(stmt.body, deeper)
        case If():
            yield f"{pad}if {scalar_text(stmt.condition)}:"
            yield from _lines(stmt.then, deeper)
            if stmt.otherwise != Block(()):
                yield f"{pad}else:"
                yield from _lines(stmt.otherwise, deeper)
        case Allocate(buffer):
            yield f"{pad}allocate {print_buffer(buffer)}"
            yield from _lines(stmt.body, pad)
        case Single():
            yield f"{pad}single:"
            yield from _lines(stmt.body, deeper)
        case _:
            yield pad + _simple(stmt)


def _simple(stmt: Stmt) -> str:
    match stmt:
        case Store(buffer, indices, value, streams):
            return f"{_element(buffer, indices)} = {scalar_text(value)}{_streams(streams)}"
        case Update(targets, monoid, values):
            left = ", ".join(_element(*target) for target in targets)
            return f"{left} {monoid.name}= {', '.join(map(scalar_text, values))}"
        case Check(condition, code, detail):
            return (
                f"check {scalar_text(condition)} else {code}({', '.join(map(scalar_text, detail))})"
            )
        case Barrier():
            return "barrier"
        case Prefetch(buffer, indices, write, far):
            how = " to write" * write + " for later" * far
            return f"prefetch {_element(buffer, indices)}{how}"
        case Issue(instruction, operands):
            return f"{instruction.name} {', '.join(_element(*operand) for operand in operands)}"
        case LoadMatrices(target, tile, source, indices, _, matrices, transposed):
            how = " transposed" * transposed
            into = _element(target, tile)
            return f"{into} = {matrices} matrices of {_element(source, indices)}{how}"
        case AsyncCopy(target, source, count, valid):
            some = f"{scalar_text(valid)} of {count}"
            return f"copy {_element(*target)} = {_element(*source)}, {some}"
        case CommitCopies():
            return "commit copies"
        case AwaitCopies(left):
            return f"await copies but {left} groups" if left else "await copies"
        case Comment(text):
            return "# " + " ".join(text.split())
    raise AssertionError(stmt)


def _streams(condition: Expr | None) -> str:
    match condition:
        case None:
            return ""
        case Literal(value=True):
            return " streams"
    return f" streams if {scalar_text(condition)}"


def _element(buffer: str, indices: tuple[Expr, ...]) -> str:
    return f"{buffer}[{', '.join(map(scalar_text, indices))}]"
