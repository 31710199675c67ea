"""May the elements that a register tile updates stay in registers while its streams run?

One *invocation* of a tile is one iteration of the loops outside the mark. It loads the elements,
runs its instances, and stores them. That computes what the tree's own order does if

1. the statement is an update, unconditional and at known elements;
2. row and lane loops stay within the tile's sizes, and the dims follow linearly from the loops, so
   that there is code in closed form (``analysis/tile_domain.py``);
3. the element that an instance updates follows from its row and lane one to one: streams do not
   move it, and no two rows or lanes share it;
4. nothing else in the invocation touches these elements: no instance reads, as an operand, an
   element that some instance of the same invocation updates;
5. an instruction of the target, if there is one, folds in what the statement does, and the monoid's
   laws allow the order in which it sums up.

Without one, each element is updated in stream order, so the monoid needs no laws. No other
dependence can hold between two instances of one invocation. What holds between invocations, or
with other statements, is ``order_check``'s question.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import prod

import islpy as isl

from weft.ir.errors import IllegalScheduleError
from weft.ir.instruction import Instruction
from weft.ir.isl_context import bounded
from weft.ir.named_isl import constrained, context_set, sample, tuple_space
from weft.ir.quasi_affine import affine
from weft.ir.scalar_affine import Affine, FloorDiv, to_expr
from weft.ir.scalar_match import matches
from weft.ir.schedule_tree import Band, Leaf, Mark, RegisterTile, Tree, walk
from weft.ir.schedule_verifier import eliminate, for_parameters, instance, source_of
from weft.ir.scop import Access, Constraint, Scop, Statement
from weft.polyhedral.analysis.loop_inverse import substituted
from weft.polyhedral.analysis.tile_domain import MarkedTile, TileDomain, marked_tiles, tile_domain

MAX_ELEMENTS = 4096  # of one tile: its rows are written out


def check_register_tiles(scop: Scop, tree: Tree) -> None:
    """Check every mark of a register tile in ``tree``, a verified schedule of ``scop``.

    Raises IllegalScheduleError (WEFT-E0424), with what stands against the tile.
    """
    for node in walk(tree):
        if isinstance(node, Mark) and isinstance(node.payload, RegisterTile):
            _check_shape(node)
    for tile in marked_tiles(tree).values():
        reason = why_not_register_tile(scop, tile)
        if reason:
            raise _refused(source_of(scop.statement(tile.statement)), reason)


def _check_shape(mark: Mark) -> None:
    payload = mark.payload
    assert isinstance(payload, RegisterTile)
    where = f"the mark {payload}"
    match mark.child:
        case Band(loops, Leaf()):
            if len(loops) < len(payload.rows) + 2:
                raise _refused(where, "its band needs a stream, a loop for each row size, a lane")
        case _:
            raise _refused(where, "it stands on something other than a band over one statement")
    sizes = (*payload.rows, payload.lanes)
    if min(sizes) < 1 or prod(sizes) > MAX_ELEMENTS:
        raise _refused(where, f"a tile has between 1 and {MAX_ELEMENTS} elements")
    if not 0 <= payload.ahead <= MAX_ELEMENTS:
        raise _refused(where, f"it asks for between 0 and {MAX_ELEMENTS} lines ahead")


def _refused(where: str, why: str) -> IllegalScheduleError:
    return IllegalScheduleError(
        "WEFT-E0424",
        "a register tile cannot stand here",
        where=where,
        why=why,
        hint="leave out the mark, or take it away with set_kinds(…) of one of its loops: they are "
        "ordinary loops then",
    )


def why_not_register_tile(scop: Scop, tile: MarkedTile) -> str:
    """What stands against ``tile``, or ''."""
    statement = scop.statement(tile.statement)
    if statement.update is None:
        return f"{statement.name} is no update"
    if any(a.may for a in statement.accesses):
        return f"{statement.name} accesses data-dependent elements"
    if any(w.guard for w in statement.writes):
        return f"{statement.name} writes under a condition"
    if tile.payload.instruction is not None:
        reason = _instruction(statement, tile.payload.instruction)
        if reason:
            return reason
    names = [f"loop {k}" for k in range(len(tile.outer) + len(tile.loops))]  # no user name has ' '
    domain = tile_domain(scop, tile, names)
    if domain is None:
        return "its instances do not follow linearly from the loops around it, or leave holes"
    with bounded(what="the check of a register tile"):
        for reason in (*_sizes(scop, tile, domain), *_targets(scop, tile, domain)):
            return reason
        return _conflict(scop, statement, domain)


def _instruction(statement: Statement, instruction: Instruction) -> str:
    """What stands against ``instruction`` doing the steps of ``statement``, or ''. Whether the
    operands lie as it wants them is left to code generation, which does without it."""
    update, own, body = statement.update, instruction.semantics.update, statement.body
    assert update is not None and own is not None, "both are updates"
    if instruction.summed and not update.monoid.laws >= {"associative", "commutative"}:
        return f"{statement.name} keeps its order, {instruction} sums up in its own"
    one, other = ((m.name, m.dtypes) for m in (update.monoid, own.monoid))
    found = (f for result in body.results for f in matches(instruction.value, result))
    if one != other or body.lets or next(found, None) is None:
        return f"{statement.name} does not fold in what {instruction} does"
    return ""


def _sizes(scop: Scop, tile: MarkedTile, domain: TileDomain) -> Iterator[str]:
    names = (*domain.outer, *domain.streams, *domain.rows, domain.lane)
    loops = tile.loops[tile.streams :]
    sizes = (*tile.payload.rows, tile.payload.lanes)
    for name, loop, size in zip((*domain.rows, domain.lane), loops, sizes, strict=True):
        value = Affine(((name, 1),))
        for outside in (value.scaled(-1).plus(-1), value.plus(-size)):
            if not _points(scop, names, (*domain.whole, outside)).is_empty():
                yield f"loop {loop.name} leaves 0 … {size - 1}"


def _targets(scop: Scop, tile: MarkedTile, domain: TileDomain) -> Iterator[str]:
    sizes = (*tile.payload.rows, tile.payload.lanes)
    both = zip((*domain.rows, domain.lane), sizes, strict=True)
    local = [name for name, size in both if size > 1]
    inside = {*domain.streams, *domain.rows, domain.lane}
    for write in scop.statement(tile.statement).writes:
        stored = _stored(scop, write, domain)
        if any(
            isinstance(t, FloorDiv) and t.numerator.variables() & inside
            for f in stored
            for t, _ in f.terms
        ):
            yield f"the element of {write.tensor} that is updated does not move linearly"
        if any(form.coefficient(s) for form in stored for s in domain.streams):
            yield f"the element of {write.tensor} that is updated changes along the streams"
        if _rank([[form.coefficient(v) for v in local] for form in stored]) < len(local):
            yield f"rows or lanes share the element of {write.tensor} that they update"


def _stored(scop: Scop, access: Access, domain: TileDomain) -> list[Affine]:
    """The indices that tell memory apart, over the loops."""
    indices = access.indices[scop.tensor(access.tensor).contracted :]
    return [domain.inverse.over_loops(affine(index)) for index in indices]


def _rank(rows: Sequence[Sequence[int]]) -> int:
    return eliminate([[Fraction(x) for x in row] for row in rows], len(rows[0]) if rows else 0)


def _conflict(scop: Scop, statement: Statement, domain: TileDomain) -> str:
    """Two instances of one invocation of which one updates what the other reads, in words."""
    for k, write in enumerate(statement.writes):
        others = (*statement.reads, *statement.writes[k + 1 :])
        for other in others:
            if other.tensor == write.tensor:
                found = _meeting(scop, statement, domain, (write, other))
                if found:
                    return found
    return ""


def _meeting(
    scop: Scop, statement: Statement, domain: TileDomain, accesses: tuple[Access, Access]
) -> str:
    write, read = accesses
    inside = (*domain.streams, *domain.rows, domain.lane)
    again = {name: f"{name} again" for name in inside}
    names = (*domain.outer, *inside, *again.values())
    forms = [*domain.whole, *(_renamed(c, again) for c in domain.whole)]
    reading = [_renamed(f, again) for f in _stored(scop, read, domain)]
    for one, two in zip(_stored(scop, write, domain), reading, strict=True):
        forms += [one - two, two - one]
    guard = [_renamed(domain.inverse.over_loops(affine(g.expr)), again) for g in read.guard]
    forms += [f for f, g in zip(guard, read.guard, strict=True) if not g.equality]
    found = sample(isl.Set.from_basic_set(_points(scop, names, forms)))
    if found is None:
        return ""
    parameters, point = found
    values = {**parameters, **dict(zip(names, point, strict=True))}
    back = {**values, **{name: values[new] for name, new in again.items()}}
    first = [domain.inverse.dims[d].value(values) for d in statement.dims]
    second = [domain.inverse.dims[d].value(back) for d in statement.dims]
    element = [form.value(values) for form in _stored(scop, write, domain)]
    return (
        f"{instance(statement, first)} updates {write.tensor}{element}, which "
        f"{instance(statement, second)} in the same tile reads{for_parameters(parameters)}"
    )


def _renamed(form: Affine, names: dict[str, str]) -> Affine:
    return substituted(form, {old: Affine(((new, 1),)) for old, new in names.items()}, {})


def _points(scop: Scop, names: Sequence[str], forms: Sequence[Affine]) -> isl.BasicSet:
    """The points, called ``names``, where all ``forms`` are at least 0, within the context."""
    space = tuple_space(scop, "", len(names))
    points = constrained(space, names, [Constraint(to_expr(form)) for form in forms])
    return points.intersect_params(context_set(scop).simple_hull())
