"""The host program as text: one line per buffer and step, kernels as signatures or in full."""

from __future__ import annotations

from collections.abc import Callable

from weft.ir import loop_ir
from weft.ir.program import (
    Aligned,
    Arena,
    Buffer,
    Constant,
    Input,
    Launch,
    Output,
    Place,
    Program,
)
from weft.ir.scalar_expr import Expr
from weft.ir.size_arithmetic import text


def print_program(
    program: Program, print_kernel: Callable[[loop_ir.Kernel], str] | None = None
) -> str:
    """``program`` line by line, in the order of its grammar; kernels by ``print_kernel``."""
    lines = [f"program {program.name}({', '.join(program.parameters)})"]
    lines += [f"  {name} = {text(equation)}" for name, equation in program.derived]
    lines += [
        f"  {program.outputs[o].name} in place of {program.inputs[i].name}"
        for o, i in program.in_place
    ]
    lines.append(f"arena {text(program.arena)} bytes")
    lines += [f"  {_buffer(buffer)}" for buffer in program.buffers]
    lines.append("steps")
    lines += [f"  {number}: {_step(step)}" for number, step in enumerate(program.steps)]
    lines.append("kernels")
    for kernel in program.kernels:
        shown = (print_kernel or _signature)(kernel)
        lines += [f"  {line}".rstrip() for line in shown.splitlines()]
    return "\n".join(lines) + "\n"


def _buffer(buffer: Buffer) -> str:
    return f"{buffer.name}: {buffer.dtype}{_shape(buffer.shape)} at {_place(buffer.place)}"


def _shape(shape: tuple[Expr, ...]) -> str:
    return f"[{', '.join(text(size) for size in shape)}]"


def _place(place: Place) -> str:
    match place:
        case Input(index):
            return f"input {index}"
        case Output(index):
            return f"output {index}"
        case Constant(name):
            return f"constant {name!r}"
        case Arena(offset):
            return f"arena + {text(offset)}"
        case Aligned(index, offset):
            return f"input {index} if it begins at a line, else a copy at arena + {text(offset)}"


def _step(step: Launch) -> str:
    given = "" if step.parameters is None else f" with {', '.join(map(text, step.parameters))}"
    return f"launch {step.kernel}({', '.join(step.arguments)}){given}"


def _signature(kernel: loop_ir.Kernel) -> str:
    buffers = ", ".join(
        f"{'' if b.writable else 'const '}{b.name}: {b.dtype}{_shape(b.shape)}"
        for b in kernel.buffers
    )
    return f"kernel {kernel.name}({buffers}; {', '.join(kernel.parameters)})"
