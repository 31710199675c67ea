"""Scalar replacement: values that a serial loop stores are kept in registers for later iterations.

                                         c = x[lo - 1]
    for j in lo … hi:                    for j in lo … hi:
      x[j] = 0.5 * x[j-1] + b[j]    →      x[j] = c = 0.5 * c + b[j]

A recurrence through memory has the latency of a store and a dependent load in each step; one
through registers has not. Short unrolled loops in the body are unrolled first, so that
unroll-and-jam has one recurrence per row. If the body is a short vector loop, each lane has its own
register; what the lane before has stored is next to it there, and comes from memory for the first
one:

    for s: for i < W vector:             for s:
      x[i, s-i] = f(x[i-1, s-i])    →      for i < W vector: { m[i] = x[-1, s]; m[i+W] = c[i] }
                                           for i < W vector: x[i, s-i] = c[i] = f(m[i+W-1])

A store to the same element in all iterations moves behind the loop.

LLVM does this only if it can prove that no other store aliases, which it cannot for rows of
symbolic length. Reference: Callahan, Carr, Kennedy, "Improving register allocation for subscripted
variables", PLDI 1990.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import NamedTuple, TypeGuard

from weft.codegen.map_loops import Place, map_loops, unconditional_loads
from weft.codegen.rebuild import map_all_expressions, map_children
from weft.ir.loop_ir import (
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
from weft.ir.scalar_affine import Affine, FloorDiv, to_affine
from weft.ir.scalar_expr import (
    Expr,
    Literal,
    Load,
    Var,
    literal,
    rewrite,
    select,
    substitute,
)
from weft.ir.scalar_expr import walk as walk_expr

MAX_DISTANCE = 4  # longest distance, in iterations, between the store and the load of a value
_MAX_SHIFT = 2  # … and in lanes
_WRITTEN_OUT = 64  # statements that the unrolled loops in a loop may grow to
_LANES = 64  # iterations of a vector loop whose values are kept in registers

_Forms = tuple[Affine, ...]


class _Back(NamedTuple):
    """How many iterations ago a value was stored, and how many lanes before."""

    iterations: int
    lanes: int = 0


def scalar_replacement(kernel: Kernel) -> Kernel:
    """``kernel`` with stored values kept in registers, simplified."""
    made: list[_Chain] = []

    def forwarded(loop: For, buffers: Mapping[str, Buffer], _: frozenset[str]) -> Stmt | None:
        iteration = _iteration(replace(loop, body=_written_out(loop.body)))
        found: list[_Chain] = []
        for name, indices in iteration.places if iteration else ():
            if iteration and name in buffers:
                number = len(made) + len(found)
                chain = iteration.chain((name, indices), buffers[name], f"carried.{number}")
                found += [chain] if chain else []
        made.extend(found)
        return _carried(iteration.loop, found) if iteration and found else None

    return map_loops(kernel, forwarded, "serial")


@dataclass(frozen=True, slots=True)
class _Chain:
    """A recurrence: the loop stores at ``place``, and loads the value as many iterations and lanes
    later as ``back`` says. ``names[k]``: the register of the value of k + 1 iterations ago, one for
    each lane of ``lanes``."""

    place: Place
    buffer: Buffer
    back: Mapping[Load, _Back]
    names: tuple[str, ...]
    lanes: For | None
    fixed: bool  # all iterations store to one element
    behind: bool  # … and none accesses other elements of the buffer

    def registers(self) -> list[Buffer]:
        lanes = () if self.lanes is None else (self.lanes.upper,)
        sizes: dict[str, tuple[Expr, ...]] = dict.fromkeys(self.names, lanes)
        for back in self.back.values():
            if back.lanes:
                sizes[self.moved(back)] = tuple(size * 2 for size in lanes)
        dtype, strides = self.buffer.dtype, (literal(1),) * len(lanes)
        return [Buffer(name, dtype, shape, strides, "register") for name, shape in sizes.items()]

    @property
    def cell(self) -> tuple[Expr, ...]:
        """The index of the value in a register buffer."""
        return () if self.lanes is None else (Var(self.lanes.var),)

    def held(self, distance: int) -> Var:
        """The value stored ``distance`` iterations ago, as of the beginning of this iteration."""
        return Var(f"{self.names[distance - 1]}.was", self.buffer.dtype)

    def moved(self, back: _Back) -> str:
        """The register of the values of so many iterations ago, behind those before lane 0."""
        return f"{self.names[back.iterations - 1]}.moved.{back.lanes}"

    def value(self, load: Load) -> Expr:
        """What ``load`` loads, from registers."""
        back = self.back[load]
        if self.lanes is None or not back.lanes:
            return self.held(back.iterations)
        place = Var(self.lanes.var) + (self.lanes.upper - back.lanes)
        return Load(self.moved(back), (place,), self.buffer.dtype)

    def moves(self, lanes: For) -> Iterator[Stmt]:
        """Vector loops that lay values side by side with those before lane 0, from memory."""
        dtype = self.buffer.dtype
        lane, many = Var(lanes.var), lanes.upper
        for back, load in {back: load for load, back in self.back.items() if back.lanes}.items():
            name = self.moved(back)
            edges = [Var(f"{name}.edge.{k}", dtype) for k in range(back.lanes)]
            value: Expr = edges[-1]
            for k, edge in reversed(list(enumerate(edges[:-1]))):
                value = select(lane <= many - (back.lanes - k), edge, value)
            own = Load(self.names[back.iterations - 1], (lane,), dtype)
            both = Store(name, (lane,), value), Store(name, (lane + many,), own)
            made: Stmt = replace(lanes, body=Block(both))
            for k, edge in enumerate(edges):
                at: dict[str, Expr] = {lanes.var: literal(k)}
                place = tuple(substitute(i, at) for i in load.indices)
                made = Let(edge.name, replace(load, indices=place), made)
            yield made

    def begin(self, loop: For) -> Iterator[Stmt]:
        """Initialise the registers with the values from before the loop."""
        name, indices = self.place
        for k, register in enumerate(self.names, start=1):
            at = {loop.var: loop.lower - k}
            value: Expr = Load(name, tuple(substitute(i, at) for i in indices), self.buffer.dtype)
            there = self._loaded(loop, k)
            if there is not None:
                value = select(there, value, literal(0, self.buffer.dtype))
            yield Store(register, self.cell, value)

    def _loaded(self, loop: For, ago: int) -> Expr | None:
        """Where the value of ``ago`` iterations before ``loop`` is loaded, None for everywhere: the
        loop may be too short, or the lane that loads it beyond the last."""
        found: Expr | None = None
        for back in sorted({b for b in self.back.values() if b.iterations >= ago}):
            later, conditions = back.iterations - ago, list[Expr]()
            if later:
                conditions.append(loop.lower + later < loop.upper)
            if back.lanes and self.lanes is not None:
                conditions.append(Var(self.lanes.var) < self.lanes.upper - back.lanes)
            if not conditions:
                return None
            here = reduce(and_, conditions)
            found = here if found is None else found | here
        return found

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
        """Store the final value to memory."""
        if self.behind:
            name, indices = self.place
            yield Store(name, indices, Load(self.names[0], self.cell, self.buffer.dtype))


@dataclass(frozen=True, slots=True)
class _Iteration:
    """The accesses of an iteration of ``loop``, in each of its ``lanes`` if the body is a short
    vector loop.

    ``places`` are stored to; ``loads`` are performed unconditionally; ``touched`` may be accessed.
    ``bound``: names whose values vary between iterations in unknown ways.
    """

    loop: For
    lanes: For | None
    places: Sequence[Place]
    loads: Sequence[Load]
    touched: frozenset[Place]
    bound: frozenset[str]

    def chain(self, place: Place, buffer: Buffer, prefix: str) -> _Chain | None:
        """The recurrence through ``place``, in registers named after ``prefix``; None if there is
        none."""
        (name, indices), loop, lanes = place, self.loop, self.lanes
        own = self.forms(indices)
        if own is None or len([p for p in self.places if p == place]) > 1:
            return None
        moving = [loop.var] if lanes is None else [loop.var, lanes.var]
        if lanes is not None and not any(form.coefficient(lanes.var) for form in own):
            return None
        others = [at for other, at in self.places if other == name and at != indices]
        if not all(_never_alias(own, self.forms(at), moving) for at in others):
            return None
        back: dict[Load, _Back] = {}
        fixed = lanes is not None and not any(form.coefficient(loop.var) for form in own)
        if fixed and _read_after(loop, place):
            return None
        for load in self.loads:
            forms = self.forms(load.indices) if load.source == name else None
            found = None if forms is None else _back(own, forms, loop.var, lanes)
            if fixed and (load.source, load.indices) == place:
                found = _Back(1)
            if found is not None:
                back[load] = found
        if not back and not fixed:
            return None
        longest = max((b.iterations for b in back.values()), default=1)
        names = tuple(f"{prefix}.{k}" for k in range(1, longest + 1))
        elsewhere = (at for other, at in self.touched if other == name and at != indices)
        behind = fixed and all(_never_alias(own, self.forms(at), moving) for at in elsewhere)
        return _Chain(place, buffer, back, names, lanes, fixed, behind)

    def forms(self, indices: Sequence[Expr]) -> _Forms | None:
        """``indices`` in normal form; None if they are not affine in the loop's variable and
        invariants."""
        found: list[Affine] = []
        for index in indices:
            form = to_affine(index)
            if form is None or form.variables() & self.bound:
                return None
            floors = (t for t, _ in form.terms if isinstance(t, FloorDiv))
            if any(self.loop.var in t.numerator.variables() for t in floors):
                return None
            found.append(form)
        return tuple(found)


def _iteration(loop: For) -> _Iteration | None:
    """The accesses of ``loop``; None unless its body is straight-line code."""
    lanes = loop.body if _short_vector(loop.body) else None
    inside = list(walk(loop.body if lanes is None else lanes.body))
    if not all(isinstance(s, Block | Let | Store | Update | Prefetch | Comment) for s in inside):
        return None
    if any(isinstance(n, Load) for e in (loop.lower, loop.upper) for n in walk_expr(e)):
        return None
    places = [place for s in inside for place in _written(s)]
    loads = dict.fromkeys(n for s in inside for e in expressions(s) for n in unconditional_loads(e))
    every = (n for s in inside for e in expressions(s) for n in walk_expr(e))
    read = ((str(n.source), n.indices) for n in every if isinstance(n, Load))
    bound = frozenset(s.name for s in inside if isinstance(s, Let))
    return _Iteration(loop, lanes, places, list(loads), frozenset((*places, *read)), bound)


def _carried(loop: For, chains: Sequence[_Chain]) -> Stmt:
    """``loop`` with ``chains`` in registers."""
    lanes = chains[0].lanes
    values = {load: c.value(load) for c in chains for load in c.back}
    body = map_all_expressions(
        loop.body if lanes is None else lanes.body,
        lambda e: rewrite(e, lambda n: values.get(n) if isinstance(n, Load) else None),
    )
    body = _with_stores(body, {c.place: c for c in chains})
    for chain in chains:
        for distance, register in enumerate(chain.names, start=1):
            held = chain.held(distance)
            body = Let(held.name, Load(register, chain.cell, held.dtype), body)
    begin: Stmt = Block(tuple(s for c in chains for s in c.begin(loop)))
    finish: Stmt = Block(tuple(s for c in chains for s in c.finish()))
    if lanes is not None:
        begin, body, finish = (replace(lanes, body=part) for part in (begin, body, finish))
        moves = [stmt for c in chains for stmt in c.moves(lanes)]
        body = Block((*moves, body)) if moves else body
    runs = loop.lower < loop.upper
    parts: list[Stmt] = [If(runs, begin), replace(loop, body=body)]
    parts += [If(runs, finish)] if any(c.behind for c in chains) else []
    result: Stmt = Block(tuple(parts))
    for chain in chains:
        for buffer in chain.registers():
            result = Allocate(buffer, result)
    return result


def _with_stores(stmt: Stmt, chains: Mapping[Place, _Chain]) -> Stmt:
    """``stmt`` with the stores of ``chains`` doubled to registers."""
    match stmt:
        case Store(name, indices, value) if (name, indices) in chains:
            return chains[name, indices].store(value)
        case Update(((name, indices),), monoid, (value,)) if (name, indices) in chains:
            chain = chains[name, indices]
            old = chain.held(1) if chain.fixed else Load(name, indices, chain.buffer.dtype)
            operands: dict[str, Expr] = {monoid.left[0].name: old, monoid.right[0].name: value}
            return chain.store(substitute(monoid.combined[0], operands))
    return map_children(stmt, lambda part: _with_stores(part, chains))


# ---- unrolled loops inside ----------------------------------------------------------------------


def _written_out(stmt: Stmt) -> Stmt:
    """``stmt`` with its short unrolled loops of straight-line code unrolled."""
    if not isinstance(stmt, For):
        return map_children(stmt, _written_out)
    body = _written_out(stmt.body)
    numbers = isinstance(stmt.lower, Literal) and isinstance(stmt.upper, Literal)
    if stmt.kind != "unrolled" or not numbers or any(isinstance(s, For) for s in walk(body)):
        return replace(stmt, body=body)
    assert isinstance(stmt.lower, Literal) and isinstance(stmt.upper, Literal)
    values = range(int(stmt.lower.value), int(stmt.upper.value), stmt.step)
    if len(values) * sum(1 for _ in walk(body)) > _WRITTEN_OUT:
        return replace(stmt, body=body)
    return Block(tuple(_at(body, {stmt.var: literal(n)}) for n in values))


def _at(stmt: Stmt, values: dict[str, Expr]) -> Stmt:
    return map_all_expressions(stmt, lambda e: substitute(e, values))


# ---- questions ----------------------------------------------------------------------------------


def _short_vector(stmt: Stmt) -> TypeGuard[For]:
    """Whether ``stmt`` is a vector loop from 0 whose values all fit in registers."""
    return (
        isinstance(stmt, For)
        and stmt.kind == "vector"
        and stmt.step == 1
        and stmt.lower == literal(0)
        and isinstance(stmt.upper, Literal)
        and int(stmt.upper.value) <= _LANES
    )


def _read_after(loop: For, place: Place) -> bool:
    """Whether an iteration of ``loop`` loads at ``place`` after it stores there."""
    stored = False
    for stmt in walk(loop.body):
        loads = (n for e in expressions(stmt) for n in walk_expr(e) if isinstance(n, Load))
        if stored and any((n.source, n.indices) == place for n in loads):
            return True
        stored = stored or place in _written(stmt)
    return False


def _written(stmt: Stmt) -> tuple[Place, ...]:
    match stmt:
        case Store(name, indices):
            return ((name, indices),)
        case Update(targets):
            # A monoid of several components is no recurrence of single values.
            return targets if len(targets) == 1 else (*targets, *targets)
    return ()


def _back(stored: _Forms, loaded: _Forms, var: str, lanes: For | None) -> _Back | None:
    """How many iterations of the loop over ``var`` ago, and how many lanes before, what is loaded
    at ``loaded`` was stored; None if it was not, or too far away. Where another lane stored it,
    each lane has to have rows of its own."""
    distance = _distance(stored, loaded, var)
    if 1 <= distance <= MAX_DISTANCE:
        return _Back(distance)
    if lanes is None or not isinstance(lanes.upper, Literal):
        return None
    lane = lanes.var
    if not any(form.coefficient(lane) and not form.coefficient(var) for form in stored):
        return None
    floors = (t for form in (*stored, *loaded) for t, _ in form.terms if isinstance(t, FloorDiv))
    if any(lane in t.numerator.variables() for t in floors):
        return None
    for shift in range(1, min(_MAX_SHIFT, int(lanes.upper.value)) + 1):
        before = tuple(form.plus(-shift * form.coefficient(lane)) for form in stored)
        distance = _distance(before, loaded, var)
        if 1 <= distance <= MAX_DISTANCE:
            return _Back(distance, shift)
    return None


def _distance(stored: _Forms, loaded: _Forms, var: str) -> int:
    """The constant number of iterations between store and load of an element; 0 if there is
    none."""
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


def _never_alias(one: _Forms, two: _Forms | None, moving: Sequence[str]) -> bool:
    """Whether stores at ``one`` and ``two`` never write the same element, in any iterations of the
    loops over ``moving``."""
    if two is None:
        return False
    return any(
        all(a.coefficient(var) == b.coefficient(var) == 0 for var in moving)
        and (a - b).is_constant
        and (a - b).constant != 0
        for a, b in zip(one, two, strict=True)
    )
