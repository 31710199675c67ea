"""Simplify: index arithmetic in normal form, decided conditions, single-iteration loops, dead code.

Loop variables have known ranges, and inside an ``If`` its condition narrows them, so that most
minima, floors and remainders that tiling introduces vanish. Short unrolled loops in vector loops
are unrolled: a sum in each copy then is a sum along the vector loop (unroll and jam).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from weft.codegen.rebuild import map_expressions
from weft.ir import dtypes
from weft.ir.loop_ir import (
    Allocate,
    AsyncCopy,
    AwaitCopies,
    Barrier,
    Block,
    Check,
    Comment,
    CommitCopies,
    For,
    If,
    Issue,
    Kernel,
    Let,
    LoadMatrices,
    Prefetch,
    Single,
    Stmt,
    Store,
    Update,
    While,
    walk,
)
from weft.ir.scalar_affine import Range, bounds
from weft.ir.scalar_expr import Apply, Expr, Literal, Load, Var, literal, rewrite, substitute
from weft.ir.scalar_expr import walk as walk_expr
from weft.ir.scalar_simplify import simplify

Ranges = Mapping[str, Range]
_WRITTEN_OUT = 64  # statements that an unrolled loop in a vector loop may grow to


def simplify_kernel(kernel: Kernel) -> Kernel:
    """``kernel`` with the same effects and less arithmetic. Sizes of arrays are assumed >= 0; other
    parameters may be negative."""
    sizes = [size.name for b in kernel.buffers for size in b.shape if isinstance(size, Var)]
    scope = _Scope(dict.fromkeys(sizes, (0, None)), {})
    return replace(kernel, body=scope.stmt(kernel.body))


def simplified(kernel: Kernel, body: Stmt) -> Kernel:
    """``kernel``, which is in simplified form, with another body; ``kernel`` itself if the body is
    its own."""
    return kernel if body is kernel.body else simplify_kernel(replace(kernel, body=body))


@dataclass(frozen=True, slots=True)
class _Scope:
    """What is known at a point: ``ranges`` of variables, ``values`` to substitute for those that
    vanish. ``lanes``: in a vector loop. ``starts``: loop variables close to a symbolic value;
    ``lets``: integer lets, by name, if computed from variables; ``named``: all variables in these
    two."""

    ranges: Ranges
    values: Mapping[str, Expr]
    lanes: bool = False
    starts: Mapping[str, Start] = field(default_factory=dict)
    lets: Mapping[str, Expr] = field(default_factory=dict)
    named: frozenset[str] = frozenset()

    def expr(self, expr: Expr) -> Expr:
        value = simplify(substitute(expr, dict(self.values)), self.ranges)
        return without_floors(value, self.ranges, self.starts)

    def exprs(self, given: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(map(self.expr, given))

    def stmt(self, stmt: Stmt) -> Stmt:
        match stmt:
            case Block(stmts):
                return block([self.stmt(s) for s in stmts])
            case For():
                return self._for(stmt)
            case If():
                return self._if(stmt)
            case Let():
                return self._let(stmt)
            case Store(_, indices, value):
                return replace(stmt, indices=self.exprs(indices), value=self.expr(value))
            case Update(targets, monoid, values):
                moved = tuple((name, self.exprs(indices)) for name, indices in targets)
                return Update(moved, monoid, self.exprs(values))
            case Check(condition, code, (first, second)):
                checked = self.expr(condition)
                if _is(checked, True):
                    return Block(())
                return Check(checked, code, (self.expr(first), self.expr(second)))
            case Allocate(buffer, body):
                inner = self.stmt(body)
                return inner if _empty(inner) else Allocate(buffer, inner)
            case While(condition, body):
                return While(self.expr(condition), self.stmt(body))
            case Single(body):
                inner = self.stmt(body)
                return inner if _empty(inner) else Single(inner)
            case Prefetch() | Issue() | LoadMatrices() | AsyncCopy():
                return map_expressions(stmt, self.expr)
            case Comment() | Barrier() | CommitCopies() | AwaitCopies():
                return stmt

    def _for(self, loop: For) -> Stmt:
        lower, upper = self.expr(loop.lower), self.expr(loop.upper)
        trips = bounds(upper - lower, self.ranges)
        if trips[1] is not None and trips[1] <= 0:
            return Block(())
        once = trips == (1, 1) and not loop.instruction
        kept = loop.kind in ("warp", "lane")
        if once and isinstance(lower, Literal | Var) and not kept and loop.kind != "vector":
            return self._with_value(loop.var, lower).stmt(loop.body)
        if (
            self.lanes
            and not loop.instruction
            and loop.kind == "unrolled"
            and _short(loop, lower, upper)
        ):
            values = range(int(lower.value), int(upper.value), loop.step)  # type: ignore[attr-defined]
            return block([self._with_value(loop.var, literal(n)).stmt(loop.body) for n in values])
        last = bounds(upper - 1, self.ranges)[1]
        first = bounds(lower, self.ranges)[0]
        if kept and first == last:  # lanes and warps are named even where there is one
            inside = self._hiding(loop.var)
        else:
            inside = self._with_range(loop.var, (first, last))
        near = start(lower, upper, self.ranges, self.lets)
        if near is not None:
            starts, named = {**inside.starts, loop.var: near}, inside.named | _names(near.first)
            inside = replace(inside, starts=starts, named=named | {loop.var})
        inside = replace(inside, lanes=True) if loop.kind == "vector" else inside
        body = inside.stmt(loop.body)
        return body if _empty(body) else replace(loop, lower=lower, upper=upper, body=body)

    def _if(self, stmt: If) -> Stmt:
        condition = self.expr(stmt.condition)
        if isinstance(condition, Literal):
            return self.stmt(stmt.then if condition.value else stmt.otherwise)
        then = self._given(condition, True).stmt(stmt.then)
        otherwise = self._given(condition, False).stmt(stmt.otherwise)
        return Block(()) if _empty(then) and _empty(otherwise) else If(condition, then, otherwise)

    def _let(self, stmt: Stmt) -> Stmt:
        """A chain of lets, iteratively: chains may be longer than Python's stack."""
        scope, kept = self, list[tuple[str, Expr]]()
        while isinstance(stmt, Let):
            value = scope.expr(stmt.value)
            if isinstance(value, Literal | Var):
                scope = scope._with_value(stmt.name, value)
            else:
                limits = bounds(value, scope.ranges) if value.dtype == dtypes.int64 else None
                scope = scope._hiding(stmt.name)
                scope = scope if limits is None else scope._with_range(stmt.name, limits)
                scope = scope if limits is None else scope._with_let(stmt.name, value)
                kept.append((stmt.name, value))
            stmt = stmt.body
        body = scope.stmt(stmt)
        if _empty(body):
            return body
        for name, value in reversed(kept):
            body = Let(name, value, body)
        return body

    def _hiding(self, name: str) -> _Scope:
        if name not in self.ranges and name not in self.values and name not in self.named:
            return self
        return _Scope(
            {n: r for n, r in self.ranges.items() if n != name},
            {n: v for n, v in self.values.items() if n != name},
            self.lanes,
            {n: s for n, s in self.starts.items() if name not in {n, *_names(s.first)}},
            {n: v for n, v in self.lets.items() if name not in {n, *_names(v)}},
            self.named,
        )

    def _with_value(self, name: str, value: Expr) -> _Scope:
        return replace(self, values={**self.values, name: value})

    def _with_let(self, name: str, value: Expr) -> _Scope:
        """With ``name`` bound to ``value``, which is invariant in the scope."""
        if any(isinstance(node, Load) for node in walk_expr(value)):
            return self
        whole = substitute(value, dict(self.lets))
        named = self.named | _names(whole) | {name}
        return replace(self, lets={**self.lets, name: whole}, named=named)

    def _with_range(self, name: str, limits: Range) -> _Scope:
        if limits[0] is not None and limits[0] == limits[1]:
            return self._with_value(name, literal(limits[0]))
        hidden = self._hiding(name)
        return replace(hidden, ranges={**hidden.ranges, name: limits})

    def _given(self, condition: Expr, holds: bool) -> _Scope:
        """This scope where ``condition`` is known to hold (or not)."""
        match condition:
            case Apply("and", (left, right)) if holds:
                return self._given(left, True)._given(right, True)
            case Apply("lt", (Var(name), Literal(limit))) if name in self.ranges:
                return (
                    self._narrowed(name, None, int(limit) - 1)
                    if holds
                    else self._narrowed(name, int(limit), None)
                )
        return self

    def _narrowed(self, name: str, low: int | None, high: int | None) -> _Scope:
        old_low, old_high = self.ranges[name]
        if low is not None:
            old_low = low if old_low is None else max(low, old_low)
        if high is not None:
            old_high = high if old_high is None else min(high, old_high)
        return self._with_range(name, (old_low, old_high))


