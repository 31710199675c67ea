"""Value-based dataflow: for every read, the instance whose value it sees.

Where memory-based dependences (``dependences``) tell what could go wrong, flow tells what happens:
of all writers of an element before a read, the last one in a given schedule. A read that no write
precedes sees the element's initial value.

* An update reads its elements before it writes them, after its other reads. With ``folds``, the
  updates that it accepts do not hide what was there before: a read then sees *all* contributions
  since the last ordinary write, and that write. Two schedules that let every read see the same set
  of contributions differ at most in the order of a fold.
* A write to data-dependent elements hands on the other elements of its tensor: it counts as a read
  and a write of the whole tensor.

See Feautrier, "Dataflow analysis of array and scalar references" (1991); computed by isl,
and checked (``last_writes``).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import islpy as isl

from weft.polyhedral.analysis.last_writes import Uses, last_writes
from weft.polyhedral.analysis.times import original_schedule
from weft.polyhedral.isl_context import bounded
from weft.polyhedral.named_isl import (
    access_map,
    context_set,
    encode,
    parameter_space,
    source_identifier,
    target_rank,
    tensor_box,
    to_constants,
    tuple_names,
    union_maps,
    with_first,
    with_source,
)
from weft.polyhedral.scop import Access, Scop, Statement

FINAL = -1


class Read(NamedTuple):
    """Read ``number`` of statement ``name``; or the FINAL value of tensor ``name``.

    Numbers from ``len(reads)`` on are the implicit reads of ``writes``.
    """

    name: str
    number: int


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """What each read sees, by instance (by element for FINAL reads)."""

    sources: Mapping[Read, isl.UnionMap]  # reading instance → instances that wrote the value
    initial: Mapping[Read, isl.UnionMap]  # reading instance → elements not written before


def flow(
    scop: Scop,
    schedule: isl.UnionMap | None = None,
    folds: Callable[[Statement], bool] = lambda _: False,
    wanted: Container[Read] | None = None,
    implicit: bool = False,
) -> Flow:
    """The flow of ``scop`` under ``schedule`` (instances → times), by default the initial order.

    The final values of all inputs and outputs are read too. Only reads that are ``wanted`` are
    analysed, by default all. Updates that ``folds`` accepts read nothing implicitly, unless
    ``implicit``. Raises BudgetError (WEFT-E0400) rather than running unbounded.
    """
    with bounded(what="the dataflow analysis"):
        times = _times(original_schedule(scop) if schedule is None else schedule)
        tensors = {t.name: _Problem(scop, times) for t in scop.tensors}
        order = [
            read
            for statement in scop.statements
            for read in _add_statement(tensors, statement, folds(statement), wanted, implicit)
        ]
        for tensor in scop.tensors:
            final = Read(tensor.name, FINAL)
            if tensor.role not in ("temp", "constant") and (wanted is None or final in wanted):
                order.append(final)
                tensors[tensor.name].read_finally(tensor.name)
        solved = [problem.solve() for problem in tensors.values()]
    sources = {read: found for part, _ in solved for read, found in part.items()}
    initial = {read: found for _, part in solved for read, found in part.items()}
    return Flow(
        {read: sources[read] for read in order if read in sources},
        {read: initial[read] for read in order if read in initial},
    )


def flow_of(
    scop: Scop, statement: Statement, touched: isl.Map, folds: Callable[[Statement], bool]
) -> tuple[isl.UnionMap, isl.UnionMap]:
    """What ``statement`` would see in the initial order if it read what it is ``touched`` to.

    Instances → the instances that wrote the value; instances → elements not written before. All
    writers need a place in the initial order. Call it inside ``bounded``.
    """
    placed = [s for s in scop.statements if s.position]
    problem = _Problem(scop, _times(original_schedule(replace(scop, statements=tuple(placed)))))
    tensor = tuple_names(touched)[1]
    for s in placed:
        for access in s.writes:
            if access.tensor == tensor:
                problem.write(s, access, folds(s))
    read = Read(statement.name, 0)
    problem.read_elements(read, touched)
    sources, initial = problem.solve()
    empty = isl.UnionMap.empty(parameter_space(scop))
    return sources.get(read, empty), initial.get(read, empty)


def _add_statement(
    tensors: Mapping[str, _Problem],
    statement: Statement,
    folds: bool,
    wanted: Container[Read] | None,
    implicit: bool,
) -> Iterator[Read]:
    """Enter the accesses of ``statement`` into the problems of their tensors; its reads."""
    reads = list(enumerate(statement.reads))
    for number, access in enumerate(statement.writes, start=len(reads)):
        tensors[access.tensor].write(statement, access, folds)
        if (implicit or not folds) and (statement.update is not None or access.may):
            reads.append((number, access))
    for number, access in reads:
        if wanted is None or Read(statement.name, number) in wanted:
            yield tensors[access.tensor].read(statement, number, access)


class _Problem:
    """isl's access analysis of one tensor, with a tuple name of its own for every read."""

    def __init__(self, scop: Scop, times: Mapping[str, isl.Map]) -> None:
        self.scop = scop
        self.times = times
        empty = isl.UnionMap.empty(parameter_space(scop))
        self.schedule, self.sinks, self.kills, self.contributions = empty, empty, empty, empty
        self.box: isl.Set | None = None  # the tensor's, where its final values are read
        self._writes: list[tuple[Statement, Access, bool]] = []
        self.reads: dict[str, tuple[Read, str]] = {}  # tuple of a read → (read, its own tuple)

    def write(self, statement: Statement, access: Access, folds: bool) -> None:
        self._writes.append((statement, access, folds))

    def read(self, statement: Statement, number: int, access: Access) -> Read:
        read, own = Read(statement.name, number), encode("S", statement.name)
        if own in self.times:
            touched = access_map(self.scop, statement, access)
            self._add(read, own, touched, self.times[own])
        return read

    def read_elements(self, read: Read, touched: isl.Map) -> None:
        own = encode("S", read.name)
        if own in self.times:
            self._add(read, own, touched, self.times[own])

    def read_finally(self, name: str) -> None:
        """Read every element after all instances.

        The tensor's bounds are left out until the end: accesses lie within them anyway.
        """
        self.box = tensor_box(self.scop, name).intersect_params(context_set(self.scop))
        box = isl.Set.universe(self.box.get_space())
        length = max((target_rank(t) for t in self.times.values()), default=1)
        time = to_constants(box, [1] + [0] * (length - 1))
        touched = isl.Map.identity(box.get_space().map_from_set())
        self._add(Read(name, FINAL), encode("A", name), touched, time)

    def solve(self) -> tuple[dict[Read, isl.UnionMap], dict[Read, isl.UnionMap]]:
        """What reads see of instances, and of initial elements."""
        if not self.reads:
            return {}, {}
        for write in self._writes:
            self._add_write(*write)
        if self.kills.is_empty() and self.contributions.is_empty():
            return {}, self._by_read(self.sinks)
        found = last_writes(Uses(self.sinks, self.kills, self.contributions, self.schedule))
        sources = found.seen.range_factor_domain().reverse()
        return self._by_read(sources), self._by_read(found.initial)

    def _add_write(self, statement: Statement, access: Access, folds: bool) -> None:
        time = self.times.get(encode("S", statement.name))
        if time is None:  # it has no instances
            return
        touched = access_map(self.scop, statement, access).to_union_map()
        self.schedule = self.schedule.union(time.to_union_map())
        if folds:
            self.contributions = self.contributions.union(touched)
        else:
            self.kills = self.kills.union(touched)

    def _add(self, read: Read, own: str, touched: isl.Map, time: isl.Map) -> None:
        tag = f"R{len(self.reads)}"
        self.reads[tag] = read, own
        self.sinks = self.sinks.union(with_source(touched, tag).to_union_map())
        self.schedule = self.schedule.union(with_source(time, tag).to_union_map())

    def _by_read(self, found: isl.UnionMap) -> dict[Read, isl.UnionMap]:
        parts: dict[Read, isl.UnionMap] = {}
        for part in union_maps(found):
            read, own = self.reads[source_identifier(part)]
            part = with_source(part, own)
            if read.number == FINAL:
                part = part.intersect_domain(self.box)
                if part.is_empty():
                    continue
            whole = part.to_union_map()
            parts[read] = parts[read].union(whole) if read in parts else whole
        return parts


def _times(schedule: isl.UnionMap) -> dict[str, isl.Map]:
    """Tuple → its times, with a 0 in front so that something can come after all of them.

    As functions, not restricted to the instances: the accesses are.
    """
    return {
        source_identifier(part): with_first(part.gist_domain(part.domain()), 0)
        for part in union_maps(schedule)
    }
