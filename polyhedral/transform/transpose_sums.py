"""Transpose sums: what an update sums is kept in another order of dims, and copied at the end.

    for i: for h: O[i, h] = 0                          for i: for h: T[h, i] = 0
    for i: for h: for j:                         →     for i: for h: for j:
      O[i, h] += A[h, i, j] * V[j, h]                    T[h, i] += A[h, i, j] * V[j, h]
                                                       for i: for h: O[i, h] = T[h, i]

                                                                transpose_sums("S1", [1, 0])

Also known as: layout of an intermediate array; TVM ``transform_layout``, Halide
``reorder_storage``.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import replace

from weft.ir.errors import IllegalScheduleError
from weft.ir.scalar_expr import Expr, Load, Var
from weft.ir.schedule_tree import statements_below
from weft.ir.scop import Access, Body, Scop, Statement
from weft.polyhedral.transform.edit import (
    Place,
    accesses_of,
    insert_nest,
    nest_position,
    with_nest,
)
from weft.polyhedral.transform.scheduled import Scheduled, fresh, path_to, transformation


@transformation
def transpose_sums(scheduled: Scheduled, statement: str, order: Seq[int]) -> Scheduled:
    """What ``statement`` updates in a temporary with its dims in ``order``, copied after everything
    else.

    One other statement sets all elements first, and nothing else uses them. Raises
    ``IllegalScheduleError``: WEFT-E0451 where there is no such statement, E0464 where its sums are
    no such ones, or the order is none.
    """
    path_to(scheduled.tree, statement)
    s = scheduled.scop.statement(statement)
    start = start_of(scheduled.scop, s)
    if start is None or sorted(order) != list(range(len(s.writes[0].indices))):
        why = (
            "not one other statement sets all of them, or others use them"
            if start is None
            else f"the order {list(order)} does not name each of its dims once"
        )
        what = f"the sums of {statement} cannot be transposed"
        raise IllegalScheduleError("WEFT-E0464", what, why=why)
    scop = _through(scheduled.scop, start, s.writes[0].tensor, order)
    last = Place("", after=statements_below(scheduled.tree)[-1:])
    return with_nest(scheduled, scop, scop.statements[-1].name, last)


def start_of(scop: Scop, s: Statement) -> Statement | None:
    """The statement that initialises all elements that ``s`` updates, if only these two use them;
    None if there is none, or the elements are not one for each point."""
    users = list({u.name: u for u, _, _ in accesses_of(scop, s.writes[0].tensor)}.values())
    if len(users) != 2 or len(s.writes) != 1 or users[1].name != s.name:
        return None
    (start, _) = users
    for user in users:
        plain = [a for a in user.accesses if a.tensor == s.writes[0].tensor]
        if len(plain) != 1 or plain[0].may or plain[0].guard or not indices_of(plain[0]):
            return None
    whole = start.update is None and set(indices_of(start.writes[0])) == set(start.dims)
    return start if whole and len(start.writes) == 1 else None


def indices_of(access: Access) -> tuple[str, ...]:
    """The dims that are the indices; () if these are anything else."""
    found = tuple(index.name for index in access.indices if isinstance(index, Var))
    return found if len(set(found)) == len(access.indices) else ()


def _through(scop: Scop, start: Statement, tensor: str, order: Seq[int]) -> Scop:
    """``scop`` with the sums in a temporary whose dims are those of ``tensor`` in ``order``."""
    old = scop.tensor(tensor)
    own = fresh(f"{tensor}_turned", {t.name for t in scop.tensors})

    def change(access: Access) -> Access:
        return Access(own, tuple(access.indices[d] for d in order))

    statements = tuple(s.map_accesses(change, tensor) for s in scop.statements)
    temp = replace(old, name=own, role="temp", shape=tuple(old.shape[d] for d in order))
    at: tuple[Expr, ...] = start.writes[0].indices
    copy = Statement(
        fresh(f"{tensor}_copy", {s.name for s in scop.statements}),
        start.dims,
        start.domain,
        nest_position(start.dims),
        writes=(Access(tensor, at),),
        reads=(change(Access(tensor, at)),),
        body=Body((), (Load(0, (), old.dtype),)),
    )
    changed = replace(scop, tensors=(*scop.tensors, temp), statements=statements)
    return insert_nest(changed, copy, changed.statements[-1])