def _names(expr: Expr) -> set[str]:
    return {node.name for node in walk_expr(expr) if isinstance(node, Var)}


def _short(loop: For, lower: Expr, upper: Expr) -> bool:
    """Whether unrolling ``loop`` pays."""
    if not (isinstance(lower, Literal) and isinstance(upper, Literal)):
        return False
    trips = len(range(int(lower.value), int(upper.value), loop.step))
    return trips * sum(1 for _ in walk(loop.body)) <= _WRITTEN_OUT


def block(stmts: list[Stmt]) -> Stmt:
    """One statement for several: nested blocks flattened, empty ones dropped."""
    flat: list[Stmt] = []
    for stmt in stmts:
        flat.extend(stmt.stmts if isinstance(stmt, Block) else (stmt,))
    return flat[0] if len(flat) == 1 else Block(tuple(flat))


def _empty(stmt: Stmt) -> bool:
    return isinstance(stmt, Block) and not stmt.stmts


def _is(expr: Expr, value: bool) -> bool:
    return isinstance(expr, Literal) and expr.value is value


# ---- Floors that the loop over tiles decides.
#
#     for t: for k in 384*t .. min(384*t + 384, K): … k // 384 …        k // 384  →  t
#
# A point loop's variable is the first value of its tile plus an offset below a constant; a lower
# bound that is a maximum bounds it by each operand.


