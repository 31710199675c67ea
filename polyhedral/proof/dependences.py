"""Memory-based dependences: which instance must stay before which, and why.

One record per pair of accesses to one tensor, at least one of them a write, that can touch one
element: the map of all instance pairs (source, sink) that do, source first in the initial order.
A schedule that keeps source before sink in every record computes what the initial order computes.

An update reads and writes its elements. Pairs of instances of one update that differ in reduction
dims only are recorded apart, with ``reduction`` set, if the monoid is associative and commutative
(so are those of two updates of one component with the same monoid):
their order is free, but they still must not run at the same time.

Statements with no place in the initial order (``position`` ()) are before or after all others as
validation decides; what they share with another statement is recorded once, as ``unordered``.

See Feautrier, "Dataflow analysis of array and scalar references" (1991), for the terms.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import islpy as isl

from weft.ir.isl_context import bounded, derived
from weft.ir.named_isl import access_map, where_equal, where_less
from weft.ir.quasi_affine import affine
from weft.ir.scop import Access, Scop, Statement
from weft.polyhedral.proof.implied import Implied, Use, relation

Kind = Literal["flow", "anti", "output"]


@dataclass(frozen=True, slots=True, eq=False)
class Dependence:
    """Instances of ``source`` → instances of ``sink`` that must come later.

    ``map`` is exact: within both domains, both guards and the context. ``kind`` names the strongest
    reason: the sink reads what the source wrote (flow), both write (output), the sink overwrites
    what the source read (anti). ``unordered``: which comes first is not known here, but they must
    not run at the same time.
    """

    source: Statement
    sink: Statement
    source_access: Access
    sink_access: Access
    kind: Kind
    map: isl.Map
    reduction: bool = False
    unordered: bool = False

    @property
    def tensor(self) -> str:
        return self.source_access.tensor

    def __str__(self) -> str:
        free = ", reduction" if self.reduction else ", unordered" if self.unordered else ""
        return f"{self.kind} {self.source.name} -> {self.sink.name} on {self.tensor}{free}"


def dependences(scop: Scop, tensor: str = "", *, implied: bool = True) -> tuple[Dependence, ...]:
    """Every dependence of ``scop`` in its initial order, sources in statement order; those on
    ``tensor`` if one is named. Without ``implied``, some of those that others imply are left out
    (``implied``): of many statements that write the same elements, most.

    Raises BudgetError (WEFT-E0400) rather than running unbounded.
    """

    def make() -> tuple[Dependence, ...]:
        with bounded(what="the dependence analysis"):
            return tuple(_all(scop, tensor, implied))

    return derived(make, "dependences", (tensor, str(implied)), scop)


def _all(scop: Scop, tensor: str, implied: bool) -> Iterator[Dependence]:
    by_tensor: dict[str, list[Use]] = {}
    for number, statement in enumerate(scop.statements):
        for use in _uses(number, statement):
            if use.access.tensor == tensor or not tensor:
                by_tensor.setdefault(use.access.tensor, []).append(use)
    for uses in by_tensor.values():
        known = None if implied else Implied(uses)
        for place, first in enumerate(uses):
            for other, second in enumerate(uses):
                if not first.writes and not second.writes:
                    continue
                if first.statement.position and second.statement.position:
                    if known is None or not known.pair(first, second):
                        yield from _between(scop, first, second)
                elif place <= other:
                    yield from _beside(scop, first, second)


def _uses(number: int, statement: Statement) -> Iterator[Use]:
    for access in statement.reads:
        yield Use(number, statement, access, reads=True, writes=False)
    for access in statement.writes:
        updates = statement.update is not None
        yield Use(number, statement, access, reads=updates, writes=True)


def _between(scop: Scop, first: Use, second: Use) -> Iterator[Dependence]:
    """The dependences with ``first`` at the source and ``second`` at the sink."""
    shared, textual = relation(first.statement, first.number, second.statement, second.number)
    if not shared and not textual:
        return
    source = access_map(scop, first.statement, first.access)
    sink = access_map(scop, second.statement, second.access)
    pairs = _in_order(source.apply_range(sink.reverse()), shared, textual)
    if pairs is None:
        return
    for part, reduction in _split_reduction(pairs, first, second):
        yield Dependence(
            first.statement, second.statement, first.access, second.access, _kind(first, second),
            part, reduction,
        )  # fmt: skip


def _beside(scop: Scop, first: Use, second: Use) -> Iterator[Dependence]:
    """What both touch, where one of the two has no place in the initial order."""
    source = access_map(scop, first.statement, first.access)
    sink = access_map(scop, second.statement, second.access)
    pairs = source.apply_range(sink.reverse())
    if pairs.is_empty():
        return
    for part, reduction in _split_reduction(pairs, first, second):
        yield Dependence(
            first.statement, second.statement, first.access, second.access, _kind(first, second),
            part, reduction, unordered=not reduction,
        )  # fmt: skip


def _kind(first: Use, second: Use) -> Kind:
    if not first.writes:
        return "anti"
    return "flow" if second.reads else "output"


def in_initial_order(scop: Scop, first: Statement, second: Statement, pairs: isl.Map) -> isl.Map:
    """Those of ``pairs``, of instances of ``first`` and ``second``, that run in that order."""
    places = {s.name: k for k, s in enumerate(scop.statements)}
    shared, textual = relation(first, places[first.name], second, places[second.name])
    found = _in_order(pairs, shared, textual)
    return isl.Map.empty(pairs.get_space()) if found is None else found


def _in_order(pairs: isl.Map, shared: list[tuple[int, int]], textual: bool) -> isl.Map | None:
    """The ``pairs`` whose source comes first: before in one shared loop, equal in those around."""
    found: isl.Map | None = None
    for a, b in shared:
        if pairs.is_empty():
            return found
        earlier = where_less(pairs, a, b)
        if not earlier.is_empty():
            found = earlier if found is None else found.union(earlier)
        pairs = where_equal(pairs, a, b)
    if textual and not pairs.is_empty():
        found = pairs if found is None else found.union(pairs)
    return found


def _split_reduction(pairs: isl.Map, first: Use, second: Use) -> Iterator[tuple[isl.Map, bool]]:
    """``pairs`` in two parts: those whose order the update's monoid leaves free, and the others."""
    if _fold_alike(first, second):
        yield pairs, True
        return
    if not _one_update(first, second):
        yield pairs, False
        return
    bound = ordered_updates(pairs, first.statement)
    free = pairs.subtract(bound)
    if not bound.is_empty():
        yield bound, False
    if not free.is_empty():
        yield free, True


