"""Forward values: what a straight serial loop stores, its next turns take from registers.

                                         c = x[lo - 1]
    for j in lo … hi:                    for j in lo … hi:
      x[j] = 0.5 * x[j-1] + b[j]    →      x[j] = c = 0.5 * c + b[j]

The chain through memory, a store and a load that waits for it, becomes one through registers.
Short unrolled loops inside are written out first, so that rows done side by side have chains of
their own; where the whole body is a short vector loop, each of its lanes has one, and what all
turns store at one place is stored behind the loop. Scalar
replacement (Callahan, Carr, Kennedy, 1990), of stored values; LLVM does it where it can prove that
nothing else is stored there, which it cannot for rows of a symbolic length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from weft.codegen.loop_ir import (
    Allocate,
    Block,
    Buffer,
    Comment,
    For,
    If,
    Kernel,
    Let,
    Prefetch,
    Stmt,
    Store,
    Update,
    expressions,
    walk,
)
from weft.codegen.rebuild import map_all_expressions, map_children, map_expressions
from weft.codegen.simplify import simplify_kernel
from weft.frontend.scalar_affine import Affine, FloorDiv, to_affine
from weft.frontend.scalar_expr import (
    Expr,
    Literal,
    Load,
    Select,
    Var,
    literal,
    rewrite,
    select,
    substitute,
)
from weft.frontend.scalar_expr import walk as walk_expr

TURNS = 4  # how many turns back a value is kept
_WRITTEN_OUT = 64  # statements that the unrolled loops in a loop may grow to
_LANES = 64  # turns of a vector loop whose values are kept in registers

_Place = tuple[str, tuple[Expr, ...]]  # an element: buffer and indices
_Forms = tuple[Affine, ...]


def forward_values(kernel: Kernel) -> Kernel:
    """``kernel`` with stored values forwarded, simplified."""
    shared = {b.name for b in kernel.buffers if b.aliases}
    shared |= {name for b in kernel.buffers for name in b.aliases}
    forwarding = _Forwarding({b.name: b for b in kernel.buffers if b.name not in shared}, [])
    body = forwarding.stmt(kernel.body)
    return simplify_kernel(replace(kernel, body=body)) if forwarding.made else kernel


@dataclass(frozen=True, slots=True)
class _Chain:
    """The values that a loop stores at ``place`` are read again: ``back`` says how many turns later
    each load comes. ``names[k]``: the register of k + 1 turns ago, or of each lane's of ``lanes``.
    """

    place: _Place
    buffer: Buffer
    back: Mapping[Load, int]
    names: tuple[str, ...]
    lanes: For | None
    fixed: bool  # all turns store at one place
    behind: bool = False  # … and nothing else in the loop stores or reads there

    def registers(self) -> list[Buffer]:
        shape = () if self.lanes is None else (self.lanes.upper,)
        strides = () if self.lanes is None else (literal(1),)
        return [Buffer(name, self.buffer.dtype, shape, strides, "register") for name in self.names]

    @property
    def cell(self) -> tuple[Expr, ...]:
        """Where the value is in a register."""
        return () if self.lanes is None else (Var(self.lanes.var),)

    def held(self, turns: int) -> Expr:
        """The value of ``turns`` turns ago, as it was when this turn began."""
        return Var(f"{self.names[turns - 1]}.was", self.buffer.dtype)

    def begin(self, loop: For) -> Iterator[Stmt]:
        """Load what the turns before the first have left."""
        name, indices = self.place
        for k, register in enumerate(self.names, start=1):
            at = {loop.var: loop.lower - k}
            value: Expr = Load(name, tuple(substitute(i, at) for i in indices), self.buffer.dtype)
            later = min((turns for turns in self.back.values() if turns >= k), default=k) - k
            if later:  # it is first loaded in a later turn, which there may not be
                there = loop.lower + later < loop.upper
                value = select(there, value, literal(0, self.buffer.dtype))
            yield Store(register, self.cell, value)

    def store(self, value: Expr) -> Stmt:
        """Store ``value`` to memory and to the registers."""
        name, indices = self.place
        new = Var(f"{self.names[0]}.new", self.buffer.dtype)
        first, *others = self.names
        if self.behind:
            return Store(first, self.cell, value)
        moves = [Store(r, self.cell, self.held(k)) for k, r in enumerate(others, start=1)]
        stores = (Store(name, indices, new), Store(first, self.cell, new), *moves)
        return Let(new.name, value, Block(stores))

    def finish(self) -> Iterator[Stmt]:
        """Store what the last turn has left."""
        if self.behind:
            name, indices = self.place
            yield Store(name, indices, Load(self.names[0], self.cell, self.buffer.dtype))


@dataclass(frozen=True, slots=True)
class _Forwarding:
    """``buffers``: those in scope that overlap no other. ``made``: the chains so far."""

    buffers: Mapping[str, Buffer]
    made: list[_Chain]

    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, Allocate) and stmt.buffer.scope != "register":
            inside = replace(self, buffers={**self.buffers, stmt.buffer.name: stmt.buffer})
            return replace(stmt, body=inside.stmt(stmt.body))
        if isinstance(stmt, For) and stmt.kind == "serial" and stmt.step == 1:
            straight = replace(stmt, body=_written_out(stmt.body))
            lanes = straight.body if _short_vector(straight.body) else None
            chains = self._chains(straight, lanes)
            if chains:
                return _carried(straight, chains)
        return map_children(stmt, self.stmt)

    def _chains(self, loop: For, lanes: For | None) -> list[_Chain]:
        inside = list(walk(loop.body if lanes is None else lanes.body))
        if not all(
            isinstance(s, Block | Let | Store | Update | Prefetch | Comment) for s in inside
        ):
            return []
        if any(isinstance(n, Load) for e in (loop.lower, loop.upper) for n in walk_expr(e)):
            return []
        bound = {s.name for s in inside if isinstance(s, Let)}
        places = [place for s in inside for place in _written(s)]
        loads = list(dict.fromkeys(n for s in inside for e in expressions(s) for n in _sure(e)))
        found = (self._chain(loop, lanes, p, places, loads, bound) for p in places)
        chains = [c for c in found if c]
        every = {n for s in inside for e in expressions(s) for n in walk_expr(e)}
        read = [(n.source, n.indices) for n in every if isinstance(n, Load)]
        return [replace(c, behind=c.fixed and _alone(c.place, places, read)) for c in chains]

    def _chain(
        self,
        loop: For,
        lanes: For | None,
        place: _Place,
        places: Sequence[_Place],
        loads: Sequence[Load],
        bound: set[str],
    ) -> _Chain | None:
        """What ``loop`` reads again of what it stores at ``place``."""
        name, indices = place
        own = _forms(indices, loop.var, bound)
        if name not in self.buffers or own is None or len([p for p in places if p == place]) > 1:
            return None
        moving = [loop.var] if lanes is None else [loop.var, lanes.var]
        if lanes is not None and not any(form.coefficient(lanes.var) for form in own):
            return None
        others = [at for other, at in places if other == name and at != indices]
        if not all(_apart(own, _forms(at, loop.var, bound), moving) for at in others):
            return None
        back: dict[Load, int] = {}
        fixed = lanes is not None and not any(form.coefficient(loop.var) for form in own)
        if fixed and _read_after(loop, place):
            return None
        for load in loads:
            forms = _forms(load.indices, loop.var, bound) if load.source == name else None
            turns = 0 if forms is None else _turns_back(own, forms, loop.var)
            if fixed and (load.source, load.indices) == place:
                turns = 1
            if 1 <= turns <= TURNS:
                back[load] = turns
        if not back and not fixed:
            return None
        number = len(self.made)
        names = tuple(f"carried.{number}.{k}" for k in range(1, max(back.values(), default=1) + 1))
        chain = _Chain(place, self.buffers[name], back, names, lanes, fixed)
        self.made.append(chain)
        return chain


def _carried(loop: For, chains: Sequence[_Chain]) -> Stmt:
    """``loop`` with ``chains`` in registers."""
    values = {load: c.held(turns) for c in chains for load, turns in c.back.items()}
    stores = {c.place: c for c in chains}

    def change(node: Expr) -> Expr | None:
        return values.get(node) if isinstance(node, Load) else None

    def stmt(given: Stmt) -> Stmt:
        if isinstance(given, Let):
            return Let(given.name, rewrite(given.value, change), stmt(given.body))
        made = map_expressions(map_children(given, stmt), lambda e: rewrite(e, change))
        match given, made:
            case Store(name, indices), Store(_, _, value) if (name, indices) in stores:
                return stores[name, indices].store(value)
            case Update(((name, indices),), _, _), Update(_, monoid, (value,)) if (
                name,
                indices,
            ) in stores:
                chain = stores[name, indices]
                old = chain.held(1) if chain.fixed else Load(name, indices, chain.buffer.dtype)
                operands: dict[str, Expr] = {monoid.left[0].name: old, monoid.right[0].name: value}
                return chain.store(substitute(monoid.combined[0], operands))
        return made

    lanes = chains[0].lanes
    body = stmt(loop.body if lanes is None else lanes.body)
    for chain in chains:
        for turns, register in enumerate(chain.names, start=1):
            held = chain.held(turns)
            assert isinstance(held, Var)
            body = Let(held.name, Load(register, chain.cell, held.dtype), body)
    begin: Stmt = Block(tuple(s for c in chains for s in c.begin(loop)))
    if lanes is not None:
        begin, body = replace(lanes, body=begin), replace(lanes, body=body)
    finish: Stmt = Block(tuple(s for c in chains for s in c.finish()))
    if lanes is not None:
        finish = replace(lanes, body=finish)
    runs = loop.lower < loop.upper
    parts = [If(runs, begin), replace(loop, body=body)]
    parts += [If(runs, finish)] if any(c.behind for c in chains) else []
    result: Stmt = Block(tuple(parts))
    for chain in chains:
        for buffer in chain.registers():
            result = Allocate(buffer, result)
    return result


# ---- unrolled loops inside ----------------------------------------------------------------------


def _written_out(stmt: Stmt) -> Stmt:
    """``stmt`` with its unrolled loops of a few plain statements as their copies."""
    if not isinstance(stmt, For):
        return map_children(stmt, _written_out)
    body = _written_out(stmt.body)
    numbers = isinstance(stmt.lower, Literal) and isinstance(stmt.upper, Literal)
    if stmt.kind != "unrolled" or not numbers or any(isinstance(s, For) for s in walk(body)):
        return replace(stmt, body=body)
    assert isinstance(stmt.lower, Literal) and isinstance(stmt.upper, Literal)
    turns = range(int(stmt.lower.value), int(stmt.upper.value), stmt.step)
    if len(turns) * sum(1 for _ in walk(body)) > _WRITTEN_OUT:
        return replace(stmt, body=body)
    return Block(tuple(_at(body, {stmt.var: literal(n)}) for n in turns))


def _at(stmt: Stmt, values: dict[str, Expr]) -> Stmt:
    return map_all_expressions(stmt, lambda e: substitute(e, values))


# ---- questions ----------------------------------------------------------------------------------


def _short_vector(stmt: Stmt) -> TypeGuard[For]:
    """Whether ``stmt`` is a vector loop from 0 whose turns all fit in registers."""
    return (
        isinstance(stmt, For)
        and stmt.kind == "vector"
        and stmt.step == 1
        and stmt.lower == literal(0)
        and isinstance(stmt.upper, Literal)
        and int(stmt.upper.value) <= _LANES
    )


def _read_after(loop: For, place: _Place) -> bool:
    """Whether a turn of ``loop`` reads at ``place`` behind where it stores there."""
    stored = False
    for stmt in walk(loop.body):
        loads = (n for e in expressions(stmt) for n in walk_expr(e) if isinstance(n, Load))
        if stored and any((n.source, n.indices) == place for n in loads):
            return True
        stored = stored or place in _written(stmt)
    return False


def _alone(place: _Place, written: Sequence[_Place], read: Sequence[tuple[object, object]]) -> bool:
    """Whether no other element of its buffer is ``written`` or ``read``."""
    return all(p == place for p in (*written, *read) if p[0] == place[0])


def _written(stmt: Stmt) -> tuple[_Place, ...]:
    match stmt:
        case Store(name, indices):
            return ((name, indices),)
        case Update(targets):
            # What several components fold at once is no chain of single values.
            return targets if len(targets) == 1 else (*targets, *targets)
    return ()


def _sure(expr: Expr) -> Iterator[Load]:
    """The loads that evaluating ``expr`` performs in any case."""
    stack = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, Load):
            yield node
        stack.extend((node.condition,) if isinstance(node, Select) else node.children)


def _forms(indices: Sequence[Expr], var: str, bound: set[str]) -> _Forms | None:
    """``indices`` in normal form; None where they are not affine in ``var`` and fixed values."""
    found: list[Affine] = []
    for index in indices:
        form = to_affine(index)
        if form is None or form.variables() & bound:
            return None
        if any(isinstance(t, FloorDiv) and var in t.numerator.variables() for t, _ in form.terms):
            return None
        found.append(form)
    return tuple(found)


def _turns_back(stored: _Forms, loaded: _Forms, var: str) -> int:
    """How many turns after it is stored the element is loaded; 0 if never, or not always so."""
    distances: set[int] = set()
    for one, two in zip(stored, loaded, strict=True):
        difference, step = one - two, one.coefficient(var)
        if not difference.is_constant:
            return 0
        if step == 0 and difference.constant:
            return 0
        if step:
            if difference.constant % step:
                return 0
            distances.add(difference.constant // step)
    return distances.pop() if len(distances) == 1 else 0


def _apart(one: _Forms, two: _Forms | None, moving: Sequence[str]) -> bool:
    """Whether no turns of the loops over ``moving`` ever store the same element at both."""
    if two is None:
        return False
    return any(
        all(a.coefficient(var) == b.coefficient(var) == 0 for var in moving)
        and (a - b).is_constant
        and (a - b).constant != 0
        for a, b in zip(one, two, strict=True)
    )
