"""What reads see, statements of the reader's choice looked through."""

from __future__ import annotations

from collections.abc import Iterable

import islpy as isl

from weft.errors import IllegalScheduleError
from weft.polyhedral.analysis.flow import Flow, Read
from weft.polyhedral.isl_context import bounded
from weft.polyhedral.named_isl import domain_set, parameter_space
from weft.polyhedral.scop import Scop, Statement

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
