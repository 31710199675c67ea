"""Fills: loads of what a nest has just filled with a constant become the constant, dead fills go.

    for i, j in …: C[i, j] = 0
    if the tile is whole:                         if the tile is whole:
      for r, l in …: t[r, l] = C[r, l]     →        for r, l in …: t[r, l] = 0
      (sums into t)                                 (sums into t)
      for r, l in …: C[r, l] = t[r, l]              for r, l in …: C[r, l] = t[r, l]
    else: …                                       else: for i, j in …: C[i, j] = 0; …

Fills, loads and stores cover boxes of indices; containment is decided on their bounds, under the
conditions around. So the sums of a register tile start in registers.

Also known as: store-to-load forwarding and dead-store elimination, of whole nests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.codegen.conditions import opposite, parts_of, slack
from weft.codegen.map_loops import known_range
from weft.codegen.rebuild import map_all_expressions, map_children
from weft.ir.loop_ir import (
    Allocate,
    Block,
    Comment,
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
from weft.ir.scalar_affine import Affine, to_affine, to_expr
from weft.ir.scalar_expr import Apply, Expr, Literal, Load, Select, Var, apply, rewrite, substitute
from weft.ir.scalar_expr import walk as walk_expr

_Known = tuple[Affine, ...]  # forms that are >= 0


def forward_fills(kernel: Kernel) -> Kernel:
    """``kernel`` without loads of constants just stored, and without dead fills."""
    shared = {name for b in kernel.buffers if b.aliases for name in (b.name, *b.aliases)}
    return replace(kernel, body=_forwarded(kernel.body, (), frozenset(shared)))


def _forwarded(stmt: Stmt, known: _Known, shared: frozenset[str]) -> Stmt:
    if isinstance(stmt, If):
        then = _forwarded(stmt.then, (*known, *_held(stmt.condition)), shared)
        otherwise = _forwarded(stmt.otherwise, (*known, *_failed(stmt.condition)), shared)
        return replace(stmt, then=then, otherwise=otherwise)
    stmt = map_children(stmt, lambda part: _forwarded(part, known, shared))
    if not isinstance(stmt, Block):
        return stmt
    parts = list(stmt.stmts)
    for k, part in enumerate(parts):
        fill = _fill(part)
        if fill is None or fill.buffer in shared:
            continue
        later = range(k + 1, len(parts))
        reader = next((m for m in later if _touches(parts[m], fill.buffer)), None)
        if reader is None:
            continue
        instead = _after(fill, parts[reader], known)
        if instead is not None:
            parts[k], parts[reader] = Block(()), instead
    return Block(tuple(parts))


def _held(condition: Expr) -> _Known:
    return tuple(form for part in parts_of(condition) if (form := slack(part)) is not None)


def _failed(condition: Expr) -> _Known:
    against = opposite(condition)
    return () if against is None else _held(against)


# ---- boxes --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Interval:
    """From max(``low``) up to, but excluding, min(``high``)."""

    low: tuple[Affine, ...]
    high: tuple[Affine, ...]

    def covers(self, other: _Interval, known: _Known) -> bool:
        below = all(any(_holds(y - x, known) for y in other.low) for x in self.low)
        return below and all(any(_holds(x - y, known) for y in other.high) for x in self.high)


def _holds(form: Affine, known: _Known) -> bool:
    """Whether ``form`` >= 0: as a constant, or because one of ``known`` is no greater."""
    rests = (form, *(form - each for each in known))
    return any(rest.is_constant and rest.constant >= 0 for rest in rests)


_Box = tuple[_Interval, ...]


def _covers(box: _Box, other: _Box, known: _Known) -> bool:
    return all(a.covers(b, known) for a, b in zip(box, other, strict=True))


def _box(indices: Sequence[Expr], loops: Sequence[For]) -> _Box | None:
    """The box of values that ``indices`` take in ``loops``; None if that may be no box."""
    by_name = {loop.var: loop for loop in loops}
    forms = [to_affine(index) for index in indices]
    used: list[str] = []
    intervals: list[_Interval] = []
    for form in forms:
        if form is None:
            return None
        own = [(c, by_name[t]) for t, c in form.terms if isinstance(t, str) and t in by_name]
        rest = form.replaced({loop.var: Affine() for _, loop in own})
        interval = None if rest.variables() & by_name.keys() else _interval(own, rest)
        if interval is None:
            return None
        used += [loop.var for _, loop in own]
        intervals.append(interval)
    outer = all(not _names(bound) & by_name.keys() for x in loops for bound in (x.lower, x.upper))
    return tuple(intervals) if outer and sorted(used) == sorted(by_name) else None


def _interval(own: Sequence[tuple[int, For]], rest: Affine) -> _Interval | None:
    """The values of ``rest`` + Σ coefficient * variable over ``own``, pairs of a coefficient and a
    loop."""
    if not own:
        return _Interval((rest,), (rest.plus(1),))
    if len(own) == 1 and own[0][0] == 1:
        low, high = _arms("max", own[0][1].lower), _arms("min", own[0][1].upper)
        if low is None or high is None:
            return None
        return _Interval(tuple(rest + x for x in low), tuple(rest + x for x in high))
    start, step = rest, 1
    for coefficient, loop in sorted(own, key=lambda pair: pair[0]):
        trips = known_range(loop)
        if coefficient != step or not trips:
            return None
        start, step = start.plus(step * trips.start), step * len(trips)
    return _Interval((start,), (start.plus(step),))


def _arms(op: str, bound: Expr) -> list[Affine] | None:
    if isinstance(bound, Apply) and bound.op == op:
        arms = [_arms(op, arg) for arg in bound.args]
        known = [arm for arm in arms if arm is not None]
        return [form for arm in known for form in arm] if len(known) == len(arms) else None
    form = to_affine(bound)
    return None if form is None else [form]


def _names(expr: Expr) -> set[str]:
    form = to_affine(expr)
    if form is not None:
        return set(form.variables())
    return {str(getattr(node, "name", "")) for node in walk_expr(expr)}


# ---- nests --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Fill:
    stmt: Stmt
    buffer: str
    box: _Box
    value: Literal

    @property
    def names(self) -> frozenset[str]:
        """The names that it binds."""
        return frozenset(s.var for s in walk(self.stmt) if isinstance(s, For))


def _fill(stmt: Stmt) -> _Fill | None:
    match guarded_nest(stmt):
        case GuardedNest(loops, (), Store(buffer, indices, Literal() as value), lets) if not lets:
            box = _box(indices, loops)
            return None if box is None else _Fill(stmt, buffer, box, value)
    return None


def _touches(stmt: Stmt, buffer: str) -> bool:
    return any(_loads(part, buffer) or _stores(part, buffer) for part in walk(stmt))


def _loads(stmt: Stmt, buffer: str) -> list[Load]:
    """The loads from ``buffer`` in ``stmt`` itself."""
    nodes = (node for expr in expressions(stmt) for node in walk_expr(expr))
    return [node for node in nodes if isinstance(node, Load) and node.source == buffer]


def _stores(stmt: Stmt, buffer: str) -> bool:
    match stmt:
        case Store(target):
            return target == buffer
        case Update(targets):
            return any(target == buffer for target, _ in targets)
    return False


# ---- rewriting ----------------------------------------------------------------------------------


def _after(fill: _Fill, stmt: Stmt, known: _Known) -> Stmt | None:
    """A statement equivalent to ``fill``; ``stmt``, with fewer loads or stores; None if there is
    none."""
    if _loads(stmt, fill.buffer):
        return None
    match stmt:
        case If():
            then = _after(fill, stmt.then, (*known, *_held(stmt.condition)))
            otherwise = _after(fill, stmt.otherwise, (*known, *_failed(stmt.condition)))
            if then is None and otherwise is None:
                return None
            return If(
                stmt.condition,
                then or Block((fill.stmt, stmt.then)),
                otherwise or Block((fill.stmt, stmt.otherwise)),
            )
        case Let(name) if name not in fill.names:
            body = _after(fill, stmt.body, known)
            return None if body is None else replace(stmt, body=body)
        case Allocate():
            body = _after(fill, stmt.body, known)
            return None if body is None else replace(stmt, body=body)
        case Block(parts):
            return _after_in(fill, list(parts), known)
    return None


def _after_in(fill: _Fill, parts: list[Stmt], known: _Known) -> Stmt | None:
    users = [k for k, part in enumerate(parts) if _touches(part, fill.buffer)]
    if not users:
        return None
    first = parts[users[0]]
    loaded = _without_loads(fill, first, known)
    if loaded is None:
        instead = _after(fill, first, known)
        return instead and Block((*parts[: users[0]], instead, *parts[users[0] + 1 :]))
    parts[users[0]] = loaded
    needed = len(users) == 1 or not _overwrites(parts[users[1]], fill, known)
    return Block((fill.stmt, *parts) if needed else tuple(parts))


def _without_loads(fill: _Fill, stmt: Stmt, known: _Known) -> Stmt | None:
    """``stmt``, a nest that loads filled elements only, with the filled value for these loads."""
    found = guarded_nest(stmt)
    if found is None or _stores(found.store, fill.buffer):
        return None
    outside = (
        *found.lets.values(),
        *found.guards,
        *(bound for x in found.loops for bound in (x.lower, x.upper)),
    )
    if any(n.source == fill.buffer for e in outside for n in walk_expr(e) if isinstance(n, Load)):
        return None
    for load, conditions in loads_under(found.store.value, fill.buffer):
        loops = within(found.loops, [*found.guards, *map(found.resolved, conditions)]).loops
        box = _box([found.resolved(index) for index in load.indices], loops)
        if box is None or not _covers(fill.box, box, known):
            return None

    def value(node: Expr) -> Expr | None:
        if isinstance(node, Load):
            return fill.value if node.source == fill.buffer else None
        return node.if_true if isinstance(node, Select) and node.if_true == node.if_false else None

    return map_all_expressions(stmt, lambda e: rewrite(e, value))


def _overwrites(stmt: Stmt, fill: _Fill, known: _Known) -> bool:
    found = guarded_nest(stmt)
    if found is None or any(_loads(part, fill.buffer) for part in walk(stmt)):
        return False
    if found.store.buffer != fill.buffer:
        return False
    inside = within(found.loops, found.guards)
    box = _box([found.resolved(index) for index in found.store.indices], inside.loops)
    filled = (high - low for x in fill.box for low in x.low for high in x.high)
    there = (*known, *(width.plus(-1) for width in filled))  # the fill is not empty
    always = all(_always(guard, there) for guard in inside.rest)
    return always and box is not None and _covers(box, fill.box, known)


def _always(condition: Expr, known: _Known) -> bool:
    """Whether ``condition``, on a number that is less than several bounds, always holds."""
    match condition:
        case Apply("lt", (low, high)) | Apply("gt", (high, low)) if (
            form := to_affine(low)
        ) is not None:
            arms = _arms("min", high)
            return arms is not None and all(_holds((a - form).plus(-1), known) for a in arms)
    form = slack(condition)
    return form is not None and _holds(form, known)


# ---- Guarded nests: loops around one store, with conditions in between, as partial tiles have
# them.
#
#     for r < 8:                                       loops r < 8, l < min(48, N - 48 * j)
#       let end = min(N - 48 * j, 48)                  guard 0 < min(N - 48 * j, 48)
#       if 0 < end:                             →
#         for l < 48: if l < end: C[r, l] = t[r, l]
#
# A guard on one loop's variable is a bound of that loop.


@dataclass(frozen=True, slots=True)
class GuardedNest:
    """``guards`` and ``lets`` are in terms of the loops and of names bound outside."""

    loops: tuple[For, ...]
    guards: tuple[Expr, ...]
    store: Store
    lets: Mapping[str, Expr]

    def resolved(self, expr: Expr) -> Expr:
        """``expr`` with the values of ``lets`` substituted."""
        return substitute(expr, dict(self.lets))


def guarded_nest(stmt: Stmt) -> GuardedNest | None:
    """``stmt`` as serial loops around one store; None if it is anything else."""
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
    """Loops with guards as bounds, and the ``rest`` of the guards, which bound no loop."""

    loops: tuple[For, ...]
    rest: tuple[Expr, ...]


def within(loops: Sequence[For], conditions: Sequence[Expr]) -> Within:
    """``loops`` with ``conditions`` as bounds where possible."""
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
    """One of ``names`` and its upper bound implied by ``condition``, in terms of no other of
    ``names``."""
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
    """The loads from ``buffer`` in ``expr``, each with the conditions under which it is
    performed."""
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
