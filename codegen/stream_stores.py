"""Streaming stores: what the schedule says is not read again bypasses the caches, by whole lines.

                                          y streams if n · m · 8 > cache

    for i in 0 … n parallel:                  for i in 0 … n parallel:
      for j in 0 … m vector:                    if n · m · 8 > cache:
        y[i, j] = f(x[i, j])            →         for j in 0 … m vector:
                                                    y[i, j] = f(x[i, j]) streams
                                                else: …

The schedule says which tensors stream, and from which size on (``Buffer.streams``; decided by
``polyhedral/policy/large_arrays.py`` or by ``Schedule.stream``, proved by
``polyhedral/proof/memory_claims.py``). Here it becomes stores: of a vector loop that writes whole
lines, each element once. Where a sum is kept in memory after all, lines are touched again, and none
stream. If sizes are parameters, that is tested before each vector loop.

Also known as: non-temporal stores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from weft.codegen.rebuild import map_children
from weft.ir import dtypes
from weft.ir.loop_ir import (
    Buffer,
    For,
    If,
    Kernel,
    Let,
    Stmt,
    Store,
    Update,
    expressions,
    walk,
)
from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Expr, Literal, Load, Var, literal
from weft.ir.scalar_expr import walk as walk_expr

_NEVER = literal(False, dtypes.bool_)


def stream_stores(kernel: Kernel, line: int) -> Kernel:
    """``kernel`` with streaming stores to its buffers that stream; ``line``: bytes of a cache
    line."""
    if all(buffer.streams is None for buffer in kernel.buffers):
        return kernel
    large = _written_only(kernel)

    def inside(stmt: Stmt, loops: tuple[For, ...], names: Mapping[str, frozenset[str]]) -> Stmt:
        while isinstance(stmt, Let):
            names = {**names, stmt.name: _depends(stmt.value, names)}
            return replace(stmt, body=inside(stmt.body, loops, names))
        if isinstance(stmt, For):
            bounds = _depends(stmt.lower, names) | _depends(stmt.upper, names)
            names = {**names, stmt.var: bounds | {stmt.var}}
            made = replace(stmt, body=inside(stmt.body, (*loops, stmt), names))
            return _versioned(made, stmt) if stmt.kind == "vector" else made
        if isinstance(stmt, Store):
            if stmt.buffer in large and _whole_lines(stmt, large[stmt.buffer], loops, names, line):
                return replace(stmt, streams=large[stmt.buffer].streams)
            return stmt
        return map_children(stmt, lambda part: inside(part, loops, names))

    buffers = tuple(replace(buffer, streams=None) for buffer in kernel.buffers)
    return replace(kernel, buffers=buffers, body=inside(kernel.body, (), {}))


def _versioned(streaming: For, plain: For) -> Stmt:
    """A choice between both loops, if one condition decides about all streaming stores."""
    stores = [s for s in walk(streaming) if isinstance(s, Store) and s.streams is not None]
    conditions = {s.streams for s in stores}
    if len(conditions) != 1 or isinstance(condition := conditions.pop(), Literal):
        return streaming
    assert condition is not None
    return If(condition, _always(streaming), plain)


def _always(stmt: Stmt) -> Stmt:
    """``stmt`` with stores that stream unconditionally."""
    if isinstance(stmt, Store) and stmt.streams is not None:
        return replace(stmt, streams=literal(True, dtypes.bool_))
    return map_children(stmt, _always)


def _written_only(kernel: Kernel) -> dict[str, Buffer]:
    """The buffers that stream, as far as ``kernel`` only stores to them."""
    touched = {b for a in kernel.buffers for b in a.aliases}
    for stmt in walk(kernel.body):
        nodes = (n for e in expressions(stmt) for n in walk_expr(e))
        touched |= {str(n.source) for n in nodes if isinstance(n, Load)}
        if isinstance(stmt, Update):
            touched |= {name for name, _ in stmt.targets}
    return {
        b.name: b
        for b in kernel.buffers
        if b.streams not in (None, _NEVER) and b.name not in touched and not b.aliases
    }


def _depends(expr: Expr, names: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The loops that ``expr`` depends on; ``names``: the loops that other names depend on."""
    mentioned = [n.name for n in walk_expr(expr) if isinstance(n, Var)]
    return frozenset[str]().union(*(names.get(name, frozenset()) for name in mentioned))


def _whole_lines(
    stmt: Store,
    buffer: Buffer,
    loops: Sequence[For],
    names: Mapping[str, frozenset[str]],
    line: int,
) -> bool:
    """Whether the store writes whole lines along a vector loop, each element once: its indices
    depend on every loop."""
    if not loops or not stmt.indices or loops[-1].kind != "vector" or loops[-1].step != 1:
        return False
    lanes = loops[-1]
    moving = frozenset[str]().union(*(_depends(index, names) for index in stmt.indices))
    last = to_affine(stmt.indices[-1])
    if any(loop.var not in moving for loop in loops) or last is None:
        return False
    if last.coefficient(lanes.var) != 1 or buffer.strides[-1] != literal(1):
        return False
    match lanes.lower, lanes.upper:
        case Literal(low), Literal(high):
            trips = int(high) - int(low)
            return trips > 0 and trips * buffer.dtype.itemsize % line == 0
    return True
