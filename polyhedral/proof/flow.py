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

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import islpy as isl

from weft.ir.errors import IllegalScheduleError
from weft.ir.isl_context import bounded
from weft.ir.named_isl import (
    access_map,
    context_set,
    domain_set,
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
from weft.ir.schedule_times import original_schedule
from weft.ir.scop import Access, Scop, Statement
from weft.polyhedral.proof.implied import Implied, Use
from weft.polyhedral.proof.last_writes import Uses, last_writes

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

    @staticmethod
    def of(parts: Collection[Flow], reads: Iterable[Read]) -> Flow:
        """All of ``parts``, in the order of ``reads``."""
        order = list(reads)
        sources = {read: seen for part in parts for read, seen in part.sources.items()}
        initial = {read: seen for part in parts for read, seen in part.initial.items()}
        return Flow(
            {read: sources[read] for read in order if read in sources},
            {read: initial[read] for read in order if read in initial},
        )


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
        known = schedule is None and all(s.position for s in scop.statements)
        tensors = {t.name: _Problem(scop, times, known) for t in scop.tensors}
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
        return Flow.of([part for tensor in tensors.values() for part in tensor.solve()], order)


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
    found = Flow.of(problem.solve(), [read])
    empty = isl.UnionMap.empty(parameter_space(scop))
    return found.sources.get(read, empty), found.initial.get(read, empty)


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


@dataclass(frozen=True, slots=True, eq=False)
class _Reading:
    """A read, the tuple ``own`` of its instances, what they touch and when; ``use``: of a read by a
    statement in the initial order; ``box``: of a tensor's final values, where these are."""

    read: Read
    own: str
    touched: isl.Map
    time: isl.Map
    use: Use | None = None
    box: isl.Set | None = None


class _Problem:
    """isl's access analysis of one tensor, with a tuple name of its own for every read."""

    def __init__(self, scop: Scop, times: Mapping[str, isl.Map], initial: bool = False) -> None:
        """``initial``: ``times`` are of the initial order, in which all statements have a place."""
        self.scop = scop
        self.times = times
        self.reads: dict[str, _Reading] = {}  # by a tuple of its own
        self._writes: list[tuple[Statement, Access, bool]] = []
        self._place = {s.name: k for k, s in enumerate(scop.statements)} if initial else {}

    def write(self, statement: Statement, access: Access, folds: bool) -> None:
        self._writes.append((statement, access, folds))

    def read(self, statement: Statement, number: int, access: Access) -> Read:
        read, own = Read(statement.name, number), encode("S", statement.name)
        if own in self.times:
            touched = access_map(self.scop, statement, access)
            use = self._use(statement, access, writes=False)
            self._add(_Reading(read, own, touched, self.times[own], use))
        return read

    def read_elements(self, read: Read, touched: isl.Map) -> None:
        own = encode("S", read.name)
        if own in self.times:
            self._add(_Reading(read, own, touched, self.times[own]))

    def read_finally(self, name: str) -> None:
        """Read every element after all instances.

        The tensor's bounds are left out until the end: accesses lie within them anyway.
        """
        box = tensor_box(self.scop, name).intersect_params(context_set(self.scop))
        whole = isl.Set.universe(box.get_space())
        length = max((target_rank(t) for t in self.times.values()), default=1)
        time = to_constants(whole, [1] + [0] * (length - 1))
        touched = isl.Map.identity(box.get_space().map_from_set())
        self._add(_Reading(Read(name, FINAL), encode("A", name), touched, time, box=box))

    def solve(self) -> list[Flow]:
        """What the reads see, some of them in each part."""
        return [self._solved(tags, writes) for tags, writes in self._parts()]

    def _parts(self) -> list[tuple[list[str], list[int]]]:
        """The reads, those together that may see the same writes, and the numbers of these.

        A write that others hide from all that a read touches (``implied``) is none.
        """
        everything = list(range(len(self._writes)))
        if not self._place:
            return [(list(self.reads), everything)] if self.reads else []
        writing = [self._use(s, access, writes=True) for s, access, _ in self._writes]
        known = Implied([*writing, *(r.use for r in self.reads.values() if r.use is not None)])
        last = [k for k in everything if not known.overwritten(writing[k])]
        parts: dict[tuple[int, ...], list[str]] = {}
        for tag, r in self.reads.items():
            seen = last
            if r.use is not None:
                seen = [k for k in everything if not known.pair(writing[k], r.use)]
            parts.setdefault(tuple(seen), []).append(tag)
        return [(tags, list(seen)) for seen, tags in parts.items()]

    def _solved(self, tags: list[str], writes: list[int]) -> Flow:
        empty = isl.UnionMap.empty(parameter_space(self.scop))
        sinks, kills, contributions, times = empty, empty, empty, empty
        for tag in tags:
            r = self.reads[tag]
            sinks = sinks.union(with_source(r.touched, tag).to_union_map())
            times = times.union(with_source(r.time, tag).to_union_map())
        for statement, access, folds in (self._writes[k] for k in writes):
            time = self.times.get(encode("S", statement.name))
            if time is None:  # it has no instances
                continue
            touched = access_map(self.scop, statement, access).to_union_map()
            times = times.union(time.to_union_map())
            if folds:
                contributions = contributions.union(touched)
            else:
                kills = kills.union(touched)
        if kills.is_empty() and contributions.is_empty():
            return Flow({}, self._by_read(sinks))
        found = last_writes(Uses(sinks, kills, contributions, times))
        sources = found.seen.range_factor_domain().reverse()
        return Flow(self._by_read(sources), self._by_read(found.initial))

    def _use(self, statement: Statement, access: Access, *, writes: bool) -> Use:
        place = self._place.get(statement.name, 0)
        return Use(place, statement, access, reads=not writes, writes=writes)

    def _add(self, reading: _Reading) -> None:
        self.reads[f"R{len(self.reads)}"] = reading

    def _by_read(self, found: isl.UnionMap) -> dict[Read, isl.UnionMap]:
        parts: dict[Read, isl.UnionMap] = {}
        for part in union_maps(found):
            reading = self.reads[source_identifier(part)]
            read, part = reading.read, with_source(part, reading.own)
            if reading.box is not None:
                part = part.intersect_domain(reading.box)
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


# ---- What reads see, statements of the reader's choice looked through.


DOUBLINGS = 5  # of the length of chains of copies that are followed
CHAINS = 400_000  # isl operations for that: each takes longer than the one before


class Seen:
    """The flow of a Scop, asked by reads. Call it inside ``bounded``."""

    def __init__(self, scop: Scop, flow: Flow, transparent: Iterable[Statement]) -> None:
        """``transparent`` statements hand on what they see: a read of theirs sees that."""
        self.scop = scop
        self.flow = flow
        self.transparent = tuple(transparent)
        self.inside = instances(scop, self.transparent)
        self.behind = self._look_through()  # of their instances: what they see, looked through

    def directly(self, reads: Iterable[Read]) -> isl.UnionMap:
        """Reading instances → the writing instances and initial elements that ``reads`` see."""
        result = isl.UnionMap.empty(parameter_space(self.scop))
        for read in reads:
            for part in (self.flow.sources.get(read), self.flow.initial.get(read)):
                result = result if part is None else result.union(part)
        return result

    def by(self, reads: Iterable[Read]) -> isl.UnionMap:
        """The same, with what transparent statements see in their place."""
        return self._resolved(self.directly(reads))

    def _resolved(self, seen: isl.UnionMap) -> isl.UnionMap:
        if not self.transparent:
            return seen
        behind = seen.intersect_range(self.inside).apply_range(self.behind)
        return seen.subtract_range(self.inside).union(behind)

    def _look_through(self) -> isl.UnionMap:
        """Instances of transparent statements → all that they see, none of them transparent."""
        step = self.directly(read for s in self.transparent for read in reads_of(s, folds=False))
        result = step
        for _ in self.transparent:
            if result.intersect_range(self.inside).is_empty():
                return result
            deeper = result.intersect_range(self.inside).apply_range(step)
            result = result.subtract_range(self.inside).union(deeper)
        if result.intersect_range(self.inside).is_empty():
            return result
        with bounded(CHAINS, "following values through copies that hand them on to one another"):
            return self._closed(step)

    def _closed(self, step: isl.UnionMap) -> isl.UnionMap:
        """The same where copies take turns (load, fold, store, load, …).

        What they see is the one relation that solves "what I see directly, and what is seen behind
        that": values come from the past, and no chain of copies is endless. isl guesses it; short
        chains are followed to their ends.
        """
        inwards, outwards = step.intersect_range(self.inside), step.subtract_range(self.inside)
        closure, _ = inwards.transitive_closure()
        result = outwards.union(closure.apply_range(outwards))
        if result.is_equal(outwards.union(inwards.apply_range(result))):
            return result
        for _ in range(DOUBLINGS):
            outwards = outwards.union(inwards.apply_range(outwards))
            inwards = inwards.apply_range(inwards)
            if inwards.is_empty():
                return outwards
        raise IllegalScheduleError(
            "WEFT-E0443",
            "it cannot be told where the values come from that copies hand on to one another",
            where=", ".join(s.name for s in self.transparent),
            why="each may copy what another one has copied before, and there is no closed form for "
            "where that begins",
            hint="copy in and out in an outer loop, so that no copy is copied again",
        )


def instances(scop: Scop, statements: Iterable[Statement]) -> isl.UnionSet:
    """All instances of ``statements``."""
    result = isl.UnionSet.empty(parameter_space(scop))
    for statement in statements:
        result = result.union(domain_set(scop, statement).to_union_set())
    return result


def reads_of(statement: Statement, folds: bool) -> list[Read]:
    """Every read of ``statement``; the implicit ones of its writes too unless it ``folds``."""
    numbers = list(range(len(statement.reads)))
    if not folds:
        for number, write in enumerate(statement.writes, start=len(numbers)):
            if statement.update is not None or write.may:
                numbers.append(number)
    return [Read(statement.name, number) for number in numbers]
