"""Local copies: a tile gets its place in a schedule, and statements that fill or empty it."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace

from weft.ir.errors import IllegalScheduleError
from weft.ir.scalar_expr import Expr, Load, Var, literal, select
from weft.ir.schedule_tree import Band, Leaf, Loop
from weft.ir.scop import Body, Scope, Statement
from weft.polyhedral.analysis.window import windows
from weft.polyhedral.transform.edit import Place, insert
from weft.polyhedral.transform.local_tile import (
    Copying,
    LocalTile,
    Use,
    copying,
    layout_of,
    local_tile,
)
from weft.polyhedral.transform.scheduled import Scheduled, fresh, loops_above


@dataclass(frozen=True, slots=True)
class Request:
    """What a user asked for: the buffer's layout, its name and where it is."""

    code: str  # of refusals
    order: Seq[int] | None = None
    panels: Mapping[int, int] | None = None
    name: str | None = None
    scope: Scope = "local"


def refusal(request: Request, tensor: str, why: str, hint: str = "") -> IllegalScheduleError:
    what = f"{tensor} cannot be kept in a local buffer"
    return IllegalScheduleError(request.code, what, why=why, hint=hint)


def loops_through(scheduled: Scheduled, loop: str, statements: Seq[str]) -> tuple[Loop, ...]:
    """``loop`` and the loops around it, outermost first; '': none.

    Raises ``IllegalScheduleError`` (WEFT-E0450, E0451, E0470) where there is no such loop or
    statement, or one of the ``statements`` is outside the loop.
    """
    if loop:
        scheduled.loop(loop)
    names: list[str] = []
    above: tuple[Loop, ...] = ()
    for name in statements:
        above = loops_above(scheduled.tree, name)
        names = [x.name for x in above]
        if loop and loop not in names:
            raise IllegalScheduleError(
                "WEFT-E0470",
                f"{name} is not inside loop {loop}",
                hint=f"statements inside: {', '.join(scheduled.below(loop))}",
            )
    return above[: names.index(loop) + 1] if loop else ()


def tile_for(
    scheduled: Scheduled, tensor: str, uses: Seq[Use], loops: tuple[Loop, ...], request: Request
) -> LocalTile:
    """The buffer for ``uses`` of ``tensor`` in one iteration of ``loops``.

    Raises ``IllegalScheduleError`` (the request's code) where they touch no box of closed form or
    the layout does not fit.
    """
    scop = scheduled.scop
    source = scop.tensor(tensor)
    order, panels, rank = request.order, request.panels or {}, len(source.shape)
    if order is not None and sorted(order) != list(range(rank)):
        why = f"the order {list(order)} does not name each of its {rank} dims once"
        raise refusal(request, tensor, why)
    if any(d not in range(rank) or width < 1 for d, width in panels.items()):
        raise refusal(request, tensor, f"it has {rank} dims to be cut into panels of 1 or more")
    if request.name is not None and not request.name.isidentifier():
        raise refusal(request, tensor, f"{request.name!r} cannot name it", "a Python identifier")
    boxes = windows(scop, uses, loops)
    if boxes is None:
        hint = "choose one of several reads by its operand number"
        why = "its accesses touch no box of closed form in an iteration"
        raise refusal(request, tensor, why, hint)
    taken = {t.name for t in scop.tensors} | {s.name for s in scop.statements}
    name = fresh(request.name or f"{tensor}_tile", taken)
    layout = layout_of(boxes, order, panels)
    tile = local_tile(scop, name, source, uses, loops, boxes, layout, request.scope)
    if tile is None:
        raise refusal(request, tensor, "a loop around it has values without closed bounds")
    return tile


def with_tile(scheduled: Scheduled, tile: LocalTile) -> Scheduled:
    """``scheduled`` with the tensor of ``tile``, which nothing uses yet."""
    tensors = (*scheduled.scop.tensors, tile.tensor)
    return replace(scheduled, scop=replace(scheduled.scop, tensors=tensors))


def with_copy(
    scheduled: Scheduled,
    tile: LocalTile,
    uses: Seq[Use],
    place: Place,
    *,
    store: bool = False,
    pad: bool = False,
) -> Scheduled:
    """``scheduled`` with a statement at ``place`` that copies what ``uses`` touch of the source
    into ``tile``, or, to ``store``, back: ``copy_…``, ``store_…``, its loops ``…_0``, ``…_1``.

    The last one, along which the tile's elements are neighbours, is a vector loop: no element is
    copied twice.
    """
    scop = scheduled.scop
    stem = f"{tile.tensor.name}_out" if store else tile.tensor.name
    names = {s.name for s in scop.statements}
    name = fresh(f"{'store' if store else 'copy'}_{tile.tensor.name}", names)
    taken = {*scop.parameters, *scheduled.names()}
    count = len(tile.tensor.shape) - tile.tensor.contracted
    own = [fresh(f"{stem}_{d}", taken) for d in range(count)]
    taken = {*scop.parameters, *own}
    outer = [fresh(loop.name, taken) for loop in tile.loops]
    copy = _copy(name, tile, copying(scop, tile, uses, (*outer, *own), pad=pad), store)
    loops = [Loop(d, {name: Var(d)}, "vector" if d == own[-1] else "serial") for d in own]
    nest = Band(tuple(loops), Leaf(name))
    tree = insert(scheduled.tree, place, nest, [{name: Var(d)} for d in outer])
    return replace(scheduled, scop=replace(scop, statements=(*scop.statements, copy)), tree=tree)


def _copy(name: str, tile: LocalTile, space: Copying, store: bool) -> Statement:
    value: Expr = Load(0, (), tile.source.dtype)
    for c in space.real:
        value = select(c.condition, value, literal(0, value.dtype))
    source, target = (space.local, space.remote) if store else (space.remote, space.local)
    read = replace(source, guard=space.real)
    return Statement(name, space.dims, space.domain, (), (target,), (read,), Body((), (value,)))
