"""The last write before each read, of one tensor: found by isl, then checked.

isl's ``compute_flow`` has been seen to be wrong: to take an earlier write for the last one, and to
forget reads, where its maps have redundant constraints; so has ``lexmax``, which it builds upon.
What it finds is believed only where unions, differences and emptiness confirm it:

1. what is seen was written before, to the element that is read;
2. no other write of the element comes between;
3. a read that sees no write has none before it, and there is no other;
4. contributions that are not seen are hidden by a later write.

That decides: of different answers one at most meets all four. Where isl gives none or a wrong one,
all that was written before, less what is hidden, has to meet them. Where that takes too long, of a
hundred accesses to one tensor, only this is asked: that no read is lost.

isl is not asked for the last write where no write hides another: then all of them are seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import islpy as isl

from weft.ir.errors import BudgetError
from weft.ir.isl_context import bounded
from weft.ir.named_isl import source_identifier, target_identifier, union_maps
from weft.ir.schedule_times import runs_before

CHECK = 200_000  # isl operations; programs of some statements take a tenth of that
_T = TypeVar("_T")
UNDECIDED = "affine expression involves some of the domain dimensions"


@dataclass(frozen=True, slots=True, eq=False)
class Uses:
    """Who touches which elements of a tensor, and when: instances → elements; all → times."""

    reads: isl.UnionMap
    writes: isl.UnionMap  # which hide all that was there before
    contributions: isl.UnionMap  # which hide nothing
    times: isl.UnionMap  # functions; reads are different tuples than writes


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """``seen``: writing instance → [reading instance → element], for the last write and all
    contributions since; ``initial``: reading instance → elements that no write came before."""

    seen: isl.UnionMap
    initial: isl.UnionMap


def last_writes(uses: Uses) -> Answer:
    """What each read sees. Call it inside ``bounded``.

    Raises BudgetError (WEFT-E0402) where isl cannot tell.
    """
    order = _in_time(lambda: _Order(uses))
    if order is not None and _in_time(order.hides_nothing):
        return order.everything()
    found = _by_analysis(uses)
    if found is not None:
        right = None if order is None else _in_time(partial(order.confirms, found))
        if right or (right is None and _is_whole(uses, found)):
            return found
    order = order or _Order(uses)
    found = _by_difference(uses, order)
    if order.confirms(found):
        return found
    raise BudgetError(
        "WEFT-E0402",
        "isl cannot work out which values are read",
        why="two ways to find the last write before each read give no answer that is right",
        hint="simplify index expressions with // and %, or the schedule",
    )


def _by_analysis(uses: Uses) -> Answer | None:
    """isl's answer. It fails on some maps with existentials."""
    problem = isl.UnionAccessInfo.from_sink(uses.reads.remove_redundancies())
    problem = problem.set_must_source(uses.writes.remove_redundancies())
    problem = problem.set_may_source(uses.contributions.remove_redundancies())
    try:
        found = problem.set_schedule_map(uses.times).compute_flow()
    except isl.Error as error:
        if UNDECIDED not in str(error):
            raise
        return None
    return Answer(found.get_full_may_dependence(), found.get_may_no_source())


def _by_difference(uses: Uses, order: _Order) -> Answer:
    """All that was written before but what a later write hides."""
    written = order.written.subtract(order.hidden(order.written))
    contributed = order.contributed.subtract(order.hidden(order.contributed))
    return Answer(written.union(contributed), uses.reads.subtract(order.written.range().unwrap()))


def _in_time(ask: Callable[[], _T]) -> _T | None:
    """``ask()``; None where that takes too long."""
    try:
        with bounded(CHECK, "the check of the dataflow analysis"):
            return ask()
    except BudgetError:
        return None


def _is_whole(uses: Uses, answer: Answer) -> bool:
    """Whether each read sees a write, or is said to see none."""
    written = answer.seen.intersect_domain(uses.writes.domain()).range().unwrap()
    return uses.reads.is_subset(written.union(answer.initial))


class _Order:
    """Pairs of uses of an element in the order in which they run."""

    def __init__(self, uses: Uses) -> None:
        self.uses = uses
        self._times = {source_identifier(part): part for part in union_maps(uses.times)}
        self._order: dict[tuple[str, str], isl.Map] = {}
        self.written = self._before_reads(uses.writes)
        self.contributed = self._before_reads(uses.contributions)

    def _before_reads(self, touched: isl.UnionMap) -> isl.UnionMap:
        """Instance → [reading instance → element] for all that touch the element before."""
        pairs = self._in_order(touched.apply_range(self.uses.reads.reverse()))
        return pairs.range_product(touched).intersect_range(self.uses.reads.wrap())

    def _in_order(self, pairs: isl.UnionMap) -> isl.UnionMap:
        """Those of ``pairs`` of instances that run in that order."""
        found = []
        for part in union_maps(pairs):
            names = source_identifier(part), target_identifier(part)
            if names not in self._order:
                self._order[names] = runs_before(*(self._times[name] for name in names))
            found.append(part.intersect(self._order[names]).to_union_map())
        while len(found) > 1:  # in a tree, since each union copies what it joins
            odd = found[len(found) & ~1 :]
            found = [a.union(b) for a, b in zip(found[::2], found[1::2], strict=False)] + odd
        return found[0] if found else isl.UnionMap.empty(pairs.get_space())

    def hides_nothing(self) -> bool:
        """Whether no write comes between another use and a read of its element."""
        return self._is_last(self.written) and self._is_last(self.contributed)

    def everything(self) -> Answer:
        """All that was written before."""
        initial = self.uses.reads.subtract(self.written.range().unwrap())
        return Answer(self.written.union(self.contributed), initial)

    def hidden(self, before: isl.UnionMap) -> isl.UnionMap:
        """What of ``before``, a part of ``written`` or ``contributed``, a write hides that comes
        between it and the read; and pairs that are no part of either."""
        later = self._in_order(before.apply_range(self.written.reverse()))
        return later.apply_range(self.written)

    def confirms(self, answer: Answer) -> bool:
        """Whether ``answer`` is what reads see."""
        return (
            self._is_earlier(answer.seen)
            and self._is_last(answer.seen)
            and _is_whole(self.uses, answer)
            and self._is_initial(answer.initial)
            and self._are_all(answer.seen)
        )

    def _is_earlier(self, seen: isl.UnionMap) -> bool:
        return seen.is_subset(self.written.union(self.contributed))

    def _is_last(self, seen: isl.UnionMap) -> bool:
        return self._in_order(seen.apply_range(self.written.reverse())).is_empty()

    def _are_all(self, seen: isl.UnionMap) -> bool:
        missing = self.contributed.subtract(seen)
        return missing.is_subset(self.hidden(missing))

    def _is_initial(self, initial: isl.UnionMap) -> bool:
        return self.written.range().unwrap().intersect(initial).is_empty()
