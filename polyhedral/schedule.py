"""The automatic scheduler of tensor operators: which transformations, in which order and sizes.

    1. prepare      inline cheap pointwise producers                        Scop → Scop
    2. group        nests that run under common loops                       grouping
    3. choose       vector loop and register tile of each group             tile_choice
    4. stage        pack operands, give accumulators storage of their own   Scop → Scop
    5. build        fuse, reorder, tile, sink, promote, set kinds, order    tree → tree

Every step is one of the named transformations of ``polyhedral/transform``. Nothing here is trusted:
``legality`` and ``validation`` judge the result. Loop kernels have ``schedule_loops``.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from math import prod

from weft.frontend.scalar_expr import Expr, Literal, Var
from weft.polyhedral.analysis.linear import mentions
from weft.polyhedral.analysis.work import operations
from weft.polyhedral.grouping import Group, SharedDim, aligned, groups_of
from weft.polyhedral.machine import Machine
from weft.polyhedral.prepare import prepare
from weft.polyhedral.schedule_tree import Kind
from weft.polyhedral.scop import Scop, Scope, Statement, Tensor
from weft.polyhedral.tile_choice import TileChoice, choose_tiles, group_lanes
from weft.polyhedral.transform.edit import accesses_of
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.order import order
from weft.polyhedral.transform.pack_operand import pack_operand
from weft.polyhedral.transform.promote import can_promote, promote
from weft.polyhedral.transform.reorder import reorder
from weft.polyhedral.transform.scheduled import Scheduled, loops_above
from weft.polyhedral.transform.set_kinds import set_kinds
from weft.polyhedral.transform.share import share
from weft.polyhedral.transform.sink import sink
from weft.polyhedral.transform.stage_result import stage_result
from weft.polyhedral.transform.tile import point_name, tile, tile_name

HEAVY = 10.0  # operations of an epilogue that is not worth writing out for a whole register tile
LOCAL_BYTES = 256 * 1024  # the most that a thread's own scratch holds of one tensor
REGISTER_TILE = 32  # vectors


@dataclass(frozen=True, slots=True)
class Plan:
    """One group with its tile choice; statements by name, because staging replaces them."""

    statements: tuple[str, ...]
    shared: tuple[SharedDim, ...]
    choice: TileChoice
    lanes: int
    level: int


def schedule(scop: Scop, machine: Machine) -> Scheduled:
    """``scop`` with a fused, tiled, vectorised and parallel schedule for ``machine``."""
    staged = prepare(scop)
    plans = [_plan(staged, group, machine) for group in groups_of(staged)]
    for k, plan in enumerate(plans):
        staged, plans[k] = _stage(staged, plan)
    planned = {name for plan in plans for name in plan.statements}
    plans += [
        _plan(staged, group, machine)
        for group in groups_of(staged)
        if not planned & set(group.names)
    ]
    scheduled = replace(initial(staged), original=scop)
    for plan in plans:
        scheduled = _build(scheduled, plan)
    return order(scheduled)


def _plan(scop: Scop, group: Group, machine: Machine) -> Plan:
    choice = choose_tiles(scop, group, machine)
    return Plan(group.names, group.shared, choice, group_lanes(scop, group, machine), group.level)


# ---- staging ------------------------------------------------------------------------------------


def _stage(scop: Scop, plan: Plan) -> tuple[Scop, Plan]:
    """Packed copies of operands, and a temporary for every accumulator that is visible outside."""
    choice = plan.choice
    if choice.vector is None:
        return scop, plan
    for p in choice.packs:
        s = scop.statement(p.statement)
        order = (*(d.dims[p.statement] for d in plan.shared), *(s.update.dims if s.update else ()))
        scop, _ = pack_operand(
            scop, p.statement, p.operand, p.dim, choice.tiles[choice.vector], order
        )
    for tensor in _accumulators(scop, plan):
        light = frozenset(n for n in plan.statements if not _heavy(scop.statement(n)))
        scop = stage_result(scop, tensor, readers=light, level=plan.level)
        plan = _with_copy(scop, plan, tensor)
    return scop, plan


def _accumulators(scop: Scop, plan: Plan) -> tuple[str, ...]:
    """Tensors that the group folds into, and that others or heavy statements read."""
    found: dict[str, None] = {}
    for name in plan.statements:
        s = scop.statement(name)
        for write in s.writes if s.update else ():
            users = {u.name: u for u, _, _ in accesses_of(scop, write.tensor)}
            visible = scop.tensor(write.tensor).role == "output"
            if (
                visible
                or not set(users) <= set(plan.statements)
                or any(map(_heavy, users.values()))
            ):
                found.setdefault(write.tensor)
    return tuple(found)


def _heavy(s: Statement) -> bool:
    """Whether ``s`` computes so much that it reads its tile from memory, in loops of its own."""
    return s.update is None and operations(s) > HEAVY


def _with_copy(scop: Scop, plan: Plan, tensor: str) -> Plan:
    """``plan`` with the statement that copies the accumulator of ``tensor`` out."""
    copy = next(
        s for s in scop.statements if s.name not in plan.statements and tensor in _written(s)
    )
    writer = next(
        s for s in map(scop.statement, plan.statements) if copy.reads[0].tensor in _written(s)
    )
    write = next(w for w in writer.writes if w.tensor == copy.reads[0].tensor)
    partner = aligned(write, writer, copy.reads[0], copy)
    shared = tuple(
        replace(d, dims={**d.dims, copy.name: partner[d.dims[writer.name]]}) for d in plan.shared
    )
    return replace(plan, statements=(*plan.statements, copy.name), shared=shared)


def _written(s: Statement) -> set[str]:
    return {w.tensor for w in s.writes}


# ---- building the tree --------------------------------------------------------------------------


def _build(scheduled: Scheduled, plan: Plan) -> Scheduled:
    if not plan.shared:
        return _vectorise_inner(scheduled, plan)
    order = _outer_order(scheduled.scop, plan)
    scheduled, names = _share(scheduled, plan, order)
    if plan.choice.vector is None:
        outer = [names[d] for d in order]
        scheduled = _promote_all(scheduled, plan, outer, points=())
        scheduled = _parallel(scheduled, plan, outer)
        return _vectorise_inner(scheduled, plan)
    return _tile(scheduled, plan, order, names)


def _outer_order(scop: Scop, plan: Plan) -> list[int]:
    """Shared loops, outermost first: those that the vector's operands run along, the vector's own,
    then the rest, so that a packed panel is used by all tiles before the next one is read.

    Without tiles the vector loop goes innermost.
    """
    v = plan.choice.vector
    every = list(range(len(plan.shared)))
    if v is None:
        return every
    if not plan.choice.tiles:
        return [d for d in every if d != v] + [v]
    update = next((s for s in map(scop.statement, plan.statements) if s.update), None)
    if update is None:
        return [d for d in every if d != v] + [v]
    panel = [
        a
        for a in update.reads
        if any(mentions(i, (plan.shared[v].dims[update.name],)) for i in a.indices)
    ]
    with_panel = [
        d
        for d in every
        if d != v
        and panel
        and all(
            any(mentions(i, (plan.shared[d].dims[update.name],)) for i in a.indices) for a in panel
        )
    ]
    return [*with_panel, v, *(d for d in every if d != v and d not in with_panel)]


def _share(scheduled: Scheduled, plan: Plan, order: Seq[int]) -> tuple[Scheduled, dict[int, str]]:
    """The group's statements under its shared loops; the loops' names by shared index."""
    first = plan.statements[0]
    names = {
        d: _loop_of(scheduled, first, shared.dims[first]) for d, shared in enumerate(plan.shared)
    }
    if len(plan.statements) > 1:
        loops = {
            names[d]: {s: _loop_of(scheduled, s, dim) for s, dim in plan.shared[d].dims.items()}
            for d in order
        }
        return share(scheduled, loops, plan.statements), names
    own = [loop.name for loop in loops_above(scheduled.tree, first)[plan.level :]]
    outer = [names[d] for d in order]
    return reorder(scheduled, [*outer, *(n for n in own if n not in outer)]), names


def _loop_of(scheduled: Scheduled, statement: str, dim: str) -> str:
    """The loop that runs along ``dim`` of ``statement`` in the initial schedule."""
    return next(
        loop.name
        for loop in loops_above(scheduled.tree, statement)
        if loop.at[statement] == Var(dim)
    )


def _tile(scheduled: Scheduled, plan: Plan, order: Seq[int], names: Mapping[int, str]) -> Scheduled:
    """Register tile: tile loops outside, point loops innermost of every statement."""
    tiles, v = plan.choice.tiles, plan.choice.vector
    if not tiles or v is None:
        *outer, inner = [names[d] for d in order]
        scheduled = _move_innermost(scheduled, plan, inner)
        scheduled = _parallel(scheduled, plan, outer)
        return set_kinds(scheduled, {inner: "vector"})
    scheduled = tile(scheduled, {names[d]: size for d, size in tiles.items()})
    outer = [tile_name(names[d]) if d in tiles else names[d] for d in order]
    unrolled = [point_name(names[d]) for d in order if d in tiles and d != v]
    vector = point_name(names[v])
    scheduled = _promote_all(
        scheduled, plan, outer, points=(*unrolled, vector), innermost=tile_name(names[v])
    )
    at = {name: scheduled.loop(name).at for name in (*unrolled, vector)}
    scheduled = sink(scheduled, [*unrolled, vector])
    kinds: dict[str, Kind] = {}
    for statement in plan.statements:
        for loop in loops_above(scheduled.tree, statement):
            value = loop.at[statement]
            if value == at[vector].get(statement):
                kinds[loop.name] = "vector"
            elif any(value == at[u].get(statement) for u in unrolled):
                written_out = _uses_registers(scheduled.scop, statement)
                kinds[loop.name] = "unrolled" if written_out else "serial"
    return _parallel(set_kinds(scheduled, kinds), plan, outer)


def _uses_registers(scop: Scop, statement: str) -> bool:
    s = scop.statement(statement)
    return any(scop.tensor(a.tensor).scope == "register" for a in (*s.writes, *s.reads))


def _move_innermost(scheduled: Scheduled, plan: Plan, name: str) -> Scheduled:
    (statement,) = plan.statements
    own = [loop.name for loop in loops_above(scheduled.tree, statement)[plan.level :]]
    return reorder(scheduled, [*(n for n in own if n != name), name])


def _parallel(scheduled: Scheduled, plan: Plan, loops: Seq[str]) -> Scheduled:
    """Outer loops may run on threads; within a scan they would meet too often to pay."""
    if plan.level:
        return scheduled
    return set_kinds(scheduled, dict.fromkeys(loops, "parallel"))


def _vectorise_inner(scheduled: Scheduled, plan: Plan) -> Scheduled:
    """Each statement's own vector loop goes innermost of its own loops."""
    for statement, dim in plan.choice.inner.items():
        above = loops_above(scheduled.tree, statement)
        own = [loop.name for loop in above if len(loop.at) == 1 and loop.kind == "serial"]
        target = next((x.name for x in above if x.at[statement] == Var(dim)), None)
        if target not in own:
            continue
        scheduled = reorder(scheduled, [*(n for n in own if n != target), target])
        scheduled = set_kinds(scheduled, {target: "vector"})
    return scheduled


