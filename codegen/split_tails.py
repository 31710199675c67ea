"""Split tails: the body of a tile loop is duplicated for full and partial tiles.

    for t in 0…T:                              for t in 0…T:
      for p < min(14, N - 14·t) unrolled:  →     if t < N // 14: for p < 14 unrolled: …
        …                                        else:           for p < N - 14·t unrolled: …

With constant sizes the partial tile's bounds are constant too. With symbolic ones, its unrolled
loops become serial and its register buffers local. Statements without such bounds or conditions, as
register tiles inside cache tiles, are not duplicated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import reduce
from itertools import groupby

from weft.codegen.conditions import body_given, parts_of
from weft.codegen.cut_loop import side_of
from weft.codegen.rebuild import block, map_all_expressions, map_children
from weft.codegen.simplify import simplified
from weft.codegen.tile_bounds import sides
from weft.ir.loop_ir import Allocate, Block, For, If, Kernel, Let, Stmt, children, walk
from weft.ir.scalar_expr import Apply, Expr, Literal, Var, apply, literal, rewrite
from weft.ir.scalar_simplify import simplify
from weft.polyhedral.analysis.linear import linear, mentions


def split_tails(kernel: Kernel) -> Kernel:
    """``kernel`` with separate full and partial tiles, simplified."""
    kernel = simplified(kernel, _split(kernel.body))
    return simplified(kernel, _without_dynamic_registers(kernel.body))


def _split(stmt: Stmt, outer: tuple[str, ...] = ()) -> Stmt:
    """``outer``: variables of the parallel loops directly around, which stay perfectly nested."""
    if not isinstance(stmt, For) or stmt.kind in ("vector", "unrolled"):
        return map_children(stmt, _split)
    variables = (*outer, stmt.var)
    if stmt.kind == "parallel" and isinstance(stmt.body, For) and stmt.body.kind == "parallel":
        return map_children(stmt, lambda body: _split(body, variables))
    return map_children(stmt, lambda body: _separated(body, variables))


def _separated(body: Stmt, variables: tuple[str, ...]) -> Stmt:
    """Full and partial tiles of the loop over each of ``variables``, then of those inside."""
    if not variables:
        return _split(body)
    variable, rest = variables[0], variables[1:]
    bounds = dict.fromkeys(_tail_bounds(body, variable, frozenset()))
    limits = {b: limit for b in bounds if (limit := _full_below(b, variable)) is not None}
    if not limits:
        return _separated(body, rest)
    parts: list[Stmt] = []
    for depends, run in groupby(_parts(body), lambda part: _depends(part, variable, limits)):
        part = block(list(run))
        parts.append(_split_one(part, variables, limits) if depends else _separated(part, rest))
    return block(parts)


def _split_one(body: Stmt, variables: tuple[str, ...], limits: Mapping[Expr, Expr]) -> Stmt:
    """``body`` twice: where the first of ``variables`` is below the ``limits`` of all bounds, which
    are constant there, and elsewhere."""
    (variable, *rest), full = variables, body
    for bound in limits:
        full = _with_bound(full, bound)
    condition: Expr = literal(True, "bool")
    for limit in dict.fromkeys(limits.values()):
        condition = condition & Apply("lt", (Var(variable), limit))
        full = _decided(full, variable, limit, holds=True)
    if len({*limits.values()}) == 1:
        body = _decided(body, variable, next(iter(limits.values())), holds=False)
    return If(condition, _separated(full, tuple(rest)), _separated(body, tuple(rest)))


def _parts(body: Stmt) -> tuple[Stmt, ...]:
    return body.stmts if isinstance(body, Block) else (body,)


def _depends(part: Stmt, variable: str, limits: Mapping[Expr, Expr]) -> bool:
    """Whether ``part`` has one of the bounds, or a condition on ``variable`` and a limit."""
    if any(bound in limits for bound in _tail_bounds(part, variable, frozenset())):
        return True
    return any(_equivalent_conditions(part, variable, limit) for limit in {*limits.values()})


def _equivalent_conditions(stmt: Stmt, variable: str, limit: Expr) -> list[Expr]:
    """The conditions in ``stmt`` that are equivalent to ``variable < limit``."""
    asked = (part for s in walk(stmt) if isinstance(s, If) for part in parts_of(s.condition))
    found = []
    for condition in dict.fromkeys(asked):
        side = side_of(condition, variable) if mentions(condition, (variable,)) else None
        if side is not None and not side.lower and simplify(side.value - limit) == literal(0):
            found.append(condition)
    return found


def _decided(stmt: Stmt, variable: str, limit: Expr, *, holds: bool) -> Stmt:
    """``stmt`` under the assumption that ``variable < limit`` holds, or does not."""
    for condition in _equivalent_conditions(stmt, variable, limit):
        stmt = body_given(stmt, condition, holds=holds)
    return stmt


def _tail_bounds(stmt: Stmt, var: str, inside: frozenset[str]) -> Iterator[Expr]:
    """Upper bounds ``min(constant, …)`` of the point loops below that depend on ``var``, and on no
    variable bound ``inside``."""
    match stmt:
        case For(upper=upper, kind="vector" | "unrolled") if _constant_part(upper) is not None:
            if mentions(upper, (var,)) and not mentions(upper, tuple(inside)):
                yield upper
    match stmt:
        case For(var=name) | Let(name=name):
            inside = inside | {name}
    for child in children(stmt):
        yield from _tail_bounds(child, var, inside)


def _constant_part(bound: Expr) -> Literal | None:
    """``size`` if ``bound`` is ``min(size, …)``."""
    found = sides(bound, "min")
    sizes = [side for side in found if isinstance(side, Literal)]
    return sizes[0] if len(sizes) == 1 < len(found) else None


def _full_below(bound: Expr, var: str) -> Expr | None:
    """The value of ``var`` below which ``min(size, …)`` is ``size``."""
    size = _constant_part(bound)
    assert size is not None
    limits: list[Expr] = []
    for rest in sides(bound, "min"):
        if rest is size:
            continue
        split = linear(rest - size, (var,))
        step = None if split is None else split.coefficients.get(var, 0)
        if split is None or step is None or step >= 0:
            return None
        limits.append(split.rest // -step + 1)
    return reduce(lambda a, b: apply("min", a, b), limits)


def _with_bound(stmt: Stmt, bound: Expr) -> Stmt:
    """``stmt`` where the constant in ``bound`` is the minimum."""
    size, known = _constant_part(bound), {*sides(bound, "min")}

    def change(node: Expr) -> Expr | None:
        return size if {*sides(node, "min")} == known else None

    return map_all_expressions(stmt, lambda expr: rewrite(expr, change))


def _without_dynamic_registers(stmt: Stmt) -> Stmt:
    """Make unrolled loops without constant trip counts serial, and register buffers that they index
    local."""
    match stmt:
        case For(kind="unrolled") if not _constant_trips(stmt):
            body = _without_dynamic_registers(stmt.body)
            counted = _from_zero(replace(stmt, body=body))
            return replace(stmt, kind="serial", body=body) if counted is None else counted
        case Allocate(buffer, body) if buffer.scope == "register" and _dynamic_loops(body):
            local = replace(buffer, scope="local")
            return Allocate(local, _without_dynamic_registers(body))
    return map_children(stmt, _without_dynamic_registers)


def _from_zero(loop: For) -> For | None:
    """``loop`` with constant bounds, if its trip count is constant."""
    extent = simplify(loop.upper - loop.lower)
    if not isinstance(extent, Literal):
        return None
    var = f"{loop.var}.turn"
    return replace(
        loop,
        var=var,
        lower=literal(0),
        upper=extent,
        body=Let(loop.var, loop.lower + Var(var), loop.body),
    )


def _constant_trips(loop: For) -> bool:
    return isinstance(loop.lower, Literal) and isinstance(loop.upper, Literal)


def _dynamic_loops(stmt: Stmt) -> bool:
    """Whether a point loop below has no constant trip count."""
    if isinstance(stmt, For) and stmt.kind in ("vector", "unrolled") and not _constant_trips(stmt):
        return True
    return any(_dynamic_loops(child) for child in children(stmt))
