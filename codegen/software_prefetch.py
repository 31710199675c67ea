"""Software prefetch: vector loops through what the schedule says comes from far ask ahead for it.

    for k in 0 … n vector:             for k in 0 … n vector:
      y[k] = erf(x[k])           →       prefetch x[k + ahead]
                                         y[k] = erf(x[k])

The schedule says which arrays, and how far ahead (``Buffer.ahead``; decided by
``polyhedral/policy/large_arrays.py`` or by ``Schedule.prefetch``, proved by
``polyhedral/proof/memory_claims.py``). Here it becomes hints: at the first contiguous read of each,
unless the kernel prefetches already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from weft.codegen.rebuild import map_children
from weft.ir.loop_ir import (
    Block,
    Buffer,
    For,
    Kernel,
    Prefetch,
    Stmt,
    expressions,
    walk,
)
from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Expr, Literal, Load, Var, substitute
from weft.ir.scalar_expr import walk as walk_expr


def software_prefetch(kernel: Kernel) -> Kernel:
    """``kernel`` with prefetches of its buffers that have ``ahead``, if it has no others."""
    ahead = {buffer.name: buffer.ahead for buffer in kernel.buffers if buffer.ahead}
    if not ahead:
        return kernel
    buffers = tuple(replace(buffer, ahead=0) for buffer in kernel.buffers)
    if any(isinstance(s, Prefetch) for s in walk(kernel.body)):
        return replace(kernel, buffers=buffers)
    known: set[tuple[str, tuple[Expr, ...]]] = set()

    def inside(stmt: Stmt) -> Stmt:
        if isinstance(stmt, For) and stmt.kind == "unrolled":
            return stmt  # a block in registers, which goes across rows
        if not isinstance(stmt, For) or stmt.kind != "vector":
            return map_children(stmt, inside)
        first = dict.fromkeys(_streamed(stmt, ahead))
        hints = []
        for load in first:
            place = tuple(substitute(i, {stmt.var: Var("")}) for i in load.indices)
            if (str(load.source), place) not in known:
                known.add((str(load.source), place))
                later = load.indices[-1] + ahead[str(load.source)] // load.dtype.itemsize
                hints.append(Prefetch(str(load.source), (*load.indices[:-1], later)))
        return replace(stmt, body=Block((*hints, stmt.body))) if hints else stmt

    return replace(kernel, buffers=buffers, body=inside(kernel.body))


def known_bytes(buffer: Buffer) -> int:
    """The size of ``buffer``; 0 if unknown."""
    total = buffer.dtype.itemsize
    for size in buffer.shape:
        total *= int(size.value) if isinstance(size, Literal) else 0
    return total


def _streamed(loop: For, large: Mapping[str, int]) -> Iterator[Load]:
    """The loads of arrays in ``large`` that are contiguous along ``loop``."""
    stmts = list(walk(loop.body))
    if loop.step != 1 or any(isinstance(s, For) for s in stmts):
        return
    for node in (n for s in stmts for e in expressions(s) for n in walk_expr(e)):
        if isinstance(node, Load) and node.source in large and node.indices:
            *outer, last = map(to_affine, node.indices)
            moves = [form is None or loop.var in form.variables() for form in outer]
            if last is not None and last.coefficient(loop.var) == 1 and not any(moves):
                yield node
