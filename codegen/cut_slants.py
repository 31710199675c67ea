"""Cut slants: rows that run side by side, each a little behind the one before, in one piece.

    for s in 0 .. N + 6:                                     for s in 0 .. 6: as before
      for p in max(0, s - N + 1) .. min(4, s // 2 + 1):  →   for s in 6 .. N:
        A[p, s - 2·p] = …                                      for p in 0 .. 4 unrolled: A[p, …] = …
                                                             for s in N .. N + 6: as before

The middle, where all rows run, has constant bounds and is written out; the ends are short.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from weft.codegen.conditions import both
from weft.codegen.cut_ranges import Cut, in_three, sides
from weft.codegen.loop_ir import For, If, Kernel, Let, Stmt, walk
from weft.codegen.rebuild import map_children
from weft.codegen.simplify import simplify_kernel
from weft.frontend.scalar_expr import Apply, Expr, Literal, Load, literal
from weft.frontend.scalar_expr import walk as walk_expr
from weft.polyhedral.analysis.linear import mentions

MOST = 32  # rows


@dataclass(frozen=True, slots=True)
class _Rows:
    """All turns that a loop over rows may take, and what must hold for it to take them all."""

    first: int
    end: int
    conditions: tuple[Expr, ...]


def cut_slants(kernel: Kernel) -> Kernel:
    """``kernel`` with loops around sliding rows cut, simplified."""
    return simplify_kernel(replace(kernel, body=_cut(kernel.body)))


def _cut(stmt: Stmt) -> Stmt:
    stmt = map_children(stmt, _cut)
    if not isinstance(stmt, For) or stmt.kind != "serial" or stmt.step != 1:
        return stmt
    loops = [s for s in walk(stmt.body) if isinstance(s, For)]
    rows = {id(loop): _rows(loop, stmt.var) for loop in loops}
    if not loops or not all(rows.values()):
        return stmt
    conditions = dict.fromkeys(c for r in rows.values() if r for c in r.conditions)
    if not all(_known_before(c, stmt.body) for c in conditions):
        return stmt
    always = [c for c in conditions if not mentions(c, (stmt.var,))]
    cuts: list[Cut] = []
    for condition in conditions:
        if mentions(condition, (stmt.var,)):
            found = list(sides(condition, stmt.var))
            if not found:
                return stmt
            cuts += found
    pieces = in_three(stmt, cuts, _whole(stmt.body, rows))
    return If(both(always), pieces, stmt) if always else pieces


def _rows(loop: For, var: str) -> _Rows | None:
    """The rows of ``loop``, if it is an unrolled one whose bounds move with ``var``."""
    if loop.kind != "unrolled" or loop.step != 1:
        return None
    if not (mentions(loop.lower, (var,)) or mentions(loop.upper, (var,))):
        return None
    lower, upper = list(_operands(loop.lower, "max")), list(_operands(loop.upper, "min"))
    first = [int(e.value) for e in lower if isinstance(e, Literal)]
    end = [int(e.value) for e in upper if isinstance(e, Literal)]
    if not first or not end or not 0 < min(end) - max(first) <= MOST:
        return None
    conditions = [
        *(Apply("le", (e, literal(max(first)))) for e in lower if not isinstance(e, Literal)),
        *(Apply("ge", (e, literal(min(end)))) for e in upper if not isinstance(e, Literal)),
    ]
    return _Rows(max(first), min(end), tuple(conditions))


def _known_before(condition: Expr, body: Stmt) -> bool:
    """Whether ``condition`` can be decided in front of a loop with this ``body``."""
    inside = {s.var for s in walk(body) if isinstance(s, For)}
    inside |= {s.name for s in walk(body) if isinstance(s, Let)}
    reads = any(isinstance(node, Load) for node in walk_expr(condition))
    return not reads and not mentions(condition, inside)


def _operands(expr: Expr, op: str) -> Iterator[Expr]:
    """What ``expr`` is the maximum or minimum of."""
    if isinstance(expr, Apply) and expr.op == op:
        for arg in expr.args:
            yield from _operands(arg, op)
    else:
        yield expr


def _whole(stmt: Stmt, rows: dict[int, _Rows | None]) -> Stmt:
    """``stmt`` with all turns of its loops over rows."""
    found = rows.get(id(stmt))
    if isinstance(stmt, For) and found is not None:
        return replace(stmt, lower=literal(found.first), upper=literal(found.end))
    return map_children(stmt, lambda part: _whole(part, rows))
