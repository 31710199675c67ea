"""Recurrences through minima and maxima: what the last iteration made comes last.

    for j: c = min(a[j], min(b[j], c + 1))   →   for j: c = min(min(a[j], b[j]), c + 1)

Each iteration waits for the one before; the rest of the minimum is there by then. Of integers, so
that the order makes no difference. After ``scalar_replacement``, when recurrences are in registers.
Also known as: tree height reduction (Kuck, "The structure of computers and computations", 1978).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial, reduce

from weft.codegen.rebuild import map_all_expressions
from weft.ir.loop_ir import Allocate, For, Kernel, Let, Stmt, Store, children, walk
from weft.ir.scalar_expr import Apply, Expr, Load, Var, apply, rewrite
from weft.ir.scalar_expr import walk as walk_expr

_EITHER_ORDER = ("min", "max")


def late_operands(kernel: Kernel) -> Kernel:
    """``kernel`` with minima and maxima of integers that take values of the iteration before
    last."""
    late = set(_carried(kernel.body))
    if not late:
        return kernel
    for stmt in walk(kernel.body):
        if isinstance(stmt, Let) and _mentions(stmt.value, late):
            late.add(stmt.name)
    return replace(kernel, body=map_all_expressions(kernel.body, lambda e: _ordered(e, late)))


def _carried(body: Stmt) -> Iterator[str]:
    """The register buffers that a serial loop stores to and does not allocate."""
    stack: list[tuple[Stmt, frozenset[str]]] = [(body, frozenset())]
    while stack:
        stmt, there = stack.pop()
        if isinstance(stmt, Allocate) and stmt.buffer.scope == "register":
            there |= {stmt.buffer.name}
        if isinstance(stmt, For) and stmt.kind == "serial":
            stores = (s for s in walk(stmt.body) if isinstance(s, Store))
            yield from (s.buffer for s in stores if s.buffer in there)
            there = frozenset()
        stack.extend((child, there) for child in children(stmt))


def _mentions(expr: Expr, names: set[str]) -> bool:
    return any(
        (isinstance(n, Var) and n.name in names) or (isinstance(n, Load) and n.source in names)
        for n in walk_expr(expr)
    )


def _ordered(expr: Expr, late: set[str]) -> Expr:
    """``expr`` with operands that mention ``late`` behind the others."""

    def change(node: Expr) -> Expr | None:
        if not isinstance(node, Apply) or node.op not in _EITHER_ORDER or node.dtype.is_float:
            return None
        operands = list(_operands(node, node.op))
        behind = [o for o in operands if _mentions(o, late)]
        before = [o for o in operands if o not in behind]
        if not behind or len(before) < 2:
            return None
        return reduce(partial(apply, node.op), [*before, *behind])

    return rewrite(expr, change)


def _operands(expr: Expr, op: str) -> Iterator[Expr]:
    """What ``expr`` is the minimum or maximum ``op`` of."""
    stack = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, Apply) and node.op == op:
            stack.extend(reversed(node.args))
        else:
            yield node
