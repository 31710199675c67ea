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

from collections.abc import Mapping, Sequence
from collections.abc import Sequence as Seq
from dataclasses import replace

from weft.ir.errors import IllegalScheduleError
from weft.ir.scalar_expr import Load, Var
from weft.ir.scop import Access, Body, Scop, Scope, Statement
from weft.polyhedral.analysis.linear import between, box, moves
from weft.polyhedral.transform.edit import Place, first_of, insert_nest, nest_position, with_nest
from weft.polyhedral.transform.local_copy import (
    Request,
    loops_through,
    refusal,
    tile_for,
    with_copy,
    with_tile,
)
from weft.polyhedral.transform.local_tile import LocalTile
from weft.polyhedral.transform.scheduled import Scheduled, fresh, path_to, transformation

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
    """Reads of ``tensor`` by ``statements`` go to a copy, made anew in each iteration of ``loop``,
    or ('') once, outside of all loops.

    ``operand`` chooses one read where a statement has several; otherwise all reads of the tensor
    share the buffer. It is stored with its dims in ``order`` (default: the tensor's), those in
    ``panels`` (dim → width) in panels, lanes innermost; ``pad`` fills what lies in the buffer but
    is not read with 0. The copy runs directly inside ``loop``, just before the first part that
    reads, or where ``before`` or ``after`` a statement inside says. The buffer, in ``scope``
    "local" or "register", is called ``name``, the statement ``copy_name``, its loops ``name_0``,
    ``name_1``, …, the last a vector loop.

    Whether the copy is up to date where it is read, validation decides. Raises
    ``IllegalScheduleError``: WEFT-E0465 where there is nothing to copy, the reads are
    data-dependent or in no box of closed form, or the layout is none; E0450, E0451, E0470 for wrong
    names.
    """
    chosen = (statements,) if isinstance(statements, str) else tuple(statements)
    request = Request("WEFT-E0465", order, panels, name, scope)
    if not chosen:
        raise refusal(request, tensor, "no statement is named that reads it")
    scheduled.tensor(tensor)
    loops = loops_through(scheduled, loop, chosen)
    reads = _reads(scheduled, tensor, chosen, operand, request)
    of = scheduled.scop.statement
    uses = [(of(s), of(s).reads[k]) for s, k in reads]
    tile = tile_for(scheduled, tensor, uses, loops, request)
    place = _place(loop, before, after, chosen)
    now = with_copy(with_tile(scheduled, tile), tile, uses, place, pad=pad)
    statements_ = tuple(_redirect(s, set(reads), tile) for s in now.scop.statements)
    return replace(now, scop=replace(now.scop, statements=statements_))


def _reads(
    scheduled: Scheduled,
    tensor: str,
    statements: Seq[str],
    operand: int | None,
    request: Request,
) -> list[_Read]:
    """The reads to redirect, (statement, operand)."""
    found: list[_Read] = []
    for name in statements:
        reads = scheduled.scop.statement(name).reads
        mine = [k for k, a in enumerate(reads) if a.tensor == tensor and operand in (None, k)]
        if not mine:
            which = "" if operand is None else f" as operand {operand}"
            raise refusal(request, tensor, f"{name} does not read it{which}")
        if any(reads[k].may for k in mine):
            raise refusal(request, tensor, f"{name} reads it at data-dependent indices")
        found += [(name, k) for k in mine]
    return found


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


# ---- Copy read: one read of a statement comes from a copy, made before everything else.
#
#     for i: for j: for k:                      for k: for i: T[k, i] = A[i, 2*k]
#       C[i, j] += A[i, 2*k] * B[k, j]    →     for i: for j: for k:
#                                                 C[i, j] += T[k, i] * B[k, j]
#
# The copy has one element for each point of the dims that the read moves along, in their given
# order. ``cache_read`` and ``pack`` copy inside of loops. Also known as: packing of a whole
# operand.


@transformation
def copy_operand(
    scheduled: Scheduled, statement: str, operand: int, dims: Seq[str], suffix: str = "copy"
) -> Scheduled:
    """Read ``operand`` of ``statement`` from a copy, made before everything else, which has one
    element for each point of ``dims``, in their order.

    ``dims``: all those that the read moves along. ``suffix`` ends the copy's name. Raises
    ``IllegalScheduleError``: WEFT-E0451 where there is no such statement, E0465 where the read is
    none, depends on data or a condition, is of what the program writes, or ``dims`` are not its
    dims, each between bounds that no other one changes.
    """
    path_to(scheduled.tree, statement)
    s, scop = scheduled.scop.statement(statement), scheduled.scop
    if operand not in range(len(s.reads)):
        raise _no_copy(f"read {operand} of {statement}", f"it has {len(s.reads)} reads")
    read, what = s.reads[operand], f"read {operand} of {statement}"
    moving = {d for d in s.dims if moves(read, d)}
    if {*dims} != moving or len(dims) != len(moving) or not moving <= {*box(s)}:
        raise _no_copy(what, f"it moves along {', '.join(sorted(moving)) or 'no dims'} in a box")
    written = any(w.tensor == read.tensor for x in scop.statements for w in x.writes)
    if read.may or read.guard or written:
        raise _no_copy(what, "it depends on data or a condition, or is written")
    scop, name = copy_read(scop, statement, operand, dims, suffix)
    return with_nest(scheduled, scop, name, first_of(scheduled))


def _no_copy(what: str, why: str) -> IllegalScheduleError:
    return IllegalScheduleError("WEFT-E0465", f"{what} cannot be copied", why=why)


def copy_read(
    scop: Scop, statement: str, number: int, dims: Sequence[str], hint: str
) -> tuple[Scop, str]:
    """``scop`` with read ``number`` of ``statement`` from a copy, and the statement that copies.

    ``dims``: all those that the read moves along, each between bounds that no other dim changes.
    Nothing writes what is read, under no condition; ``hint`` ends the new tensor's name.
    """
    s = scop.statement(statement)
    read, bounds = s.reads[number], box(s)
    old = scop.tensor(read.tensor)
    own = fresh(f"{read.tensor}_{hint}", {t.name for t in scop.tensors})
    place = Access(own, tuple(Var(d) - bounds[d][0] for d in dims))
    copy = Statement(
        fresh(f"{read.tensor}_copy", {x.name for x in scop.statements}),
        tuple(dims),
        between(bounds, dims),
        nest_position(tuple(dims)),
        writes=(place,),
        reads=(Access(read.tensor, read.indices),),
        body=Body((), (Load(0, (), old.dtype),)),
    )
    reads = (*s.reads[:number], place, *s.reads[number + 1 :])
    scop = scop.with_statement(replace(s, reads=reads))
    shape = tuple(bounds[d][1] - bounds[d][0] for d in dims)
    temp = replace(old, name=own, role="temp", shape=shape)
    changed = replace(scop, tensors=(*scop.tensors, temp))
    return insert_nest(changed, copy, None), copy.name