@dataclass(frozen=True, slots=True)
class Start:
    """A loop variable v with ``first`` <= v < ``first`` + ``size``."""

    first: Expr
    size: int


Starts = Mapping[str, Start]


def start(lower: Expr, upper: Expr, ranges: Ranges, lets: Mapping[str, Expr]) -> Start | None:
    """``Start`` of a loop variable with these bounds, in terms of names around and of ``lets``;
    None if their distance has no constant bound."""
    first, end = substitute(lower, dict(lets)), substitute(upper, dict(lets))
    known: list[Start] = []
    for begin in _all_of("max", first):  # each operand is a lower bound
        if isinstance(begin, Literal):
            continue  # ranges cover this case
        sizes = [bounds(simplify(e - begin, ranges), ranges)[1] for e in _all_of("min", end)]
        known += (Start(begin, size) for size in sizes if size is not None and size > 0)
    return min(known, key=lambda found: found.size, default=None)


def _all_of(which: str, expr: Expr) -> list[Expr]:
    """The operands of ``expr`` if it is a minimum ("min") or maximum ("max")."""
    match expr:
        case Apply(op, (left, right)) if op == which:
            return _all_of(which, left) + _all_of(which, right)
    return [expr]


def without_floors(expr: Expr, ranges: Ranges, starts: Starts) -> Expr:
    """``expr``, in normal form, without the floors that ``starts`` decide."""
    if not starts or not any(_is_floor(n) for n in walk_expr(expr)):
        return expr
    offsets = {name: f"{name} within its tile" for name in starts}  # no name has spaces
    moved = {name: s.first + Var(offsets[name], dtypes.int64) for name, s in starts.items()}
    hidden = set(offsets.values())
    inside = {**ranges, **{offsets[n]: (0, s.size - 1) for n, s in starts.items()}}

    def change(node: Expr) -> Expr | None:
        if not _is_floor(node):
            return None
        value = simplify(substitute(node, moved), inside)
        free = any(isinstance(n, Var) and n.name in hidden for n in walk_expr(value))
        return None if free else value

    changed = rewrite(expr, change)
    return expr if changed is expr else simplify(changed, ranges)


def _is_floor(node: Expr) -> bool:
    match node:
        case Apply("floordiv", (_, Literal())):
            return node.dtype == dtypes.int64
    return False
