"""Run a host program over NumPy arrays, one kernel after the other: the oracle for the entry point.

The arena is one array of bytes that starts as garbage (0xA5), so that a buffer read before it is
written, or overwritten too early, shows in the results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import Kernel
from weft.ir.program import Aligned, Arena, Buffer, Constant, Input, Output, Program
from weft.ir.size_arithmetic import bind, evaluate

Failure = tuple[int, int, int]  # code of the first failed Check and its two details
RunKernel = Callable[[Kernel, Sequence[np.ndarray], Mapping[str, int]], Failure | None]
"""``run(kernel, arrays in the order of its buffers, parameters)`` stores into the arrays."""


class CheckFailed(Exception):
    """A ``Check`` failed: ``args`` are the step number, the code and its two details."""


def interpret_program(
    program: Program,
    inputs: Sequence[np.ndarray],
    constants: Mapping[str, np.ndarray],
    run_kernel: RunKernel | None = None,
) -> tuple[np.ndarray, ...]:
    """The outputs of ``program``, fresh arrays; raises ``CheckFailed`` as the entry point would.

    Kernels are run by the interpreter of loop IR where ``run_kernel`` is None. An input that an
    output is computed in place of is overwritten, and is that output.
    """
    known = {program.inputs[k].name: int(inputs[k]) for k in program.scalars}
    shapes = [b.shape for b in program.inputs], [a.shape for a in inputs]
    sizes = bind(*shapes, program.derived, known)
    shared = dict(program.in_place)
    outputs = [
        inputs[shared[o]] if o in shared else np.zeros(_shape(buffer, sizes), buffer.dtype.numpy)
        for o, buffer in enumerate(program.outputs)
    ]
    arena = np.full(evaluate(program.arena, sizes), 0xA5, np.uint8)

    def array(buffer: Buffer) -> np.ndarray:
        shape = _shape(buffer, sizes)
        match buffer.place:
            case Input(i):
                return inputs[i].reshape(shape)
            case Output(i):
                return outputs[i].reshape(shape)
            case Constant(name):
                return constants[name].reshape(shape)
            case Arena(offset) | Aligned(_, offset):
                start = evaluate(offset, sizes)
                stop = start + prod(shape) * buffer.dtype.itemsize
                return arena[start:stop].view(buffer.dtype.numpy).reshape(shape)

    for buffer in program.buffers:
        if isinstance(buffer.place, Aligned):
            array(buffer)[...] = inputs[buffer.place.index].reshape(_shape(buffer, sizes))
    buffers = {b.name: b for b in program.buffers}
    kernels = {k.name: k for k in program.kernels}
    for number, step in enumerate(program.steps):
        kernel = kernels[step.kernel]
        if step.parameters is None:
            given = {name: sizes[name] for name in kernel.parameters}
        else:
            values = (evaluate(e, sizes) for e in step.parameters)
            given = dict(zip(kernel.parameters, values, strict=True))
        failure = (run_kernel or _run)(kernel, [array(buffers[a]) for a in step.arguments], given)
        if failure is not None:
            raise CheckFailed(number, *failure)
    return tuple(outputs)


def _run(
    kernel: Kernel, arrays: Sequence[np.ndarray], parameters: Mapping[str, int]
) -> Failure | None:
    flat = {b.name: a.reshape(-1) for b, a in zip(kernel.buffers, arrays, strict=True)}
    status = interpret(kernel, parameters, flat)
    return (status.code, *status.detail) if status.code else None


def _shape(buffer: Buffer, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(evaluate(size, sizes) for size in buffer.shape)
