"""A statement's instances in the coordinates of the loops around it: what some of them leave open.

The loops ``t // 32, (t + i) // 64, t, t + i`` have two coordinates, ``t`` and ``t + i``. Inside the
first two loops both are known up to 32 and 64 values, inside the third ``t`` is known, and so on.
How often a loop runs and how far an index reaches meanwhile are then sums and spans of coordinates.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import gcd, lcm

import islpy as isl

from weft.ir.isl_context import bounded
from weft.ir.named_isl import coordinate, domain_set, multi_aff, tuple_space
from weft.ir.quasi_affine import affine
from weft.ir.scalar_affine import Affine, FloorDiv
from weft.ir.schedule_times import paths
from weft.ir.schedule_tree import Loop, Tree
from weft.ir.scop import Scop, Statement
from weft.polyhedral.analysis.counting import Counter, Region, Unbounded, region
from weft.polyhedral.analysis.polynomials import Polynomial, number, of_affine, symbol

_LIMITS = 60  # constraints that a projection may come to


@dataclass(frozen=True, slots=True)
class Fixed:
    """What a loop around says: ``coordinate`` is known but for ``step`` values in a row."""

    coordinate: str
    step: Fraction


class NestCoordinates:
    """``statement`` under ``loops``, outermost first."""

    def __init__(self, statement: Statement, loops: Sequence[Loop], counter: Counter) -> None:
        self.statement = statement
        self._counter = counter
        self.names: list[str] = []
        self._stride: dict[str, Fraction] = {}  # distance of neighbouring values
        self._dims: dict[str, Polynomial] = {}  # what dims are, as far as it is known
        self.fixed = [self._enter(loop) for loop in loops]
        for dim in statement.dims:
            if dim not in self._dims:
                self._solve(f"dim {dim}", symbol(dim), dim)
        base = region(statement.domain)
        self._region = Region([self.of(limit) for limit in base.limits], base.share, base.exact)
        self._projected: dict[frozenset[str], list[Polynomial]] = {}
        self._sums: dict[tuple[frozenset[str], Polynomial], Polynomial] = {}
        self._spans: dict[tuple[frozenset[str], str], Polynomial] = {}
        for name in self.names:
            counter.typical.setdefault(name, self._middle(name))

    def of(self, form: Polynomial) -> Polynomial:
        """``form``, over the dims, over the coordinates."""
        for dim, value in self._dims.items():
            form = form.replaced(dim, value)
        return form

    def index(self, form: Affine) -> Polynomial:
        """An index, over the coordinates."""
        return self.of(of_affine(form)[0])

    def known(self, depth: int) -> dict[str, Fraction]:
        """Coordinates that the first ``depth`` loops fix → the values in a row that they leave."""
        found: dict[str, Fraction] = {}
        for fixed in self.fixed[:depth]:
            if fixed is not None:
                name, step = fixed.coordinate, max(fixed.step, self._stride[fixed.coordinate])
                found[name] = min(step, found.get(name, step))
        return found

    def summed(
        self, depth: int, weight: Polynomial | None = None, more: Collection[str] = ()
    ) -> Polynomial:
        """``weight`` (default 1), over the coordinates known and those of ``more``, summed over all
        iterations of the first ``depth`` loops, and all values of ``more``. Raises Unbounded."""
        known = self.known(depth) | {name: self._stride[name] for name in more}
        share = self._region.share
        for name, step in known.items():
            share /= max(step, self._stride[name])
        weight = number(1) if weight is None else weight
        if not weight.variables() & set(self.names):
            return self._sum(frozenset(known), number(1)) * weight * share
        return self._sum(frozenset(known), weight) * share

    def _sum(self, known: frozenset[str], weight: Polynomial) -> Polynomial:
        key = known, weight
        if key not in self._sums:
            names = [name for name in self.names if name in known]
            whole = Region(self._project(known), exact=self._region.exact)
            self._sums[key] = self._counter.total(names, whole, weight)
        return self._sums[key]

    def span(self, name: str, depth: int) -> Polynomial:
        """How many values in a row the coordinate takes in one iteration of the first ``depth``
        loops. Raises Unbounded."""
        known = self.known(depth)
        if name in known:
            return number(known[name])
        key = frozenset(known), name
        if key not in self._spans:
            limits = self._project(key[0] | {name})
            lows, highs, rest = self._counter.bounds(name, limits)
            if not lows or not highs:
                raise Unbounded(name)
            outer = [n for n in self.names if n in known]
            low = self._counter.tightest(lows, 1, outer, rest)
            high = self._counter.tightest(highs, -1, outer, rest)
            ranges = [last - first + 1 for last in high for first in low]
            self._spans[key] = min(ranges, key=self._counter.nominal)
        return self._spans[key]

    def _middle(self, name: str) -> float:
        lows, highs, _ = self._counter.bounds(name, self._project(frozenset({name})))
        if not lows or not highs:
            raise Unbounded(name)
        low, high = map(self._counter.nominal, lows), map(self._counter.nominal, highs)
        return (max(low) + min(high)) / 2

    def _enter(self, loop: Loop) -> Fixed | None:
        parts = _stepped(affine(loop.at[self.statement.name]), self.statement.dims)
        if parts is None:
            return None
        form, step = of_affine(parts[0])[0], Fraction(parts[1])
        content = _content(form, self.statement.dims)
        if content == 0:
            return None
        left = self.of(form / content)
        step /= content
        open_dims = [d for d in self.statement.dims if d in left.variables()]
        if open_dims:
            name = f"loop {loop.name}"
            self._solve(name, left, min(open_dims, key=lambda d: abs(left.slope(d)) != 1))
            return Fixed(name, step)
        return next(
            (
                Fixed(name, step / abs(left.slope(name)))
                for name in self.names
                if left.variables() & set(self.names) == {name}
            ),
            None,
        )

    def _solve(self, name: str, form: Polynomial, dim: str) -> None:
        """Let the coordinate ``name`` be ``form``, and work out ``dim`` from it."""
        factor = form.slope(dim)
        value = symbol(dim) + (symbol(name) - form) / factor
        self._dims = {d: old.replaced(dim, value) for d, old in self._dims.items()} | {dim: value}
        self.names.append(name)
        self._stride[name] = abs(factor)

    def _project(self, kept: frozenset[str]) -> list[Polynomial]:
        """The limits of the coordinates ``kept`` alone (Fourier-Motzkin)."""
        if kept not in self._projected:
            limits = self._region.limits
            for name in reversed(self.names):
                if name in kept or not any(name in x.variables() for x in limits):
                    continue
                exact = self._counter.exact
                lows, highs, rest = self._counter.bounds(name, limits)
                self._counter.exact = exact
                pairs = [high - low for low in lows for high in highs if high != low]
                limits = list(dict.fromkeys([*rest, *pairs]))[:_LIMITS]
            self._projected[kept] = limits
        return self._projected[kept]


def _stepped(form: Affine, dims: Sequence[str]) -> tuple[Affine, int] | None:
    """``v`` and ``T`` for a loop over ``v``, ``v // T`` or, inside that, ``v % T``; a sum of such
    quotients, a wavefront of tiles, counts as the quotient of the sum."""
    floors = [(t, c) for t, c in form.terms if isinstance(t, FloorDiv)]
    linear = Affine(tuple((t, c) for t, c in form.terms if isinstance(t, str)), form.constant)
    if not floors:
        return linear, 1
    if linear.variables() & set(dims):
        return linear, 1
    if any(isinstance(t, FloorDiv) for floor, _ in floors for t, _ in floor.numerator.terms):
        return None
    if len(floors) == 1:
        return floors[0][0].numerator, floors[0][0].divisor
    step, common = lcm(*(f.divisor for f, _ in floors)), gcd(*(c for _, c in floors))
    parts = (f.numerator.scaled(c // common * (step // f.divisor)) for f, c in floors)
    return sum(parts, Affine()), step


def _content(form: Polynomial, dims: Sequence[str]) -> Fraction:
    """The greatest number whose multiples all coefficients of ``dims`` are."""
    factors = [form.slope(d) for d in dims if d in form.variables()]
    if not factors:
        return Fraction()
    denominator = reduce(lambda a, b: a * b // gcd(a, b), (f.denominator for f in factors), 1)
    return Fraction(gcd(*(int(f * denominator) for f in factors)), denominator)


__all__ = ["Fixed", "NestCoordinates"]


# ---- How often a loop of a schedule turns, at most, for one iteration of the loops around it.


def trip_count(scop: Scop, tree: Tree, loop: str) -> int | None:
    """The greatest distance between two values of ``loop``, plus one; None if sizes decide.

    Exact for loops without gaps. Raises BudgetError (WEFT-E0400) rather than running unbounded.
    """
    with bounded(what="counting the iterations of a loop"):
        turns = _turns(scop, tree, loop)
        if turns is None or turns.is_empty():
            return 0
        together = turns.reverse().apply_range(turns).deltas()
        most = together.max_val(coordinate(together.get_space()))
    return most.to_python() + 1 if most.is_int() else None


def _turns(scop: Scop, tree: Tree, loop: str) -> isl.Map | None:
    """Values of the loops around ``loop`` → its values, over all statements inside."""
    found: isl.Map | None = None
    for name, path in paths(tree).items():
        loops = [entry for entry in path if isinstance(entry, Loop)]
        place = next((k for k, entry in enumerate(loops) if entry.name == loop), None)
        if place is None:
            continue
        statement = scop.statement(name)
        values = [affine(entry.at[name]) for entry in loops[: place + 1]]
        outer = multi_aff(scop, statement, values[:-1], tuple_space(scop, "", place))
        inner = multi_aff(scop, statement, values[-1:], tuple_space(scop, "", 1))
        domain = domain_set(scop, statement)
        times = isl.Map.from_multi_aff(outer).intersect_domain(domain).reverse()
        part = times.apply_range(isl.Map.from_multi_aff(inner))
        found = part if found is None else found.union(part)
    return found
