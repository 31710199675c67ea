"""One arena for all intermediates: offsets such that no two live values overlap.

Best fit over liveness intervals, tried in two orders (largest first, as in TensorFlow Lite's
"greedy by size", and in order of execution), keeping the smaller arena.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np

from weft.ir.errors import InternalError
from weft.ir.program import ALIGNMENT
from weft.ir.scalar_expr import Expr, literal
from weft.ir.scalar_polynomial import from_polynomial, polynomial
from weft.ir.tensor_expr import Size, as_size


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A value of ``bytes`` (0 or more), live from step ``first`` to ``last``, both included."""

    name: str
    bytes: Size
    first: int
    last: int


def plan(lifetimes: Sequence[Lifetime]) -> tuple[dict[str, Expr], Expr]:
    """(byte offsets by name, size of the arena); offsets are multiples of 64, integers literals.

    Values of integer size share one region. Values whose size is a multiple of one product of
    symbols share a region of their own, planned in units of that product, or of the cache lines
    that a power of 2 times it fills; regions are stacked.
    Deterministic, and verified before it returns. Raises ``InternalError`` (E0310) where two
    lifetimes have one name or one ends before it starts.
    """
    _check(lifetimes)
    regions: dict[str, tuple[Expr, list[tuple[Lifetime, int]]]] = {}
    for lifetime in lifetimes:
        unit, count = _in_units(lifetime.bytes)
        _, members = regions.setdefault(repr(unit), (unit, []))
        members.append((lifetime, count))
    offsets: dict[str, Expr] = {}
    base: Expr = literal(0)
    for unit, members in regions.values():
        places, used = _best_of_two(members)
        verify_places(members, places)
        for (lifetime, _), place in zip(members, places, strict=True):
            offsets[lifetime.name] = base + unit * place
        base = base + unit * used
    return {t.name: offsets[t.name] for t in lifetimes}, base


def _check(lifetimes: Sequence[Lifetime]) -> None:
    seen: set[str] = set()
    for t in lifetimes:
        if t.name in seen or t.last < t.first:
            raise InternalError(
                "WEFT-E0310", f"lifetime {t}", why="a name twice, or an empty interval"
            )
        seen.add(t.name)


# ---- symbolic sizes -----------------------------------------------------------------------------


def _in_units(size: Size) -> tuple[Expr, int]:
    """(unit, count): at least ``size`` bytes as count · unit, count being a multiple of 64."""
    terms = polynomial(as_size(size))
    if len(terms) <= 1:
        ((monomial, coefficient),) = terms.items() or [((), 0)]
        part = gcd(coefficient, ALIGNMENT)
        if not monomial or part == ALIGNMENT:
            return from_polynomial({monomial: 1}), aligned(coefficient)
        return _lines(from_polynomial({monomial: part})), coefficient // part * ALIGNMENT
    if all(coefficient >= 0 for coefficient in terms.values()):
        blocks = {m: aligned(c) // ALIGNMENT for m, c in terms.items()}
        return from_polynomial(blocks), ALIGNMENT
    return _lines(as_size(size)), ALIGNMENT


def _lines(size: Size) -> Expr:
    """How many times 64 bytes it takes to hold ``size``."""
    return (as_size(size) + (ALIGNMENT - 1)) // ALIGNMENT


def aligned(n_bytes: int) -> int:
    return -(-n_bytes // ALIGNMENT) * ALIGNMENT


# ---- one region ---------------------------------------------------------------------------------

Members = Sequence[tuple[Lifetime, int]]


def _best_of_two(members: Members) -> tuple[list[int], int]:
    """The places of ``members`` in their region, and its size, in units."""
    by_size = sorted(range(len(members)), key=lambda n: (-members[n][1], members[n][0].first, n))
    by_step = sorted(range(len(members)), key=lambda n: (members[n][0].first, -members[n][1], n))
    found = [_place(members, order) for order in (by_size, by_step)]
    return min(found, key=lambda result: result[1])


def _place(members: Members, order: Sequence[int]) -> tuple[list[int], int]:
    """Each member in ``order`` into the smallest gap that fits between those that it meets."""
    first = np.array([t.first for t, _ in members], np.int64)
    last = np.array([t.last for t, _ in members], np.int64)
    size = np.array([count for _, count in members], np.int64)
    place = np.full(len(members), -1, np.int64)
    for n in order:
        met = np.flatnonzero((place >= 0) & (size > 0) & (first <= last[n]) & (last >= first[n]))
        starts = place[met]
        ascending = np.argsort(starts, kind="stable")
        starts, ends = starts[ascending], (starts + size[met])[ascending]
        tops = np.concatenate([[0], np.maximum.accumulate(ends)])  # free from here …
        gaps = starts - tops[:-1]  # … for so much
        fits = np.flatnonzero(gaps >= size[n])
        place[n] = tops[fits[np.argmin(gaps[fits])]] if len(fits) else tops[-1]
    return place.tolist(), int((place + size).max(initial=0))


def verify_places(members: Members, places: Sequence[int]) -> None:
    """Raise ``InternalError`` (E0311) where two live values overlap or one is not aligned.

    A sweep over the steps, with the live intervals ordered by their place: linear but for the sort.
    """
    events: list[tuple[int, int, int]] = []
    for n, (lifetime, count) in enumerate(members):
        if places[n] % ALIGNMENT or places[n] < 0:
            raise InternalError("WEFT-E0311", f"{lifetime.name} at {places[n]} is not aligned")
        if count:
            events += [(lifetime.first, 1, n), (lifetime.last + 1, 0, n)]  # ends before starts
    live: list[tuple[int, int]] = []  # (place, member), ascending
    for _, starts, n in sorted(events):
        if not starts:
            live.remove((places[n], n))
            continue
        at = bisect_left(live, (places[n], n))
        below = [live[at - 1]] if at else []
        for place, other in below + live[at : at + 1]:
            if place < places[n] + members[n][1] and places[n] < place + members[other][1]:
                names = members[n][0].name, members[other][0].name
                raise InternalError("WEFT-E0311", f"{names[0]} and {names[1]} overlap in the arena")
        live.insert(at, (places[n], n))
