"""Rewriting of loops by kind, and worksharing loops: what passes over loops have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product

from weft.codegen.rebuild import map_scopes
from weft.codegen.simplify import simplified
from weft.codegen.tile_bounds import sides
from weft.ir.loop_ir import (
    Allocate,
    Block,
    Buffer,
    Comment,
    For,
    Kernel,
    Kind,
    Let,
    Stmt,
    While,
    children,
)
from weft.ir.scalar_expr import Expr, Literal, Load, Select, Var, has_loads, walk
from weft.ir.scalar_simplify import simplify

Place = tuple[str, tuple[Expr, ...]]  # an element: buffer and indices
Change = Callable[[For, Mapping[str, Buffer], frozenset[str]], Stmt | None]


def map_loops(kernel: Kernel, change: Change, *kinds: Kind) -> Kernel:
    """``kernel`` with ``change`` applied to its loops of ``kinds`` and step 1, outermost first.

    ``change`` takes a loop, the buffers in scope that alias no other, by name, and the names bound
    around the loop. None leaves the loop and goes on inside. The result is simplified if anything
    changed.
    """
    shared = {b.name for b in kernel.buffers if b.aliases}
    shared |= {name for b in kernel.buffers for name in b.aliases}
    made: list[Stmt] = []

    def inside(stmt: Stmt, names: frozenset[str], buffers: Mapping[str, Buffer]) -> Stmt:
        if isinstance(stmt, Allocate) and stmt.buffer.scope != "register":
            buffers = {**buffers, stmt.buffer.name: stmt.buffer}
        if isinstance(stmt, For) and stmt.kind in kinds and stmt.step == 1:
            changed = change(stmt, buffers, names)
            if changed is not None:
                made.append(changed)
                return changed
        return map_scopes(stmt, names, partial(inside, buffers=buffers))

    apart = {b.name: b for b in kernel.buffers if b.name not in shared}
    body = inside(kernel.body, frozenset(kernel.parameters), apart)
    return simplified(kernel, body) if made else kernel


def known_range(loop: For) -> range | None:
    """The iterations of ``loop``, if its bounds are constants."""
    match loop.lower, loop.upper:
        case Literal() as low, Literal() as high:
            return range(int(low.value), int(high.value), loop.step)
    return None


def unconditional_loads(expr: Expr) -> Iterator[Load]:
    """The loads that every evaluation of ``expr`` performs."""
    stack = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, Load):
            yield node
        stack.extend((node.condition,) if isinstance(node, Select) else node.children)


# ---- Worksharing: the parallel loop whose iterations a launch distributes over threads.


def worksharing_loop(kernel: Kernel) -> tuple[list[tuple[str, Expr]], For | None]:
    """(lets around it, the parallel loop that is the whole ``kernel``), or ([], None).

    Its bounds and the lets depend on parameters alone, so that the trip count is known before the
    launch; its iterations cost about the same, so that equal shares balance the load.
    """
    lets: list[tuple[str, Expr]] = []
    stmt: Stmt = kernel.body
    while not kernel.region:
        match stmt:
            case Let(name, value, body) if not has_loads(value):
                lets.append((name, value))
                stmt = body
            case Block(parts):
                real = [part for part in parts if not isinstance(part, Comment)]
                if len(real) != 1:
                    break
                stmt = real[0]
            case For(kind="parallel") if not (has_loads(stmt.lower) or has_loads(stmt.upper)):
                return ([], None) if is_uneven(stmt) else (lets, stmt)
            case _:
                break
    return [], None


def is_uneven(loop: For) -> bool:
    """Whether iterations of ``loop`` take different times: a trip count inside depends on the
    iteration (a triangle) or on data.

    Partial tiles do not count: of bounds that are ``min`` or ``max``, one pair of operands with a
    constant distance is enough.
    """
    stack: list[tuple[Stmt, frozenset[str]]] = [(loop.body, frozenset((loop.var,)))]
    while stack:
        stmt, varying = stack.pop()
        match stmt:
            case While():
                return True
            case For(var, lower, upper):
                moves = _varies(lower, varying) or _varies(upper, varying)
                pairs = product(sides(lower, "max"), sides(upper, "min"))
                if moves and not any(_even(low, high, varying) for low, high in pairs):
                    return True
                varying = varying | {var} if moves else varying - {var}
            case Let(name, value):
                varying = varying | {name} if _varies(value, varying) else varying - {name}
        stack.extend((child, varying) for child in children(stmt))
    return False


def _even(low: Expr, high: Expr, varying: frozenset[str]) -> bool:
    """Whether the trip count is invariant. If the bounds move together, so does it; two invariant
    bounds may cross a moving one, unless they are a constant apart."""
    length = simplify(high - low, {})
    if _varies(length, varying):
        return False
    return isinstance(length, Literal) or _varies(high, varying)


def _varies(expr: Expr, varying: frozenset[str]) -> bool:
    return any(
        isinstance(node, Load) or (isinstance(node, Var) and node.name in varying)
        for node in walk(expr)
    )
