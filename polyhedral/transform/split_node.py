"""Split a node: what a statement reads before others overwrite it, a statement of its own reads.

    for i:                                for i:
      u[i] = f(u[i], u[i + 1])      →       x = u[i + 1]
                                            u[i] = f(u[i], x)

The anti dependence now leaves another statement than it enters: once ``x`` is expanded, the loop
may be distributed over the two, and run in vectors. Also known as: node splitting (Kuck et al.,
POPL 1981; Allen and Kennedy, "Optimizing Compilers for Modern Architectures", 2001).
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.errors import IllegalScheduleError
from weft.ir.scalar_expr import Load, walk
from weft.ir.schedule_tree import Leaf
from weft.ir.scop import Access, Body, Scop, Statement, Tensor
from weft.polyhedral.transform.edit import Place, insert, none_of, origin_of, placed
from weft.polyhedral.transform.scheduled import (
    Scheduled,
    fresh,
    loops_above,
    path_to,
    transformation,
)


@transformation
def split_node(scheduled: Scheduled, statement: str, operand: int) -> Scheduled:
    """What ``statement`` reads as its number ``operand`` is read into a temporary of one element by
    a statement just before it, in the same loops.

    Raises ``IllegalScheduleError``: WEFT-E0451 where there is no such statement, E0463 where
    something without a place in the source touches the tensor, E0465 where the statement has no
    such read or is in no loop, or data or a condition decide what it reads.
    """
    path_to(scheduled.tree, statement)
    s, scop = scheduled.scop.statement(statement), scheduled.scop
    reason = why_not_split(scop, s, operand)
    if reason:
        raise IllegalScheduleError(
            "WEFT-E0465", f"read {operand} of {statement} cannot come before it", why=reason
        )
    placed(scheduled, s.reads[operand].tensor, "split_node")
    scop, name = _split(scop, s, operand)
    above = loops_above(scheduled.tree, statement)
    place = Place(above[-1].name, before=(statement,))
    tree = insert(scheduled.tree, place, Leaf(name), [{name: x.at[statement]} for x in above])
    return replace(scheduled, scop=scop, tree=tree)


def why_not_split(scop: Scop, s: Statement, operand: int) -> str:
    """The reason why that read of ``s`` cannot have a statement of its own, or ''."""
    if operand not in range(len(s.reads)):
        return f"it has {len(s.reads)} reads"
    read = s.reads[operand]
    if not s.position or not s.dims:
        return f"{s.name} is in no loop of the source"
    if read.may or read.guard:
        return f"data or a condition decide what of {read.tensor} is read"
    return ""


def _split(scop: Scop, s: Statement, operand: int) -> tuple[Scop, str]:
    """``scop`` with a statement before ``s`` that reads its ``operand``, and its name."""
    read = s.reads[operand]
    name = fresh(f"{s.name}_{read.tensor}", {x.name for x in scop.statements})
    old = scop.tensor(read.tensor)
    tensor = Tensor(fresh(name, {t.name for t in scop.tensors}), (), old.dtype)
    place = Access(tensor.name, ())
    loads = (n for e in s.body.expressions for n in walk(e) if isinstance(n, Load))
    dtype = next((n.dtype for n in loads if n.source == operand), old.dtype)
    maker = Statement(
        name,
        s.dims,
        s.domain,
        s.position,
        (place,),
        (read,),
        Body((), (Load(0, (), dtype),)),
        origin=none_of(s),
    )
    user = replace(
        s,
        reads=(*s.reads[:operand], place, *s.reads[operand + 1 :]),
        origin=origin_of(s),
    )
    statements: list[Statement] = []
    for other in scop.with_statement(user).statements:
        if other.name == s.name:
            statements.append(maker)
        statements.append(_later(other, s.position))
    whole = replace(scop, tensors=(*scop.tensors, tensor), statements=tuple(statements))
    return whole, name


def _later(s: Statement, place: tuple[int | str, ...]) -> Statement:
    """``s`` one place later in the body of its loop, if it is at ``place`` or behind it there."""
    *around, number = place
    depth = len(around)
    if list(s.position[:depth]) != around or int(s.position[depth]) < int(number):
        return s
    moved = (*s.position[:depth], int(s.position[depth]) + 1, *s.position[depth + 1 :])
    return replace(s, position=moved)
