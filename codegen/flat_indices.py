"""Flat indices: floors that cancel in an address.

    A[v // 4, v % 4]   →   A[0, v]          where rows of A are 4 elements long

Only for emitters that add up addresses: an index may leave its dimension.
"""

from __future__ import annotations

from dataclasses import replace

from weft.codegen.loop_ir import Allocate, Buffer, Kernel, Prefetch, Stmt, Store, Update, walk
from weft.codegen.rebuild import map_all_expressions, map_children
from weft.frontend.scalar_expr import Apply, Expr, Literal, Load, literal, rewrite
from weft.frontend.scalar_expr import walk as walk_expr
from weft.frontend.scalar_simplify import simplify

_Indices = tuple[Expr, ...]


def flat_indices(kernel: Kernel) -> Kernel:
    """``kernel`` whose accesses have the same addresses with fewer floors."""
    buffers = {b.name: b for b in kernel.buffers}
    buffers |= {s.buffer.name: s.buffer for s in walk(kernel.body) if isinstance(s, Allocate)}

    def load(node: Expr) -> Expr | None:
        if isinstance(node, Load):
            indices = _joined(node.indices, buffers.get(str(node.source)))
            return None if indices == node.indices else replace(node, indices=indices)
        return None

    loads = map_all_expressions(kernel.body, lambda e: rewrite(e, load))
    return replace(kernel, body=_flat(loads, buffers))


def _flat(stmt: Stmt, buffers: dict[str, Buffer]) -> Stmt:
    """``stmt`` with flat indices of what it writes."""
    match stmt:
        case Store() | Prefetch():
            return replace(stmt, indices=_joined(stmt.indices, buffers.get(stmt.buffer)))
        case Update():
            targets = ((name, _joined(at, buffers.get(name))) for name, at in stmt.targets)
            return replace(stmt, targets=tuple(targets))
    return map_children(stmt, lambda s: _flat(s, buffers))


def _joined(indices: _Indices, buffer: Buffer | None) -> _Indices:
    """``indices`` with neighbours added up where that has fewer floors than they have."""
    if buffer is None or not any(map(_floors, indices)):
        return indices
    found = list(indices)
    for d in range(len(found) - 1):
        match buffer.strides[d], buffer.strides[d + 1]:
            case Literal(far), Literal(near) if near and far % near == 0:
                both = simplify(found[d] * (far // near) + found[d + 1])
                if _floors(both) < _floors(found[d]) + _floors(found[d + 1]):
                    found[d : d + 2] = literal(0), both
    return tuple(found)


def _floors(expr: Expr) -> int:
    return sum(isinstance(n, Apply) and n.op in ("floordiv", "mod") for n in walk_expr(expr))
