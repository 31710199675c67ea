"""Compute at: what one iteration of a loop needs of a temporary is computed in that iteration.

    for x: T[x] = f(X[x])                   for y_t:
    for y_t: for y_p:                  →      for x in 4·y_t … 4·y_t + 5: L[x - 4·y_t] = f(X[x])
      Y[y] = T[y] + T[y + 2]                  for y_p: Y[4·y_t + y_p] = L[y_p] + L[y_p + 2]

What several iterations need is computed in each of them (the halo above); of memory that every
iteration of a common loop uses anew, an iteration needs what it makes itself. The statements get
the values of the loops outside as dims, their original instances stay in their origins; the
temporary keeps a window for one iteration.
Also known as: Halide ``compute_at``, TVM ``compute_at``, overlapped tiling; without halo, fusion.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import replace

from weft.ir.errors import IllegalScheduleError
from weft.ir.quasi_affine import affine
from weft.ir.scalar_expr import Expr, Var
from weft.ir.schedule_tree import Band, Leaf, Loop, Sequence, Tree, statements_below
from weft.ir.scop import Access, Constraint, Scop, Statement
from weft.polyhedral.transform.edit import Place, accesses_of, insert, origin_of, remove
from weft.polyhedral.transform.local_copy import Request, loops_through, tile_for
from weft.polyhedral.transform.local_tile import LocalTile, Use, needed
from weft.polyhedral.transform.scheduled import (
    Scheduled,
    fresh,
    loops_above,
    path_to,
    transformation,
)


@transformation
def compute_at(scheduled: Scheduled, statement: str, loop: str) -> Scheduled:
    """The temporary that ``statement`` writes is computed inside ``loop``, before the first part
    that reads it, by all statements that write it, each in loops of its own.

    All its readers must be inside ``loop``, and read a box of closed form in an iteration. Whether
    what is computed there is the same, validation decides. Raises ``IllegalScheduleError``:
    WEFT-E0467 otherwise, E0450, E0451, E0470 for wrong names.
    """
    path_to(scheduled.tree, statement)
    scop = scheduled.scop
    tensor = scop.statement(statement).writes[0].tensor
    order = statements_below(scheduled.tree)
    uses = accesses_of(scop, tensor)
    makers = sorted({s.name for s, _, is_write in uses if is_write}, key=order.index)
    reads = [(s, a) for s, a, is_write in uses if not is_write and s.name not in makers]
    _check(scop, tensor, [scop.statement(m) for m in makers], reads)
    readers = tuple(dict.fromkeys(s.name for s, _ in reads))
    loops = loops_through(scheduled, loop, readers)
    tile = tile_for(scheduled, tensor, reads, loops, Request("WEFT-E0467", name=tensor))
    tile = replace(tile, tensor=replace(tile.tensor, name=tensor))
    taken = {*scop.parameters, *(d for m in makers for d in scop.statement(m).dims)}
    outer = tuple(fresh(x.name, taken) for x in loops)
    clones = {
        m: _clone(scop, scop.statement(m), tile, reads, outer, _reused(scheduled, m, loops))
        for m in makers
    }
    names = scheduled.names()
    nest = Sequence(tuple(_nest(scheduled, m, names) for m in makers))
    rest = remove(scheduled.tree, makers)
    tree = insert(
        rest, Place(loop, before=readers), nest, [dict.fromkeys(makers, Var(d)) for d in outer]
    )
    cloned = replace(scop, statements=tuple(clones.get(s.name, s) for s in scop.statements))

    def redirected(s: Statement, access: Access) -> Access:
        return access if s.name in clones else tile.redirected(access, s.name)

    scop = cloned.with_tensor(tile.tensor, redirected)
    return replace(scheduled, scop=scop, tree=tree)


def _check(scop: Scop, tensor: str, makers: Seq[Statement], reads: Seq[Use]) -> None:
    why = ""
    if scop.tensor(tensor).role != "temp":
        why = "it outlives the program"
    elif scop.tensor(tensor).contracted:
        why = "it is local already"
    elif not reads:
        why = "nobody reads it"
    elif any(len(m.writes) > 1 for m in makers):
        why = "it is written together with another tensor"
    elif any(a.may for m in makers for a in (*m.writes, *m.reads) if a.tensor == tensor) or any(
        a.may for _, a in reads
    ):
        why = "it is accessed at data-dependent indices"
    if why:
        what = f"{tensor} cannot be computed where it is read"
        raise IllegalScheduleError("WEFT-E0467", what, why=why)


def _reused(scheduled: Scheduled, maker: str, loops: Seq[Loop]) -> dict[int, Expr]:
    """The values, by number, of those of ``loops`` that are around ``maker`` too, where it writes
    the same elements in each iteration: a reader wants what its own iteration makes."""
    statement = scheduled.scop.statement(maker)
    written = {v for i in statement.writes[0].indices for v in affine(i).variables()}
    above = {x.name: x.at[maker] for x in loops_above(scheduled.tree, maker)}
    common = {k: above[x.name] for k, x in enumerate(loops) if x.name in above}
    return {k: value for k, value in common.items() if not affine(value).variables() & written}


def _clone(
    scop: Scop,
    maker: Statement,
    tile: LocalTile,
    reads: Seq[Use],
    outer: tuple[str, ...],
    reused: dict[int, Expr],
) -> Statement:
    """``maker`` with the values of the loops as dims ``outer``: what is needed there."""
    values = tuple(Var(d) for d in outer)
    (write,) = maker.writes
    wanted = needed(scop, tile, reads, outer, write.indices)
    same = tuple(Constraint(value - values[k], True) for k, value in reused.items())
    return replace(
        maker.map_accesses(lambda access: tile.relative(access, values), tile.source.name),
        dims=(*outer, *maker.dims),
        domain=(*maker.domain, *wanted, *same),
        position=(),
        origin=origin_of(maker),
    )


def _nest(scheduled: Scheduled, maker: str, taken: set[str]) -> Tree:
    """The loops of ``maker``, its own from now on."""
    above = loops_above(scheduled.tree, maker)
    return Band(
        tuple(Loop(fresh(f"{x.name}_{maker}", taken), {maker: x.at[maker]}, x.kind) for x in above),
        Leaf(maker),
    )
