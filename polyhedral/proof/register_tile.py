"""May the elements that a register tile updates stay in registers while its streams run?

One *invocation* of a tile is one iteration of the loops outside the mark. It loads the elements,
runs its instances, and stores them. That computes what the tree's own order does if

1. the statement is an update, unconditional and at known elements;
2. row and lane loops stay within the tile's sizes;
3. the element that an instance updates follows from its row and lane one to one: streams do not
   move it, and no two rows or lanes share it;
4. nothing else in the invocation touches these elements: no instance reads, as an operand, an
   element that some instance of the same invocation updates;
5. an instruction of the target, if there is one, folds in what the statement does, and the monoid's
   laws allow the order in which it sums up.

Without one, each element is updated in stream order, so the monoid needs no laws. No other
dependence can hold between two instances of one invocation. What holds between invocations, or
with other statements, is ``order_check``'s question. Whether there is code for the tile is none of
the proof's (``polyhedral/register_tile.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from math import prod

import islpy as isl

from weft.ir.errors import IllegalScheduleError
from weft.ir.instruction import Instruction
from weft.ir.isl_context import bounded
from weft.ir.named_isl import (
    access_map,
    constrained,
    domain_set,
    multi_aff,
    sample_pair,
    statement_space,
    tuple_space,
)
from weft.ir.quasi_affine import affine
from weft.ir.scalar_expr import Expr
from weft.ir.scalar_match import matches
from weft.ir.schedule_tree import (
    Band,
    Leaf,
    Mark,
    MarkedTile,
    RegisterTile,
    Tree,
    marked_tiles,
    walk,
)
from weft.ir.schedule_verifier import for_parameters, instance, source_of
from weft.ir.scop import Access, Constraint, Scop, Statement

Point = tuple[int, ...]

MAX_ELEMENTS = 4096  # of one tile, or of one warp's part: its rows are written out


def check_register_tiles(scop: Scop, tree: Tree) -> None:
    """Check every mark of a register tile in ``tree``, a verified schedule of ``scop``.

    Raises IllegalScheduleError (WEFT-E0424), with what stands against the tile.
    """
    for node in walk(tree):
        if isinstance(node, Mark) and isinstance(node.payload, RegisterTile):
            _check_shape(node)
    for tile in marked_tiles(tree).values():
        reason = why_not_in_registers(scop, tile)
        if reason:
            raise register_tile_refused(source_of(scop.statement(tile.statement)), reason)


def _check_shape(mark: Mark) -> None:
    payload = mark.payload
    assert isinstance(payload, RegisterTile)
    where = f"the mark {payload}"
    match mark.child:
        case Band(loops, Leaf()):
            if len(loops) < len(payload.rows) + 2:
                why = "its band needs a stream, a loop for each row size, a lane"
                raise register_tile_refused(where, why)
        case _:
            why = "it stands on something other than a band over one statement"
            raise register_tile_refused(where, why)
    sizes = (*payload.rows, payload.lanes)
    if min(sizes) < 1 or prod(sizes) > MAX_ELEMENTS * max(1, prod(payload.warps)):
        raise register_tile_refused(where, f"a tile has between 1 and {MAX_ELEMENTS} elements")
    if not 0 <= payload.ahead <= MAX_ELEMENTS:
        why = f"it asks for between 0 and {MAX_ELEMENTS} lines ahead"
        raise register_tile_refused(where, why)


def register_tile_refused(where: str, why: str) -> IllegalScheduleError:
    """The refusal of the register tile at ``where``."""
    return IllegalScheduleError(
        "WEFT-E0424",
        "a register tile cannot stand here",
        where=where,
        why=why,
        hint="leave out the mark, or take it away with set_kinds(…) of one of its loops: they are "
        "ordinary loops then",
    )


def why_not_in_registers(scop: Scop, tile: MarkedTile) -> str:
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
    with bounded(what="the check of a register tile"):
        tile_runs = _Invocation(scop, statement, tile)
        found = chain(tile_runs.sizes(), tile_runs.targets(), tile_runs.conflicts())
        return next(found, "")


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


class _Invocation:
    """What one invocation of a tile does, asked of all of them at once. Inside ``bounded``."""

    def __init__(self, scop: Scop, statement: Statement, tile: MarkedTile) -> None:
        self._scop, self._statement = scop, statement
        name, payload = statement.name, tile.payload
        self._outer = [loop.at[name] for loop in tile.outer]
        self._sizes = (*payload.rows, payload.lanes)
        self._local = tile.loops[tile.streams :]  # rows, lane
        self._row_and_lane = [loop.at[name] for loop in self._local]

    def sizes(self) -> Iterator[str]:
        """Loops that leave the tile."""
        domain = domain_set(self._scop, self._statement)
        for loop, value, size in zip(self._local, self._row_and_lane, self._sizes, strict=True):
            for beyond in (-1 - value, value - size):
                space = statement_space(self._scop, self._statement)
                outside = constrained(space, self._statement.dims, [Constraint(beyond)])
                if not domain.intersect(outside.to_set()).is_empty():
                    yield f"loop {loop.name} leaves 0 … {size - 1}"

    def targets(self) -> Iterator[str]:
        """Tensors whose updated elements do not follow from row and lane one to one."""
        places = self._with_outer(self._row_and_lane)
        for write in self._statement.writes:
            updated = places.reverse().apply_range(self._with_outer(self._stored(write)))
            if not updated.is_single_valued():
                yield f"the element of {write.tensor} that is updated changes along the streams"
            elif not updated.is_injective():
                yield f"rows or lanes share the element of {write.tensor} that they update"

    def conflicts(self) -> Iterator[str]:
        """Two instances of which one updates what the other reads."""
        statement = self._statement
        for k, write in enumerate(statement.writes):
            for other in (*statement.reads, *statement.writes[k + 1 :]):
                if other.tensor == write.tensor:
                    updating, reading = map(self._touched, (write, other))
                    pair = sample_pair(updating.apply_range(reading.reverse()))
                    if pair is not None:
                        yield self._conflict(write, *pair)

    def _conflict(
        self, write: Access, parameters: dict[str, int], first: Point, second: Point
    ) -> str:
        statement = self._statement
        values = {**parameters, **dict(zip(statement.dims, first, strict=True))}
        element = [affine(index).value(values) for index in self._stored(write)]
        return (
            f"{instance(statement, first)} updates {write.tensor}{element}, which "
            f"{instance(statement, second)} in the same tile reads{for_parameters(parameters)}"
        )

    def _stored(self, access: Access) -> tuple[Expr, ...]:
        """The indices that tell memory apart."""
        return access.indices[self._scop.tensor(access.tensor).contracted :]

    def _touched(self, access: Access) -> isl.Map:
        """Instances that perform ``access`` → their invocation, the element."""
        performed = access_map(self._scop, self._statement, access).domain()
        return self._with_outer(self._stored(access)).intersect_domain(performed)

    def _with_outer(self, values: Sequence[Expr]) -> isl.Map:
        """Instances → their invocation, ``values``."""
        values = (*self._outer, *values)
        target = tuple_space(self._scop, "", len(values))
        whole = isl.Map.from_multi_aff(multi_aff(self._scop, self._statement, values, target))
        return whole.intersect_domain(domain_set(self._scop, self._statement))
