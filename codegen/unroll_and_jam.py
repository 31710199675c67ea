"""Unroll-and-jam: what iterations of a serial loop fold into the same row goes through memory once
for several of them.

    for d in lo … hi:                    for D in 0 … (hi - lo) / 4:
      for r vector:                        for r vector:
        x[r] += f(d, r)             →        x[r] = x[r] + f(lo + 4D, r) + … + f(lo + 4D + 3, r)
                                         for d in the rest: as before

Each element is folded in the order of the program. Only perfect nests are taken, whose rows have
elements of their own for each lane, invariant in ``d``, and where nothing that is read is written.
Vector loops short enough for ``scalar_replacement`` keep their row in registers without this.

Also known as: register tiling of the outer loop. Reference: Callahan, Carr, Kennedy, PLDI 1990.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from weft.codegen.cut_loop import fresh_name
from weft.codegen.map_loops import map_loops
from weft.codegen.never_alias import never_alias
from weft.ir.loop_ir import Block, Buffer, Comment, For, Kernel, Let, Stmt, Store, Update
from weft.ir.scalar_affine import FloorDiv, to_affine
from weft.ir.scalar_expr import Expr, Literal, Load, Var, apply, has_loads, literal, substitute
from weft.ir.scalar_expr import walk as walk_expr
from weft.ir.scalar_simplify import simplify
from weft.polyhedral.analysis.linear import mentions

_Parts = Sequence[Let | Update]

TURNS = 4  # iterations together: a quarter of the loads and stores of the row, few streams of rows
_SHORT = 8  # iterations of a loop of constant length that run together without a rest
_NODES = 96  # of expressions in the jammed body: beyond, these outweigh the loads and stores


def unroll_and_jam(kernel: Kernel) -> Kernel:
    """``kernel`` with folds into rows jammed, simplified."""
    return map_loops(kernel, _jammed, "serial")


def _jammed(loop: For, buffers: Mapping[str, Buffer], names: frozenset[str]) -> Stmt | None:
    lanes = _only(loop.body)
    if not isinstance(lanes, For) or (lanes.kind, lanes.step) != ("vector", 1):
        return None
    if any(mentions(end, (loop.var,)) or has_loads(end) for end in (lanes.lower, lanes.upper)):
        return None
    parts, turns = _parts(lanes.body), _turns(loop)
    if not parts or turns < TURNS or turns * sum(1 for _ in _nodes(parts)) > _NODES:
        return None
    updates = [part for part in parts if isinstance(part, Update)]
    bound = {loop.var, lanes.var, *(part.name for part in parts if isinstance(part, Let))}
    loads = [n for n in _nodes(parts) if isinstance(n, Load)]
    if any(load.source not in buffers for load in loads):
        return None
    targets = [name for u in updates for name, _ in u.targets]
    if len(targets) > len({*targets}) or not all(
        _has_own_row(u, loop, lanes, bound, loads, buffers) for u in updates
    ):
        return None
    count = simplify(loop.upper - loop.lower)
    blocks = apply("max", count // turns, literal(0))
    block = Var(fresh_name(f"{loop.var}.block", loop, names))
    body = _folded(parts, loop.var, loop.lower + block * turns, turns, buffers)
    jammed = For(block.name, literal(0), blocks, "serial", replace(lanes, body=body))
    return Block((jammed, replace(loop, lower=loop.lower + blocks * turns)))


def _only(stmt: Stmt) -> Stmt:
    while isinstance(stmt, Block) and len(stmt.stmts) == 1:
        (stmt,) = stmt.stmts
    return stmt


def _parts(stmt: Stmt) -> list[Let | Update]:
    """The definitions and folds of ``stmt``, in order; none if there is anything else."""
    found: list[Let | Update] = []
    stack = [stmt]
    while stack:
        match stack.pop():
            case Block(stmts):
                stack.extend(reversed(stmts))
            case Let() as let:
                found.append(let)
                stack.append(let.body)
            case Update(((_, _),)) as update:
                found.append(update)
            case Comment():
                pass
            case _:
                return []
    return found


def _nodes(parts: _Parts) -> Iterator[Expr]:
    for part in parts:
        for value in (part.value,) if isinstance(part, Let) else part.values:
            yield from walk_expr(value)


def _turns(loop: For) -> int:
    match loop.lower, loop.upper:
        case Literal(low), Literal(high) if high - low <= _SHORT:
            return int(high - low)
    return TURNS


def _folded(
    parts: _Parts, var: str, first: Expr, turns: int, buffers: Mapping[str, Buffer]
) -> Stmt:
    """``turns`` iterations of ``parts`` from ``first`` on, stored once."""
    now: dict[str, Expr] = {}
    lets: list[tuple[str, Expr]] = []
    for turn in range(turns):
        here: dict[str, Expr] = {var: first + turn}
        for part in parts:
            if isinstance(part, Let):
                value = substitute(part.value, here)
                result = here[part.name] = Var(f"{part.name}.{turn}", value.dtype)
            else:
                ((name, indices),) = part.targets
                old = now.get(name, Load(name, indices, buffers[name].dtype))
                left, right = part.monoid.left[0].name, part.monoid.right[0].name
                new = substitute(part.values[0], here)
                value = substitute(part.monoid.combined[0], {left: old, right: new})
                result = now[name] = Var(f"{name}.fold.{turn}", value.dtype)
            lets.append((result.name, value))
    stores = (Store(n, at, now[n]) for p in parts if isinstance(p, Update) for n, at in p.targets)
    made: Stmt = Block(tuple(stores))
    for name, value in reversed(lets):
        made = Let(name, value, made)
    return made


# ---- legality -----------------------------------------------------------------------------------


def _has_own_row(
    update: Update,
    loop: For,
    lanes: For,
    bound: Collection[str],
    loads: Sequence[Load],
    buffers: Mapping[str, Buffer],
) -> bool:
    """Whether ``update`` folds into an element for each of the ``lanes``, the same in all
    iterations of ``loop``, that no other of the ``loads`` reads."""
    ((name, indices),) = update.targets
    buffer = buffers.get(name)
    if buffer is None or buffer.dtype.compute != buffer.dtype:
        return False
    forms = [form for index in indices if (form := to_affine(index)) is not None]
    inside = {name for form in forms for name in form.variables()} & {*bound}
    floors = (t for form in forms for t, _ in form.terms if isinstance(t, FloorDiv))
    if any(lanes.var in floor.numerator.variables() for floor in floors):
        return False
    if len(forms) < len(indices) or inside != {lanes.var}:
        return False
    own = [load for load in loads if load.source == name]
    return all(never_alias(indices, load.indices, loop, bound) for load in own)
