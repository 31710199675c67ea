"""Trim: a kernel's parameters are those that it uses.

kernel pack(m, n, k)                     kernel pack(n, k)
  for i in 0 .. n: for j in 0 .. k: …  →   for i in 0 .. n: for j in 0 .. k: …

What packs the weights of a product with an open number of rows depends on no size, and runs once,
when compiling. Also known as dead argument elimination.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from weft.ir.loop_ir import Allocate, Buffer, Kernel, expressions, walk
from weft.ir.scalar_expr import Expr, variable_list


def trim_parameters(kernel: Kernel) -> Kernel:
    """``kernel`` without the parameters that neither its statements nor its buffers mention."""
    used = {name for expr in _expressions(kernel) for name in variable_list(expr)}
    kept = tuple(name for name in kernel.parameters if name in used)
    return kernel if kept == kernel.parameters else replace(kernel, parameters=kept)


def _expressions(kernel: Kernel) -> Iterator[Expr]:
    for buffer in kernel.buffers:
        yield from _of_buffer(buffer)
    for stmt in walk(kernel.body):
        yield from expressions(stmt)
        if isinstance(stmt, Allocate):
            yield from _of_buffer(stmt.buffer)


def _of_buffer(buffer: Buffer) -> tuple[Expr, ...]:
    return (*buffer.shape, *buffer.strides, *([] if buffer.streams is None else [buffer.streams]))
