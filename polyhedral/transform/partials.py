"""Partials: a reduction into partial results, one for each value of an expression, and their sum.

    for i: for j: s[i] += f(i, j)       →     for i: for c < 4: p[i, c] = 0
                                              for i: for j: p[i, j // 2 % 4] += f(i, j)
                                              for i: for c < 4: s[i] += p[i, c]

As ``rfactor`` does it by a loop, this does it before there are loops: the partial results are told
apart by what the threads of a warp have of a tile.
Also known as: reduction trees, split reductions; ``rfactor``.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.errors import IllegalScheduleError
from weft.ir.index_reader import parse_index
from weft.ir.scalar_expr import Load, Var, literal, variable_names
from weft.ir.scop import Access, Body, Statement, Tensor
from weft.polyhedral.analysis.linear import between, box, is_box
from weft.polyhedral.proof.dependences import folding, reassociable
from weft.polyhedral.transform.edit import insert_nest, nest_position, none_of, origin_of, placed
from weft.polyhedral.transform.initial import in_textual_order
from weft.polyhedral.transform.scheduled import Scheduled, fresh, path_to, transformation


@transformation
def partials(
    scheduled: Scheduled, statement: str, value: str, count: int, *, front: bool = False
) -> Scheduled:
    """The update ``statement`` folds into ``count`` partial results by ``value``, an expression of
    its dims, which are filled with the identity before and folded into its target behind. Those of
    one element are neighbours in memory, or with ``front`` those of one value.

    For the order of the source. Raises ``IllegalScheduleError``: WEFT-E0451 where there is no such
    statement, E0463 in another order, E0460 for a ``value`` that is none, E0469 where it is no
    update of one element at dims of its own, over a box, whose order is free.
    """
    path_to(scheduled.tree, statement)
    scop, s = scheduled.scop, scheduled.scop.statement(statement)
    try:
        each = parse_index(value)
    except ValueError as error:
        what = f"{statement} has no partial results by {value}"
        raise IllegalScheduleError("WEFT-E0460", what, why=str(error), hint='"j % 4"') from None
    why = _why_not(scheduled, s)
    if not variable_names(each) <= {*s.dims}:
        why = f"{value} is no expression of its dims"
    if why or s.update is None:
        raise IllegalScheduleError("WEFT-E0469", f"{statement} has no partial results", why=why)
    placed(scheduled, s.writes[0].tensor, "partials")
    (target,) = s.writes
    taken = {t.name for t in scop.tensors} | {x.name for x in scop.statements}
    own = tuple(i.name for i in target.indices if isinstance(i, Var))
    part = fresh("part", {*s.dims, *scop.parameters})
    limits = {**box(s), part: (literal(0), literal(count))}
    dims = (part, *own) if front else (*own, part)
    old = scop.tensor(target.tensor)
    sizes = tuple(limits[d][1] for d in dims)
    tensor = Tensor(fresh(f"{target.tensor}_partial", taken), sizes, old.dtype)
    place = Access(tensor.name, tuple(map(Var, dims)))
    (identity,) = s.update.monoid.identity
    start = Statement(
        fresh(f"start_{tensor.name}", taken), dims, between(limits, dims), nest_position(dims),
        writes=(place,), reads=(), body=Body((), (literal(identity, old.dtype),)),
        origin=none_of(s),
    )  # fmt: skip
    finish = replace(
        start,
        name=fresh(f"finish_{tensor.name}", taken),
        writes=(Access(target.tensor, tuple(map(Var, own))),),
        reads=(place,),
        body=Body((), (Load(0, (), old.dtype),)),
        update=replace(s.update, dims=(part,)),
    )
    indices = (each, *target.indices) if front else (*target.indices, each)
    folded = replace(s, writes=(Access(tensor.name, indices),), origin=origin_of(s))
    nest = int(s.position[0])
    places = [x for x in scop.statements if x.position and int(x.position[0]) < nest]
    made = replace(scop.with_statement(folded), tensors=(*scop.tensors, tensor))
    made = insert_nest(made, start, places[-1] if places else None)
    made = insert_nest(made, finish, made.statement(statement))
    return in_textual_order(scheduled, made, "partials")


def _why_not(scheduled: Scheduled, s: Statement) -> str:
    """What stands against partial results of ``s``, or ''."""
    if s.update is None or len(s.writes) != 1 or not reassociable(s):
        return "it is no update of one element whose order is free"
    (write,) = s.writes
    names = [i.name for i in write.indices if isinstance(i, Var)]
    if write.may or write.guard or len(names) < len(write.indices) or len({*names}) < len(names):
        return "it does not update elements at its own dims"
    if not is_box(s) or not {*names} <= {*s.dims}:
        return "its dims depend on each other"
    if s.name not in folding(scheduled.scop):
        return f"other updates of {write.tensor} combine in another way"
    return ""
