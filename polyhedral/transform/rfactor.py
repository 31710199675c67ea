"""Rfactor: a reduction along a loop becomes partial results, one per iteration, and their sum.

    for k_t: for k_p: s += f(8·k_t + k_p)
    →
    for k_t: P[k_t] = 0
    for k_t: for k_p: P[k_t] += f(8·k_t + k_p)
    for k_t: s += P[k_t]

The loop may then run in parallel or as a vector, and carries no dependence on one element.
Also known as: Halide and TVM ``rfactor``, split-K; Suriana, Adams, Kamil (2017), "Parallel
associative reductions in Halide".
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.errors import IllegalScheduleError
from weft.ir.quasi_affine import affine
from weft.ir.scalar_expr import Load, Var, literal
from weft.ir.schedule_tree import Band, Leaf, Loop
from weft.ir.scop import Access, Body, Scope, Statement, Update
from weft.polyhedral.analysis.bounds import bounds
from weft.polyhedral.analysis.window import windows
from weft.polyhedral.proof.dependences import folding, reassociable
from weft.polyhedral.transform.edit import Place, insert
from weft.polyhedral.transform.local_tile import (
    Copying,
    LocalTile,
    copying,
    layout_of,
    local_tile,
)
from weft.polyhedral.transform.scheduled import (
    Scheduled,
    fresh,
    loops_above,
    path_to,
    transformation,
)


@transformation
def rfactor(
    scheduled: Scheduled, statement: str, loop: str, *, name: str | None = None
) -> Scheduled:
    """The update ``statement`` folds into partial results, a set of them for each iteration of
    ``loop``, in a new temporary (``name``) that is filled with the identity (``start_name``) and
    folded into the old target (``finish_name``) around the part that holds ``loop``.

    The update's monoid must be associative and commutative, have one component, and be that of
    all updates of its target. Raises
    ``IllegalScheduleError``: WEFT-E0469 otherwise, E0450, E0451, E0470 for wrong names.
    """
    path_to(scheduled.tree, statement)
    scheduled.loop(loop)
    scop = scheduled.scop
    update = scop.statement(statement)
    above = loops_above(scheduled.tree, statement)
    names = [x.name for x in above]
    if loop not in names:
        raise IllegalScheduleError("WEFT-E0470", f"{statement} is not inside loop {loop}")
    _check(scheduled, update)
    _check_loop(update, above[names.index(loop)])
    along, outer = above[names.index(loop)], above[: names.index(loop)]
    tile, use = _partials(scheduled, update, along, outer, name)
    space = _space(scheduled, tile, use)
    start, finish = _around(scheduled, update, tile, space)
    inner = space.dims[len(outer) :]
    place = names[names.index(loop) - 1] if outer else ""
    taken = scheduled.names()
    tree = scheduled.tree
    for s, where in ((start, Place(place, before=(statement,))),
                     (finish, Place(place, after=(statement,)))):  # fmt: skip
        nest = Band(tuple(Loop(fresh(f"{s.name}_{k}", taken), {s.name: Var(d)})
                          for k, d in enumerate(inner)), Leaf(s.name))  # fmt: skip
        tree = insert(tree, where, nest, [{s.name: Var(d)} for d in space.dims[: len(outer)]])
    partial = tile.redirected(use[1], statement)
    assert update.update is not None
    rest = tuple(d for d in update.update.dims if Var(d) not in partial.indices)
    folded = replace(update, writes=(partial,), update=replace(update.update, dims=rest))
    statements = tuple(folded if s.name == statement else s for s in scop.statements)
    scop = replace(
        scop, tensors=(*scop.tensors, tile.tensor), statements=(*statements, start, finish)
    )
    return replace(scheduled, scop=scop, tree=tree)


def _refuse(statement: str, why: str) -> IllegalScheduleError:
    return IllegalScheduleError("WEFT-E0469", f"{statement} cannot be factored", why=why)


def _check(scheduled: Scheduled, update: Statement) -> None:
    if update.update is None:
        raise _refuse(update.name, "it is no update")
    if len(update.writes) != 1:
        raise _refuse(update.name, "it folds several values at once")
    if not reassociable(update):
        raise _refuse(update.name, f"the order of {update.update.monoid.name} is not free")
    if update.writes[0].may or update.writes[0].guard:
        raise _refuse(update.name, "it writes under a condition or at data-dependent indices")
    source = update.origin.statement if update.origin else update.name
    original = scheduled.original  # where its target may have been part of another tensor
    ordered = {s.name for s in original.statements} - folding(original)
    if update.name not in folding(scheduled.scop) or source in ordered:
        raise _refuse(
            update.name,
            f"other updates of {update.writes[0].tensor} combine in another way, and nothing says "
            "which of them come between its contributions",
        )


def _check_loop(update: Statement, along: Loop) -> None:
    own = {i.name for i in update.writes[0].indices if isinstance(i, Var)}
    moving = affine(along.at[update.name]).variables()
    if moving and moving <= own:
        why = f"each iteration of {along.name} folds into elements of its own"
        raise _refuse(update.name, why)


def _partials(
    scheduled: Scheduled,
    update: Statement,
    along: Loop,
    outer: tuple[Loop, ...],
    name: str | None,
) -> tuple[LocalTile, tuple[Statement, Access]]:
    """The tile of partial results: the target's window, with a dim in front for ``along``."""
    scop = scheduled.scop
    (write,) = update.writes
    target = scop.tensor(write.tensor)
    values = bounds(scop, [(update, along.at[update.name])])
    if values is None:
        raise _refuse(update.name, f"loop {along.name} has no bounds in closed form")
    first = along.at[update.name] - values.lower
    wide = replace(target, shape=(values.size, *target.shape))
    use = update, replace(write, indices=(first, *write.indices))
    boxes = windows(scop, [use], outer)
    if boxes is None:
        raise _refuse(update.name, "what it writes has no box of closed form")
    taken = {t.name for t in scop.tensors} | {s.name for s in scop.statements}
    name = fresh(name or f"{target.name}_partial", taken)
    layout = layout_of(boxes, None, None)
    scope: Scope = "local" if outer else "global"
    tile = local_tile(scop, name, wide, [use], outer, boxes, layout, scope)
    if tile is None:
        raise _refuse(update.name, "a loop around it has values without closed bounds")
    return tile, use


