"""Fix parameters: a kernel for one set of sizes, its bounds and shapes plain numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.codegen.loop_ir import Allocate, Buffer, Kernel, Let, Stmt
from weft.codegen.rebuild import map_children
from weft.codegen.simplify import simplify_kernel
from weft.frontend.scalar_expr import Expr, literal, substitute
from weft.frontend.scalar_simplify import simplify


def fix_parameters(kernel: Kernel, sizes: Mapping[str, int]) -> Kernel:
    """``kernel`` with the parameters in ``sizes`` at these values, simplified.

    kernel f(n)                          kernel f()
      A: float64[n]               →        A: float64[100]
      for i in 0 .. n serial:              for i in 0 .. 100 serial:
    """
    values: dict[str, Expr] = {name: literal(value) for name, value in sizes.items()}

    def allocated(stmt: Stmt) -> Stmt:
        stmt = map_children(stmt, allocated)
        if isinstance(stmt, Allocate):
            return replace(stmt, buffer=_fixed(stmt.buffer, values))
        return stmt

    body = allocated(kernel.body)
    for name in kernel.parameters:
        if name in values:
            body = Let(name, values[name], body)
    return simplify_kernel(
        replace(
            kernel,
            parameters=tuple(p for p in kernel.parameters if p not in values),
            buffers=tuple(_fixed(b, values) for b in kernel.buffers),
            body=body,
        )
    )


def _fixed(buffer: Buffer, values: dict[str, Expr]) -> Buffer:
    return replace(
        buffer,
        shape=tuple(simplify(substitute(s, values)) for s in buffer.shape),
        strides=tuple(simplify(substitute(s, values)) for s in buffer.strides),
    )
