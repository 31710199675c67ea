"""Block loops that nest become one, whose turns are numbered: a thread has one number.

    for i in 0 .. min(4, n) block:                     for thread in 0 .. 256 block:
      for j in 0 .. min(64, m) block:                    let i = thread // 64
        S(i, j)                                   →      let j = thread % 64
                                                         if (i < n) & (j < m): S(i, j)

Each of them has a constant that bounds its turns, as tiles have. Conditions
between them move inside.

Also known as: loop collapsing; the linear index of a CUDA thread in its block.
"""

from __future__ import annotations

from weft.codegen.rebuild import map_children
from weft.ir.loop_ir import Block, For, If, Kernel, Let, Stmt, walk
from weft.ir.scalar_affine import Range, bounds
from weft.ir.scalar_expr import Expr, Var, literal
from weft.ir.scalar_simplify import simplify


def collapse_block(stmt: Stmt, names: set[str]) -> Stmt:
    """``stmt`` with nests of block loops collapsed; new names are none of ``names``, to which they
    are added."""
    if not isinstance(stmt, For) or stmt.kind != "block":
        return map_children(stmt, lambda part: collapse_block(part, names))
    loops, turns, condition, body = _nest(stmt)
    if len(loops) < 2:
        return stmt
    name = fresh_name("thread", names)
    rest: Expr = Var(name)
    made = body if condition is None else If(condition, body)
    total = 1
    for loop, count in reversed(list(zip(loops, turns, strict=True))):
        outermost = loop is loops[0]
        place = rest if outermost else rest % count
        made = Let(loop.var, loop.lower + place * loop.step, made)
        rest = rest // count
        total *= count
    return For(name, literal(0), literal(total), "block", made)


def _nest(stmt: For) -> tuple[list[For], list[int], Expr | None, Stmt]:
    """Block loops one inside the other, constants that bound their turns, under which condition
    there is a turn, and what is in them."""
    loops: list[For] = []
    turns: list[int] = []
    ranges: dict[str, Range] = {}
    condition: Expr | None = None
    body: Stmt = stmt
    while True:
        tests: list[Expr] = []
        inner = body
        while isinstance(inner, If) and inner.otherwise == Block(()):
            tests.append(inner.condition)
            inner = inner.then
        if not isinstance(inner, For) or inner.kind != "block":
            return loops, turns, condition, body
        most = bounds(inner.upper - inner.lower, ranges)[1]
        if most is None:
            return loops, turns, condition, body
        count = max(1, -(-most // inner.step))
        ranges[inner.var] = bounds(inner.lower, ranges)[0], bounds(inner.upper - 1, ranges)[1]
        if simplify(inner.upper - inner.lower) != literal(count * inner.step):
            tests.append(Var(inner.var) < inner.upper)
        for test in tests:
            condition = test if condition is None else condition & test
        loops.append(inner)
        turns.append(count)
        body = inner.body


def bound_names(kernel: Kernel) -> set[str]:
    """What ``kernel`` calls its parameters, loops and lets."""
    inside = list(walk(kernel.body))
    loops = {s.var for s in inside if isinstance(s, For)}
    return {*kernel.parameters, *loops, *(s.name for s in inside if isinstance(s, Let))}


def fresh_name(wanted: str, names: set[str]) -> str:
    """``wanted``, or that with a number; it is then one of ``names``."""
    name, number = wanted, 1
    while name in names:
        number += 1
        name = f"{wanted}_{number}"
    names.add(name)
    return name