def _space(scheduled: Scheduled, tile: LocalTile, use: tuple[Statement, Access]) -> Copying:
    taken = {*scheduled.scop.parameters}
    outer = [fresh(loop.name, taken) for loop in tile.loops]
    count = len(tile.tensor.shape) - tile.tensor.contracted
    own = [fresh(f"{tile.tensor.name}_{k}", taken) for k in range(count)]
    return copying(scheduled.scop, tile, [use], (*outer, *own))


def _around(
    scheduled: Scheduled, update: Statement, tile: LocalTile, space: Copying
) -> tuple[Statement, Statement]:
    assert update.update is not None
    taken = {s.name for s in scheduled.scop.statements}
    dtype = tile.tensor.dtype
    (identity,) = update.update.monoid.identity
    target = Access(space.remote.tensor, space.remote.indices[1:])
    start = Statement(
        fresh(f"start_{tile.tensor.name}", taken),
        space.dims,
        space.domain,
        (),
        writes=(space.local,),
        reads=(),
        body=Body((), (literal(identity, dtype),)),
    )
    finish = replace(
        start,
        name=fresh(f"finish_{tile.tensor.name}", taken),
        writes=(target,),
        reads=(space.local,),
        body=Body((), (Load(0, (), dtype),)),
    )
    return start, replace(finish, update=_along(replace(finish, update=update.update), target))


def _along(statement: Statement, write: Access) -> Update:
    """The statement's update, along the dims that ``write`` does not depend on."""
    assert statement.update is not None
    used = {v for index in write.indices for v in affine(index).variables()}
    return replace(statement.update, dims=tuple(d for d in statement.dims if d not in used))
