"""Cache read: what one iteration of a loop reads of a tensor is copied into a local buffer first.

    for i_t: for k_t:
      for i_p: for k_p: … A[8·i_t + i_p, 4·k_t + k_p] …
    →
    for i_t: for k_t:
      for a < 8: for b < 4: L[a, b] = A[8·i_t + a, 4·k_t + b]
      for i_p: for k_p: … L[i_p, k_p] …

The buffer holds a box: the tile, and the halo where the reads reach beyond it. The copy has the
loops' values as dims of its own (``a`` and ``b`` above are the others); the buffer has logical
dimensions for them too, without storage. In another layout, the same is packing: with panels of 4
along dim 0, ``L[a // 4, b, a % 4]``.
Also known as: TVM ``cache_read`` + ``compute_at`` (+ layout), Exo ``stage_mem``, Halide ``in()`` +
``compute_at``; packing in GotoBLAS and BLIS.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace

from weft.errors import IllegalScheduleError
from weft.frontend.scalar_expr import Expr, Load, Var, literal, select
from weft.polyhedral.analysis.window import windows
from weft.polyhedral.schedule_tree import Band, Leaf, Loop
from weft.polyhedral.scop import Access, Body, Scope, Statement
from weft.polyhedral.transform.insert import Place, insert
from weft.polyhedral.transform.local_tile import (
    Copying,
    LocalTile,
    copying,
    layout_of,
    local_tile,
)
from weft.polyhedral.transform.scheduled import Scheduled, fresh, loops_above, transformation

_Read = tuple[str, int]  # statement, operand


@transformation
def cache_read(
    scheduled: Scheduled,
    tensor: str,
    statements: str | Seq[str],
    loop: str,
    *,
    operand: int | None = None,
    order: Seq[int] | None = None,
    panels: Mapping[int, int] | None = None,
    pad: bool = False,
    before: str | None = None,
    after: str | None = None,
    name: str | None = None,
    scope: Scope = "local",
) -> Scheduled:
    """Reads of ``tensor`` by ``statements`` go to a copy, made anew in each iteration of ``loop``.

    ``operand`` chooses one read where a statement has several; otherwise all reads of the tensor
    share the buffer. It is stored with its dims in ``order`` (default: the tensor's), those in
    ``panels`` (dim → width) in panels, lanes innermost; ``pad`` fills what lies in the buffer but
    is not read with 0. The copy runs directly inside ``loop``, just before the first part that
    reads, or where ``before`` or ``after`` a statement inside says. The buffer is called ``name``,
    the statement ``copy_name``, its loops ``name_0``, ``name_1``, ….

    Whether the copy is up to date where it is read, validation decides. Raises
    ``IllegalScheduleError``: WEFT-E0465 where there is nothing to copy, the reads are
    data-dependent or in no box of closed form, or the layout is none; E0450, E0451, E0470 for wrong
    names.
    """
    chosen = (statements,) if isinstance(statements, str) else tuple(statements)
    reads = _reads(scheduled, tensor, chosen, operand)
    uses = [(scheduled.scop.statement(s), scheduled.scop.statement(s).reads[k]) for s, k in reads]
    scheduled.loop(loop)
    loops = _around(scheduled, loop, chosen)
    tile = _tile(scheduled, tensor, uses, loops, (order, panels), (name, scope))
    taken = {*scheduled.scop.parameters, *scheduled.names()}
    own = [fresh(f"{tile.tensor.name}_{d}", taken) for d in range(_stored(tile))]
    dims = (*_outer_names(loops, {*scheduled.scop.parameters, *own}), *own)
    space = copying(scheduled.scop, tile, uses, dims, pad=pad)
    copy = _copy(scheduled, tile, space)
    place = _place(loop, before, after, chosen)
    nest = Band(tuple(Loop(d, {copy.name: Var(d)}) for d in own), Leaf(copy.name))
    outer = [{copy.name: Var(d)} for d in dims[: len(loops)]]
    tree = insert(scheduled.tree, place, nest, outer)
    wanted = set(reads)
    changed = tuple(_redirect(s, wanted, tile) for s in scheduled.scop.statements)
    scop = replace(
        scheduled.scop,
        tensors=(*scheduled.scop.tensors, tile.tensor),
        statements=(*changed, copy),
    )
    return replace(scheduled, scop=scop, tree=tree)


def _refuse(tensor: str, why: str, hint: str = "") -> IllegalScheduleError:
    return IllegalScheduleError("WEFT-E0465", f"{tensor} cannot be copied", why=why, hint=hint)


def _reads(
    scheduled: Scheduled, tensor: str, statements: Seq[str], operand: int | None
) -> list[_Read]:
    """The reads to redirect, (statement, operand)."""
    found: list[_Read] = []
    for name in statements:
        loops_above(scheduled.tree, name)  # says so where there is no such statement
        statement = scheduled.scop.statement(name)
        mine = [k for k, a in enumerate(statement.reads) if a.tensor == tensor]
        mine = [k for k in mine if operand is None or k == operand]
        if not mine:
            which = "" if operand is None else f" as operand {operand}"
            raise _refuse(tensor, f"{name} does not read it{which}")
        if any(statement.reads[k].may for k in mine):
            raise _refuse(tensor, f"{name} reads it at data-dependent indices")
        found += [(name, k) for k in mine]
    if not found:
        raise _refuse(tensor, "no statement is named that reads it")
    return found


def _around(scheduled: Scheduled, loop: str, statements: Seq[str]) -> tuple[Loop, ...]:
    """``loop`` and the loops around it, outermost first."""
    for name in statements:
        above = loops_above(scheduled.tree, name)
        names = [x.name for x in above]
        if loop not in names:
            raise IllegalScheduleError("WEFT-E0470", f"{name} is not inside loop {loop}")
    return above[: names.index(loop) + 1]


def _tile(
    scheduled: Scheduled,
    tensor: str,
    uses: Seq[tuple[Statement, Access]],
    loops: tuple[Loop, ...],
    layout: tuple[Seq[int] | None, Mapping[int, int] | None],
    named: tuple[str | None, Scope],
) -> LocalTile:
    scop = scheduled.scop
    source = scop.tensor(tensor)
    order, panels = layout
    rank = len(source.shape)
    if order is not None and sorted(order) != list(range(rank)):
        raise _refuse(tensor, f"the order {list(order)} does not name each of its {rank} dims once")
    if any(d not in range(rank) or width < 1 for d, width in (panels or {}).items()):
        raise _refuse(tensor, f"it has {rank} dims to be cut into panels of 1 or more")
    boxes = windows(scop, uses, loops)
    if boxes is None:
        hint = "choose one of several reads by its operand number"
        raise _refuse(tensor, "its reads touch no box of closed form in an iteration", hint)
    taken = {t.name for t in scop.tensors} | {s.name for s in scop.statements}
    name = fresh(named[0] or f"{tensor}_tile", taken)
    layout_ = layout_of(boxes, order, panels)
    tile = local_tile(scop, name, source, uses, loops, boxes, layout_, named[1])
    if tile is None:
        raise _refuse(tensor, "a loop around it has values without bounds in closed form")
    return tile


def _stored(tile: LocalTile) -> int:
    return len(tile.tensor.shape) - tile.tensor.contracted


def _outer_names(loops: Seq[Loop], taken: set[str]) -> list[str]:
    return [fresh(loop.name, taken) for loop in loops]


def _copy(scheduled: Scheduled, tile: LocalTile, space: Copying) -> Statement:
    value: Expr = Load(0, (), tile.source.dtype)
    for c in space.real:
        holds = c.expr.equal(0) if c.equality else c.expr >= 0
        value = select(holds, value, literal(0, value.dtype))
    taken = {s.name for s in scheduled.scop.statements}
    return Statement(
        fresh(f"copy_{tile.tensor.name}", taken),
        space.dims,
        space.domain,
        (),
        writes=(space.local,),
        reads=(replace(space.remote, guard=space.real),),
        body=Body((), (value,)),
    )


def _place(loop: str, before: str | None, after: str | None, readers: Seq[str]) -> Place:
    if before is not None:
        return Place(loop, before=(before,))
    if after is not None:
        return Place(loop, after=(after,))
    return Place(loop, before=tuple(readers))


def _redirect(statement: Statement, wanted: set[_Read], tile: LocalTile) -> Statement:
    reads = tuple(
        tile.redirected(access, statement.name) if (statement.name, k) in wanted else access
        for k, access in enumerate(statement.reads)
    )
    return statement if reads == statement.reads else replace(statement, reads=reads)
