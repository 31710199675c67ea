"""Loops around one store, with conditions between them, as tiles at edges have them.

    for r < 8:                                       loops r < 8, l < min(48, N - 48 * j)
      let end = min(N - 48 * j, 48)                  guard 0 < min(N - 48 * j, 48)
      if 0 < end:                             →
        for l < 48: if l < end: C[r, l] = t[r, l]

A condition on one loop's variable is a bound of that loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.codegen.conditions import parts_of
from weft.codegen.implied import slack
from weft.codegen.loop_ir import Block, Comment, For, If, Let, Stmt, Store
from weft.frontend.scalar_affine import Affine, to_expr
from weft.frontend.scalar_expr import Apply, Expr, Load, Select, Var, apply, substitute
from weft.frontend.scalar_expr import walk as walk_expr


@dataclass(frozen=True, slots=True)
class GuardedNest:
    """``guards`` in terms of loops and of what is known outside; ``lets``: what names within the
    nest stand for, in the same terms."""

    loops: tuple[For, ...]
    guards: tuple[Expr, ...]
    store: Store
    lets: Mapping[str, Expr]

    def resolved(self, expr: Expr) -> Expr:
        """``expr`` without names of the nest but those of its loops."""
        return substitute(expr, dict(self.lets))


def guarded_nest(stmt: Stmt) -> GuardedNest | None:
    """``stmt`` as loops around one store, none of them parallel; None where it is anything else."""
    loops: list[For] = []
    guards: list[Expr] = []
    lets: dict[str, Expr] = {}
    while not isinstance(stmt, Store):
        match stmt:
            case For(step=1) if stmt.kind != "parallel" and stmt.var not in lets:
                bounds = substitute(stmt.lower, lets), substitute(stmt.upper, lets)
                loops.append(replace(stmt, lower=bounds[0], upper=bounds[1]))
                stmt = stmt.body
            case Let(name) if name not in lets and all(name != loop.var for loop in loops):
                lets[name] = substitute(stmt.value, lets)
                stmt = stmt.body
            case If(condition, then, Block(())):
                guards += (substitute(part, lets) for part in parts_of(condition))
                stmt = then
            case Block(parts) if len(real := [p for p in parts if not isinstance(p, Comment)]) == 1:
                stmt = real[0]
            case _:
                return None
    return GuardedNest(tuple(loops), tuple(guards), stmt, lets)


@dataclass(frozen=True, slots=True)
class Within:
    """Loops within some conditions, and those of the conditions that bound none of them."""

    loops: tuple[For, ...]
    rest: tuple[Expr, ...]


def within(loops: Sequence[For], conditions: Sequence[Expr]) -> Within:
    """``loops`` where ``conditions`` hold."""
    found = {loop.var: loop for loop in loops}
    rest: list[Expr] = []
    for condition in (part for c in conditions for part in parts_of(c)):
        bound = _upper(condition, found.keys())
        if bound is None:
            rest.append(condition)
            continue
        name, upper = bound
        found[name] = replace(found[name], upper=apply("min", found[name].upper, upper))
    return Within(tuple(found.values()), tuple(rest))


def _upper(condition: Expr, names: Collection[str]) -> tuple[str, Expr] | None:
    """One of ``names`` and what it is less than where ``condition`` holds, in terms of no other."""
    match condition:
        case Apply("lt", (Var(name), high)) | Apply("gt", (high, Var(name))) if name in names:
            free = not any(isinstance(n, Var) and n.name in names for n in walk_expr(high))
            return (name, high) if free else None
    form = slack(condition)
    own = [] if form is None else [(t, c) for t, c in form.terms if t in names]
    if form is None or len(own) != 1 or own[0][1] != -1 or len(form.variables() & {*names}) != 1:
        return None
    name = str(own[0][0])
    return name, to_expr(form.replaced({name: Affine()}).plus(1))


def loads_under(expr: Expr, buffer: str) -> Iterator[tuple[Load, tuple[Expr, ...]]]:
    """The loads from ``buffer`` in ``expr``, each with conditions under which alone it is used."""
    stack: list[tuple[Expr, tuple[Expr, ...]]] = [(expr, ())]
    while stack:
        node, conditions = stack.pop()
        if isinstance(node, Load) and node.source == buffer:
            yield node, conditions
        if isinstance(node, Select):
            stack.append((node.condition, conditions))
            stack.append((node.if_true, (*conditions, node.condition)))
            stack.append((node.if_false, conditions))
        else:
            stack += ((child, conditions) for child in node.children)
