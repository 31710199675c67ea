"""Precompute: what a statement works out again and again goes to a tensor of its own, beforehand.

    for i: for k: for j:                          for i: for k: T[i, k] = alpha * A[i, k]
      C[i, j] += alpha * A[i, k] * B[k, j]   →    for i: for k: for j:
                                                    C[i, j] += T[i, k] * B[k, j]

The same operations on the same operands, so the same rounding. Also known as: loop-invariant code
motion with array expansion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Sequence as Seq
from dataclasses import replace

from weft.ir.isl_context import bounded
from weft.ir.named_isl import constraints_of, domain_set, projected
from weft.ir.scalar_expr import Apply, Cast, Expr, Load, Var, rewrite, variable_names
from weft.ir.scop import Access, Body, Constraint, Scop, Statement, Tensor
from weft.polyhedral.analysis.bounds import bounds
from weft.polyhedral.analysis.linear import mentions, operands, renumber
from weft.polyhedral.transform.edit import (
    Place,
    insert_nest,
    loads,
    nest_position,
    origin_of,
    with_nest,
    with_reads,
)
from weft.polyhedral.transform.scheduled import (
    Scheduled,
    fresh,
    path_to,
    transformation,
    unknown,
)


@transformation
def precompute(scheduled: Scheduled, statement: str, order: Seq[str], along: Seq[str]) -> Scheduled:
    """The largest subexpressions of ``statement`` that move along no dims but those of ``order``,
    and along one of ``along`` at least, in nests before it, in tensors with their dims in
    ``order``. Single loads, signs, and what changes while the statement's nest runs stay, as does
    what moves along more dims than each of the arrays in it: it would take more memory.

    Raises ``IllegalScheduleError``: WEFT-E0451 where there is no such statement, E0460 for dims
    that it does not have.
    """
    path_to(scheduled.tree, statement)
    dims = scheduled.scop.statement(statement).dims
    for dim in (*order, *along):
        if dim not in dims:
            raise unknown("WEFT-E0460", f"{statement} has no dim {dim!r}", "dims", dim, dims)
    scop, made = precomputed(scheduled.scop, statement, order, along)
    for name in made:
        scheduled = with_nest(scheduled, scop, name, Place("", before=(statement,)))
    return scheduled


def precomputed(
    scop: Scop, statement: str, order: Sequence[str], along: Sequence[str]
) -> tuple[Scop, tuple[str, ...]]:
    """``scop`` with the largest subexpressions of ``statement`` that move along no dims but those
    of ``order``, and along one of ``along`` at least, in nests before it; their statements.

    The new tensors have their dimensions in ``order``. Subexpressions whose operands change while
    the statement's own nest runs stay, as do single loads and signs, and what would take more
    memory than each of the arrays that it is made of.
    """
    made: list[str] = []
    for _ in range(len(scop.statement(statement).reads)):
        s = scop.statement(statement)
        found = next(_candidates(scop, s, order, along), None)
        changed = None if found is None else _moved(scop, s, found, order)
        if changed is None:
            break
        scop, name = changed
        made.append(name)
    return scop, tuple(made)


def _candidates(
    scop: Scop, s: Statement, order: Sequence[str], along: Sequence[str]
) -> Iterator[Expr]:
    if s.body.lets or not s.position:
        return
    nest = s.position[0]
    changing = {w.tensor for x in scop.statements if x.position[:1] == (nest,) for w in x.writes}
    stack = list(s.body.results)
    while stack:
        expr = stack.pop()
        reads = [s.reads[k] for k in operands(expr)]
        dims = _dims(expr, reads, s.dims)
        steady = all(not (r.may or r.guard or r.tensor in changing) for r in reads)
        # Of several arrays, more than each of them has would take too much memory.
        held = len(reads) < 2 or any(dims <= _moved_by(r, s.dims) for r in reads)
        if _works(expr) and steady and held and dims <= set(order) and dims & set(along):
            yield expr
        else:
            stack.extend(expr.children)


def _works(expr: Expr) -> bool:
    return isinstance(expr, Apply | Cast) and not (isinstance(expr, Apply) and expr.op == "neg")


def _dims(expr: Expr, reads: Sequence[Access], dims: Sequence[str]) -> set[str]:
    """The dims along which ``expr`` moves."""
    return (variable_names(expr) & set(dims)).union(*(_moved_by(r, dims) for r in reads))


def _moved_by(read: Access, dims: Sequence[str]) -> set[str]:
    return {d for d in dims if any(mentions(i, (d,)) for i in read.indices)}


def _moved(scop: Scop, s: Statement, expr: Expr, order: Sequence[str]) -> tuple[Scop, str] | None:
    numbers = operands(expr)
    moving = _dims(expr, [s.reads[k] for k in numbers], s.dims)
    dims = tuple(d for d in s.dims if d in moving)
    domain = _projected(scop, s, dims)
    if domain is None:
        return None
    loops = tuple(d for d in order if d in moving)
    name = fresh(f"{s.name}_operand", {x.name for x in scop.statements})
    maker = Statement(
        name,
        dims,
        domain,
        nest_position(loops),
        (),
        tuple(s.reads[k] for k in numbers),
        Body((), (renumber(expr, numbers),)),
    )
    ranges = [bounds(scop, [(maker, Var(d))], from_zero=True) for d in loops]
    if any(r is None for r in ranges):
        return None
    known = [r for r in ranges if r is not None]
    tensor = Tensor(
        fresh(f"{s.name}_operand", {t.name for t in scop.tensors}),
        tuple(r.size for r in known),
        expr.dtype,
    )
    place = Access(tensor.name, tuple(Var(d) - r.lower for d, r in zip(loops, known, strict=True)))
    maker = replace(maker, writes=(place,))
    scop = scop.with_statement(_using(s, expr, place))
    whole = replace(scop, tensors=(*scop.tensors, tensor))
    placed = [x for x in whole.statements if x.position]
    before = [x for x in placed if int(x.position[0]) < int(s.position[0])]
    last = max(before, key=lambda x: int(x.position[0]), default=None)
    return insert_nest(whole, maker, last), name


def _projected(scop: Scop, s: Statement, dims: tuple[str, ...]) -> tuple[Constraint, ...] | None:
    """The domain of ``s`` over some of its dims; None where it is not convex."""
    with bounded(what="the projection of a domain"):
        found = projected(domain_set(scop, s), s.dims, dims)
        parts = found.coalesce().get_basic_sets()
        if len(parts) != 1:
            return None
        try:
            return constraints_of(parts[0], dims)
        except ValueError:
            return None


def _using(s: Statement, expr: Expr, place: Access) -> Statement:
    """``s`` with ``expr`` read from ``place``, and without the reads that this leaves unused.

    The new read comes where the first operand of ``expr`` was: reads that stay keep their order.
    """
    new = len(s.reads)
    first = min(operands(expr), default=new)
    load = Load(new, (), expr.dtype)
    body = s.body.map(lambda e: rewrite(e, lambda node: load if node == expr else None))
    user = replace(s, reads=(*s.reads, place), body=body, origin=origin_of(s))
    return with_reads(user, sorted(loads(user), key=lambda k: first - 0.5 if k == new else k))