def _promote_all(
    scheduled: Scheduled,
    plan: Plan,
    outer: Seq[str],
    points: Seq[str],
    innermost: str | None = None,
) -> Scheduled:
    """Temporaries of the group become registers where only point loops index them, else local.

    ``innermost``: the tile loop of the vector, along which storage is contiguous.
    """
    scan = loops_above(scheduled.tree, plan.statements[0])[: plan.level]
    outer = [*(loop.name for loop in scan), *outer]
    inside = set(plan.statements)
    for tensor in scheduled.scop.tensors:
        users = {s.name: s for s, _, _ in accesses_of(scheduled.scop, tensor.name)}
        if tensor.role != "temp" or not users or not set(users) <= inside:
            continue
        if not can_promote(scheduled, tensor.name, outer):
            continue
        local = promote(scheduled, tensor.name, outer, innermost=innermost)
        scope = _scope(local.scop.tensor(tensor.name), tuple(users.values()), plan, points)
        if scope != "global":
            scheduled = promote(scheduled, tensor.name, outer, scope=scope, innermost=innermost)
    return scheduled


def _scope(tensor: Tensor, users: Seq[Statement], plan: Plan, points: Seq[str]) -> Scope:
    """Registers for a tile that only point loops index, else scratch memory if it is small."""
    sizes = [int(e.value) if isinstance(e, Literal) else None for e in _stored(tensor)]
    known = [size for size in sizes if size is not None]
    elements = prod(known)
    if len(known) < len(sizes) or elements * tensor.dtype.itemsize > LOCAL_BYTES:
        return "global"
    is_tile = len(sizes) <= len(points) and sorted(known) == sorted(plan.choice.tiles.values())
    fits = elements <= REGISTER_TILE * plan.lanes
    return "register" if is_tile and fits and not any(map(_heavy, users)) else "local"


def _stored(tensor: Tensor) -> tuple[Expr, ...]:
    return tensor.shape[tensor.contracted :]
