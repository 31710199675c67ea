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

from collections.abc import Sequence
from functools import partial

from weft.ir.scalar_expr import Expr, Var, variable_names
from weft.ir.schedule_tree import Band, Kind, Leaf, Loop, Tree, marked_tiles
from weft.ir.scop import Access, Statement
from weft.polyhedral.analysis.linear import linear, mentions
from weft.polyhedral.analysis.work import operations
from weft.polyhedral.policy.lanes import strided
from weft.polyhedral.policy.planner import At, Group, Planner, Strategy
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