def _one_update(first: Use, second: Use) -> bool:
    """Whether both fold into what they share as one update does: they are one, or parts of one."""
    one, two = first.statement, second.statement
    return (
        first.writes
        and second.writes
        and first.access == second.access
        and (one.dims, one.writes, one.update) == (two.dims, two.writes, two.update)
        and reassociable(one)
        and reassociable(two)
    )


def ordered_updates(pairs: isl.Map, statement: Statement) -> isl.Map:
    """Those of ``pairs`` of instances of an update that differ in more than its reduction dims."""
    assert statement.update is not None
    free = pairs
    for k, dim in enumerate(statement.dims):
        if dim not in statement.update.dims:
            free = where_equal(free, k, k)
    return pairs.subtract(free)


def _fold_alike(first: Use, second: Use) -> bool:
    """Whether two statements fold into the element that they share in the same way."""
    one, two = first.statement, second.statement
    return (
        one is not two
        and first.writes
        and second.writes
        and len(one.writes) == len(two.writes) == 1
        and reassociable(one)
        and reassociable(two)
        and one.update is not None
        and two.update is not None
        and one.update.monoid == two.update.monoid
    )


def reassociable(statement: Statement) -> bool:
    """Whether instances of an update that differ in reduction dims only may run in any order.

    That needs an associative and commutative monoid, and that such instances fold into the same
    elements as a whole: with several components, none may move along the reduction dims, nor two
    be one.
    """
    update = statement.update
    if update is None or not update.monoid.laws >= {"associative", "commutative"}:
        return False
    if len(statement.writes) == 1:
        return True
    return len(set(statement.writes)) == len(statement.writes) and not any(
        write.may
        or write.guard != statement.writes[0].guard
        or any(dim in update.dims for index in write.indices for dim in affine(index).variables())
        for write in statement.writes
    )


def folding(scop: Scop) -> frozenset[str]:
    """Updates whose order is free, and that share their tensors with no other kind of update."""
    by_tensor: dict[str, list[Statement]] = {}
    for s in scop.statements:
        for write in s.writes:
            by_tensor.setdefault(write.tensor, []).append(s)
    return frozenset(
        s.name
        for s in scop.statements
        if s.update is not None
        and all(
            other.update is None or (reassociable(other) and other.update.monoid == s.update.monoid)
            for write in s.writes
            for other in by_tensor[write.tensor]
        )
    )
