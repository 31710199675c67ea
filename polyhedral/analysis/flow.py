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

See Feautrier, "Dataflow analysis of array and scalar references" (1991); computed by isl.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import islpy as isl

from weft.polyhedral.named_isl import (
    access_map,
    bounded,
    context_set,
    encode,
    original_schedule,
    parameter_space,
    tensor_box,
    union_maps,
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
) -> Flow:
    """The flow of ``scop`` under ``schedule`` (instances → times), by default the initial order.

    The final values read are those of all tensors that are written and outlive the Scop.
    Raises BudgetError (WEFT-E0400) rather than running unbounded.
    """
    with bounded(what="the dataflow analysis"):
        times = _behind_zero(scop, original_schedule(scop) if schedule is None else schedule)
        return _Problem(scop, times, folds).solve()


class _Problem:
    """isl's access analysis, with a tuple name of its own for every read."""

    def __init__(self, scop: Scop, times: isl.UnionMap, folds: Callable[[Statement], bool]) -> None:
        self.scop = scop
        self.times = times
        empty = isl.UnionMap.empty(parameter_space(scop))
        self.schedule, self.sinks, self.kills, self.contributions = times, empty, empty, empty
        self.reads: dict[str, tuple[Read, str]] = {}  # tuple of a read → (read, its own tuple)
        for statement in scop.statements:
            self._statement(statement, folds(statement))
        for name in _final_tensors(scop):
            self._final(name)

    def solve(self) -> Flow:
        problem = isl.UnionAccessInfo.from_sink(self.sinks)
        problem = problem.set_must_source(self.kills).set_may_source(self.contributions)
        found = problem.set_schedule_map(self.schedule).compute_flow()
        return Flow(
            self._by_read(found.get_may_dependence().reverse()),
            self._by_read(found.get_may_no_source()),
        )

    def _statement(self, statement: Statement, folds: bool) -> None:
        for number, access in enumerate(statement.reads):
            self._sink(statement, number, access)
        for number, access in enumerate(statement.writes):
            touched = access_map(self.scop, statement, access).to_union_map()
            if folds:
                self.contributions = self.contributions.union(touched)
                continue
            self.kills = self.kills.union(touched)
            if statement.update is not None or access.may:
                self._sink(statement, len(statement.reads) + number, access)

    def _sink(self, statement: Statement, number: int, access: Access) -> None:
        own = encode("S", statement.name)
        touched = access_map(self.scop, statement, access)
        time = self.times.intersect_domain(touched.domain().to_union_set())
        if not time.is_empty():
            row = isl.Map.from_union_map(time)
            self._add(Read(statement.name, number), own, touched, row)

    def _final(self, name: str) -> None:
        box = tensor_box(self.scop, name).intersect_params(context_set(self.scop))
        times = self.times.get_map_list()
        length = times.get_at(0).dim(isl.dim_type.out) if times.n_map() else 1
        row = isl.Map.from_domain(box).add_dims(isl.dim_type.out, length)
        row = row.fix_val(isl.dim_type.out, 0, 1)
        for k in range(1, length):
            row = row.fix_val(isl.dim_type.out, k, 0)
        touched = isl.Map.identity(box.get_space().map_from_set()).intersect_domain(box)
        self._add(Read(name, FINAL), encode("A", name), touched, row)

    def _add(self, read: Read, own: str, touched: isl.Map, time: isl.Map) -> None:
        tag = f"R{len(self.reads)}"
        self.reads[tag] = read, own
        self.sinks = self.sinks.union(_renamed(touched, tag).to_union_map())
        self.schedule = self.schedule.union(_renamed(time, tag).to_union_map())

    def _by_read(self, found: isl.UnionMap) -> dict[Read, isl.UnionMap]:
        parts: dict[Read, isl.UnionMap] = {}
        for part in union_maps(found):
            read, own = self.reads[part.get_tuple_name(isl.dim_type.in_)]
            whole = _renamed(part, own).to_union_map()
            parts[read] = parts[read].union(whole) if read in parts else whole
        return {read: parts[read] for read, _ in self.reads.values() if read in parts}


def _final_tensors(scop: Scop) -> tuple[str, ...]:
    written = {write.tensor for s in scop.statements for write in s.writes}
    visible = (t for t in scop.tensors if t.role not in ("temp", "constant"))
    return tuple(t.name for t in visible if t.name in written)


def _behind_zero(scop: Scop, times: isl.UnionMap) -> isl.UnionMap:
    """``times`` with a 0 in front, so that something can come after all of them."""
    result = isl.UnionMap.empty(parameter_space(scop))
    for part in union_maps(times):
        moved = part.insert_dims(isl.dim_type.out, 0, 1).fix_val(isl.dim_type.out, 0, 0)
        result = result.union(moved.to_union_map())
    return result


def _renamed(part: isl.Map, name: str) -> isl.Map:
    return part.set_tuple_name(isl.dim_type.in_, name)
