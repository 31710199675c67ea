"""Which barriers of a launch does the proof of races not need?

Two accesses of different threads to one element have to be kept apart by a barrier. Which pairs of
instances each barrier keeps apart is one relation for each pair of accesses, found once; a barrier
is idle where all that it alone keeps apart touches nothing in common. Asked about once, in the
order of the text, with those gone that were idle before.

What is said here is a proposal: races are proved anew, on the kernel without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import islpy as isl

from weft.ir.errors import BudgetError
from weft.ir.isl_context import bounded
from weft.ir.loop_ir import Barrier, Kernel
from weft.polyhedral.proof.gpu import (
    Access,
    Launch,
    Order,
    by_two_threads,
    launches_of,
    touching,
)

_BUDGET = 20_000_000  # isl operations for one launch
MOST = 32  # barriers of a launch that is looked at


def idle_barriers(kernel: Kernel) -> frozenset[int]:
    """The numbers, in the order of the text, of the barriers that ``kernel`` can do without; none
    of a launch that has races or many barriers, or exceeds a budget."""
    idle: set[int] = set()
    first = 0
    for launch in launches_of(kernel):
        fences = list(launch.reader.each(Barrier))
        try:
            with bounded(_BUDGET, f"the search for idle barriers of {kernel.name}"):
                idle |= {first + k for k in _idle(launch, fences)}
        except BudgetError:
            pass
        first += len(fences)
    return frozenset(idle)


def _idle(launch: Launch, fences: Sequence[isl.Set]) -> set[int]:
    kept = set(range(len(fences)))
    if not 0 < len(fences) <= MOST:
        return set()
    conflicts = list(_conflicts(launch, fences))
    if any(conflict.is_race() for conflict in conflicts):
        return set()
    for k in range(len(fences)):
        if not any(conflict.needs(k, kept - {k}) for conflict in conflicts):
            kept.remove(k)
    return set(range(len(fences))) - kept


@dataclass(frozen=True, slots=True)
class _Conflict:
    """``touching``: pairs of instances of two threads of a block that touch one element;
    ``moments``: all pairs of a block, whoever runs them; ``apart``: those of which a barrier is
    between the two, by barrier."""

    touching: isl.Map
    moments: isl.Map
    apart: Sequence[isl.Map]

    def is_race(self) -> bool:
        return not _less(self.moments, self.apart).intersect(self.touching).is_empty()

    def needs(self, k: int, others: set[int]) -> bool:
        """Whether barrier ``k`` keeps apart what none of the ``others`` does."""
        own = _less(self.apart[k], [self.apart[n] for n in sorted(others)])
        return not own.intersect(self.touching).is_empty()


def _less(pairs: isl.Map, more: Sequence[isl.Map]) -> isl.Map:
    return reduce(isl.Map.subtract, more, pairs)


def _conflicts(launch: Launch, fences: Sequence[isl.Set]) -> Iterator[_Conflict]:
    for one, other in launch.conflicting():
        pairs = by_two_threads(launch.reader, touching(one, other))
        if not pairs.is_empty():
            moments = launch.order.moments(one, other)
            after = _fenced(launch.order, one, moments, fences)
            before = _fenced(launch.order, other, moments.reverse(), fences)
            apart = [a.union(b.reverse()) for a, b in zip(after, before, strict=True)]
            yield _Conflict(pairs, moments, [moments.intersect(each) for each in apart])


def _fenced(
    order: Order, access: Access, pairs: isl.Map, fences: Sequence[isl.Set]
) -> Iterator[isl.Map]:
    """From ``access`` to what is behind each of ``fences`` after it, as far as ``pairs`` may be."""
    over, later = order.around(access, pairs)
    for fence in fences:
        yield over.intersect_range(fence).apply_range(later)
