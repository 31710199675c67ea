"""Collapse: directly nested parallel loops become one, so that all of them are shared out.

    for i in 0 .. 7 parallel:              for ij in 0 .. 7 * n parallel:
      for j in 0 .. n parallel:      →       let i = ij // n
        body                                 let j = ij % n
                                             body

Also known as: OpenMP ``collapse``, Halide ``fuse``.
"""

from __future__ import annotations

from dataclasses import replace

from weft.codegen.map_loops import known_range
from weft.codegen.rebuild import map_children
from weft.ir.loop_ir import Block, Comment, For, If, Kernel, Let, Stmt, walk
from weft.ir.scalar_expr import Expr, Var, apply, literal
from weft.ir.scalar_expr import walk as walk_expr

ENOUGH = 256  # iterations that balance the load of any team


def collapse_parallel(kernel: Kernel) -> Kernel:
    """``kernel`` with its outermost nest of parallel loops collapsed, if the nest is
    rectangular."""
    return replace(kernel, body=_collapse(kernel.body))


def _collapse(stmt: Stmt) -> Stmt:
    match stmt:
        case For(kind="parallel"):
            return _nest(stmt)
        case Let() | If() | Block((_,)):
            return map_children(stmt, _collapse)
        case Block(parts) if sum(not isinstance(p, Comment) for p in parts) == 1:
            return map_children(stmt, _collapse)
    return stmt


def _nest(outer: For) -> For:
    while isinstance(outer.body, For) and outer.body.kind == "parallel":
        inner = outer.body
        if not _independent(outer, inner) or len(known_range(outer) or ()) >= ENOUGH:
            break
        outer = _pair(outer, inner)
    return outer


def _independent(outer: For, inner: For) -> bool:
    """Whether the bounds of ``inner`` do not depend on ``outer``, and both have step 1."""
    names = {n.name for e in (inner.lower, inner.upper) for n in walk_expr(e) if isinstance(n, Var)}
    return outer.var not in names and outer.step == inner.step == 1


def _pair(outer: For, inner: For) -> For:
    trips = known_range(inner)
    count = apply("max", inner.upper - inner.lower, literal(0))
    if trips is not None:
        count = literal(len(trips))
    name = f"{outer.var}.{inner.var}"
    taken = {s.var for s in walk(outer) if isinstance(s, For)}
    while name in taken:
        name += "_"
    first: Expr = Var(name) // count + outer.lower
    second: Expr = Var(name) % count + inner.lower
    body = Let(outer.var, first, Let(inner.var, second, inner.body))
    total = (outer.upper - outer.lower) * count
    return For(name, literal(0), total, "parallel", body)
