"""Prologue and epilogue of a register tile, with vectors along its lanes.

    for l: for r vector: S[l, r] = 0                   for r: for l vector: S[r, l] = 0
    tile[r, l]: sums over k                       →    tile[r, l]: sums over k
    for l: for r vector: Y[l, r] = f(S[l, r])          for r: for l vector: Y[l, r] = f(S[r, l])

Where results are contiguous along the rows, vectors along rows are short, and the sums are
transposed on their way from and to memory. With vectors along the lanes, vectors are full and the
sums stay in registers (``storage_order`` lays them out so); what is read and stored across the
lanes is transposed in registers (``codegen/transpose_strips``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from weft.ir.scalar_expr import Expr, Var, literal, variable_names
from weft.ir.schedule_tree import Band, Kind, Leaf, Loop, Tree, marked_tiles
from weft.ir.scop import Access, Statement
from weft.polyhedral.analysis.hyperplanes import Hyperplane
from weft.polyhedral.analysis.linear import hull, linear, mentions
from weft.polyhedral.analysis.work import operations
from weft.polyhedral.policy.lanes import folds, strided
from weft.polyhedral.policy.planner import At, Group, Planner, Strategy
from weft.polyhedral.policy.product import Product, shape, sums_of
from weft.polyhedral.transform.edit import accesses_of
from weft.polyhedral.transform.scheduled import Scheduled, loops_above

WRITTEN_OUT = 200  # vector operations of all unrolled elements of a tile, at most


def transposed_epilogue(
    planner: Planner,
    group: Group,
    sums: str,
    points: Sequence[At],
    elements: int,
    near: Sequence[At] = (),
) -> dict[str, Strategy]:
    """Strategies for the statements of ``group`` beside ``sums``, inside the loops over tiles; none
    if vectors along rows are better. ``points``: rows and lanes of a tile, by statement; it has so
    many ``elements``. ``near``: loops over register tiles that the sums have for themselves, as
    their reduction is blocked; then it pays if results are contiguous along the rows."""
    target = planner.scop.statement(sums).writes[0].tensor
    others = [s for s in planner.statements(group) if s.name != sums]
    vectors = elements / planner.machine.lanes(planner.scop.tensor(target).dtype)
    written = vectors * sum(map(operations, others)) <= WRITTEN_OUT
    if len(points) < 2 or not written:
        return {}
    dims = {s.name: _dims([at[s.name] for at in (*near, *points)]) for s in others}
    if any(dims[s.name] != set(planner.free(group, s.name)) for s in others):
        return {}
    if not all(_fits(s, target, points) for s in others):
        return {}
    if near and not any(_across(s, w, points) for s in others for w in s.writes):
        return {}
    order = partial(_in_order, len(near))
    return {s.name: partial(order, [at[s.name] for at in (*near, *points)]) for s in others}


def _in_order(near: int, values: Sequence[Expr], planner: Planner, group: Group) -> Tree | None:
    """Loops along ``values``, the first ``near`` of them over tiles and the others within one."""
    (name,) = group.names
    if not _dims(values) <= set(planner.free(group, name)):
        return None  # it shares some of these loops with others
    kinds: list[Kind] = ["serial" if n < near else "unrolled" for n in range(len(values))]
    kinds[-1] = "vector"
    loops = [
        planner.loop(hint, {name: value}, kind)
        for value, kind in zip(values, kinds, strict=True)
        for hint in _dims([value])
    ]
    return Band(tuple(loops), Leaf(name))


def _fits(s: Statement, target: str, points: Sequence[At]) -> bool:
    """Whether all that ``s`` accesses besides the sums is contiguous along the lanes, or
    the rows."""
    (lane,) = _dims([points[-1][s.name]])
    others = (a for a in s.accesses if a.tensor != target)
    return s.update is None and all(
        not (a.guard or a.may) and (not strided(a, lane) or _across(s, a, points)) for a in others
    )


def _across(s: Statement, access: Access, points: Sequence[At]) -> bool:
    """Whether ``access`` is contiguous along the rows of the tile, with the lanes rows of memory
    apart."""
    (row,), (lane,) = (_dims([at[s.name]]) for at in points[-2:])
    *outer, last = access.indices or (Var(""),)
    form = linear(last, (row, lane))
    return (
        form is not None
        and form.coefficients == {row: 1}
        and any(mentions(i, (lane,)) for i in outer)
        and not any(mentions(i, (row,)) for i in outer)
    )


def _dims(values: Sequence[Expr]) -> set[str]:
    return {name for value in values for name in variable_names(value)}


# ---- Storage order: temporaries are contiguous along the vectors of all their statements.
#
#     S: float32[64, 6], for r: for l vector: … S[l, r] …   →   S: float32[6, 64], … S[r, l] …
#
# For temporaries local to some loops, whose order only their own statements see.


def storage_order(scheduled: Scheduled, tensor: str) -> tuple[int, ...] | None:
    """The dims of ``tensor`` with the one last along which the vectors of all its statements run;
    None if there is none, or they differ."""
    tiles = marked_tiles(scheduled.tree)
    found: set[int | None] = set()
    for statement, access, _ in accesses_of(scheduled.scop, tensor):
        innermost = loops_above(scheduled.tree, statement.name)[-1:]
        if not innermost or (innermost[0].kind != "vector" and statement.name not in tiles):
            return None
        found.add(_along(access, innermost[0], statement.name))
    last = found.pop() if len(found) == 1 else None
    if last is None:
        return None
    every = range(len(scheduled.tensor(tensor).shape))
    return (*(d for d in every if d != last), last)


def _along(access: Access, loop: Loop, statement: str) -> int | None:
    """The only dim of ``access`` that moves with ``loop``, or None."""
    moving = variable_names(loop.at[statement])
    found = [d for d, index in enumerate(access.indices) if mentions(index, moving)]
    return found[0] if len(found) == 1 else None


# ---- Epilogue fusion: the loops that a reduction shares with its prologue and epilogue.


def fusable_epilogue(planner: Planner, group: Group) -> dict[str, Hyperplane] | None:
    """The loops around the sums of ``group`` that all other statements can share, by the dims of
    the first sum; None unless each of these computes on the elements that are summed. Several sums
    share tiles in a serial loop, where a statement reads all of them."""
    sums = sums_of(planner, group)
    if not sums or any(n in planner.planned for n in group.names):
        return None
    if any((p.statement,) not in group.components() for p in sums):
        return None
    if len(sums) > 1 and not _side_by_side(planner, group, sums):
        return None
    own = {p.statement: p.moving for p in sums}
    targets = _targets(planner, sums)
    for s in planner.statements(group):
        touches = any(a.tensor in targets for a in s.accesses)
        free = planner.free(group, s.name)
        if not touches or (s.name not in own and len(free) > len(sums[0].moving)):
            return None
    found = _planes(planner, group, own)
    others = [n for n in group.names if n not in own]
    if not found or any(_scatters(planner, sums, n, found) for n in others):
        return None
    return found


def _planes(
    planner: Planner, group: Group, sums: Mapping[str, Sequence[str]]
) -> dict[str, Hyperplane]:
    """The loops along the dims of ``sums`` that no dependence crosses, by those of the first; none
    if not all statements of ``group`` have all of them."""
    search = group.search()
    others = [n for n in group.names if n not in sums]
    own = {
        n: [Var(d) for d in planner.free(group, n) if not folds(planner.scop.statement(n), d)]
        for n in others
    }
    found: dict[str, Hyperplane] = {}
    for dims in zip(*sums.values(), strict=True):
        summed: At = {name: Var(dim) for name, dim in zip(sums, dims, strict=True)}
        at: At = {**summed}
        for name in others:
            some = group.part((*sums, name))
            same = (e for e in own[name] if some.independent({**summed, name: e}))
            value = next(same, None)
            if value is None:
                return {}
            own[name].remove(value)
            at[name] = value
        plane = search.valid(at)
        if plane is None or not plane.coincident:
            return {}
        found[dims[0]] = plane
    return found


def _side_by_side(planner: Planner, group: Group, sums: Sequence[Product]) -> bool:
    """Whether the products ``sums`` have tiles of one shape inside a serial loop, each over parts
    of one size, and a statement reads the results of all."""
    if not group.above or group.in_tile or any(p.window for p in sums):
        return False
    targets = _targets(planner, sums)
    reads = [{r.tensor for r in s.reads} for s in planner.statements(group) if s.update is None]
    if not any(targets <= tensors for tensors in reads):
        return False
    kinds: list[object] = []
    for p in sums:
        s = planner.scop.statement(p.statement)
        bounds = [hull(s).get(d) for d in (*p.moving, *p.stream)]
        roles = [planner.scop.tensor(r.tensor).role for r in s.reads]
        tile = shape(planner, p), p.instruction, p.needs_packing
        kinds.append((bounds, len(p.rows), len(p.outer), roles, tile))
    return all(kind == kinds[0] for kind in kinds)


def _targets(planner: Planner, sums: Sequence[Product]) -> set[str]:
    return {planner.scop.statement(p.statement).writes[0].tensor for p in sums}


def _scatters(
    planner: Planner, sums: Sequence[Product], name: str, planes: Mapping[str, Hyperplane]
) -> bool:
    """Whether statement ``name`` writes, other than to the ``sums``, along neither rows nor lanes
    of a tile."""
    targets, p = _targets(planner, sums), sums[0]
    inside = [planes[d].at[name] for d in (*p.rows, p.lanes)]
    dims = [value.name for value in inside if isinstance(value, Var)]
    statement = planner.scop.statement(name)
    writes = [w for w in statement.writes if w.tensor not in targets and w.indices]
    return any(w.indices[-1] != literal(0) and not mentions(w.indices[-1], dims) for w in writes)
