"""The Δ-box of a dependence: how far apart sink and source are in each of some loops.

It answers most questions about a band at once, for a dependence from S to T and a loop:

    Δ = 0 in all loops            S and T may be fused there, and every loop stays parallel
    Δ >= 0 in all loops           the loops are permutable and may be tiled together
    min Δ = -3                    T must run 3 iterations later (shift), or S is recomputed (halo)
    min Δ > 0                     this loop alone carries the dependence
    None                          no bound: not a constant distance
"""

from __future__ import annotations

from dataclasses import dataclass

import islpy as isl

from weft.ir.errors import BudgetError
from weft.ir.isl_context import bounded
from weft.ir.named_isl import difference
from weft.ir.quasi_affine import affine
from weft.ir.scalar_affine import Affine, FloorDiv, Term
from weft.ir.scalar_expr import Expr
from weft.ir.schedule_tree import Loop
from weft.ir.scop import Statement
from weft.polyhedral.analysis.dependences import Dependence

Range = tuple[int | None, int | None]
DISTANCE = 20  # steps that one question to isl counts as


@dataclass(slots=True)
class Quota:
    """Steps that a search may take in all: the same on every machine, unlike seconds."""

    left: int

    def spend(self, steps: int) -> None:
        """Raises BudgetError (WEFT-E0477) when none are left."""
        self.left -= steps
        if self.left < 0:
            raise BudgetError(
                "WEFT-E0477",
                "the scheduler has used up its budget of steps",
                why="many statements depend on each other, and many loops could order them",
                hint="split the kernel in two, or give it a schedule",
            )


class Distances:
    """Distances over one dependence; what its accesses say about them is worked out once."""

    def __init__(
        self, dependence: Dependence, pairs: isl.Set | None = None, quota: Quota | None = None
    ) -> None:
        """``pairs``: the flattened pairs that count, by default all; ``quota``: what questions to
        isl are charged to."""
        self.dependence = dependence
        self.quota = quota
        self._dims = frozenset(dependence.source.dims), frozenset(dependence.sink.dims)
        self._known = uniform(dependence, *self._dims)
        self._pairs = pairs

    def within(self, source: Expr, sink: Expr) -> Distances | None:
        """The distances over those pairs only for which the two values are equal; None: none."""
        before, after = affine(source), affine(sink)
        constant = self.constant(before, after)
        if constant is not None:
            return self if constant == 0 else None
        self._charge()
        space = self._flattened().get_space()
        dims = self.dependence.source.dims, self.dependence.sink.dims
        with bounded(what="the analysis of dependence distances"):
            delta = difference(space, (before, dims[0]), (after, dims[1]))
            equal = self._flattened().add_constraint(isl.Constraint.equality_from_aff(delta))
            return None if equal.is_empty() else Distances(self.dependence, equal, self.quota)

    def _charge(self) -> None:
        if self.quota is not None:
            self.quota.spend(DISTANCE)

    def _flattened(self) -> isl.Set:
        if self._pairs is None:
            self._pairs = self.dependence.map.wrap().flatten()
        return self._pairs

    def between(self, source: Expr, sink: Expr) -> Range:
        """(min, max) of ``sink`` at the sink minus ``source`` at the source, over all pairs.

        Exact; None where it is unbounded. Raises BudgetError (WEFT-E0400, or
        WEFT-E0477 from the quota) rather than running on.
        """
        before, after = affine(source), affine(sink)
        constant = self.constant(before, after)
        if constant is not None:
            return constant, constant
        self._charge()
        pairs = self._flattened()
        with bounded(what="the analysis of dependence distances"):
            source_dims, sink_dims = self.dependence.source.dims, self.dependence.sink.dims
            delta = difference(pairs.get_space(), (before, source_dims), (after, sink_dims))
            return _finite(pairs.min_val(delta)), _finite(pairs.max_val(delta))

    def constant(self, before: Affine, after: Affine) -> int | None:
        """``after - before`` if the accesses alone show that it is one number for all pairs."""
        total = after.constant - before.constant
        if len(before.terms) != len(after.terms):
            return None
        left = list(after.terms)
        for atom, coefficient in before.terms:
            for partner in left:
                shift = self._shift(atom, partner[0]) if partner[1] == coefficient else None
                if shift is not None:
                    total += coefficient * shift
                    left.remove(partner)
                    break
            else:
                return None
        return total

    def _shift(self, before: Term, after: Term) -> int | None:
        match before, after:
            case str(), str():
                if before in self._dims[0] or after in self._dims[1]:
                    return self._known.get((before, after))
                return 0 if before == after else None  # one parameter
            case FloorDiv(numerator, divisor), FloorDiv(other, same) if divisor == same:
                shift = self.constant(numerator, other)
                exact = shift is not None and shift % divisor == 0
                return shift // divisor if shift is not None and exact else None
        return None


def uniform(
    dependence: Dependence, source_dims: frozenset[str], sink_dims: frozenset[str]
) -> dict[tuple[str, str], int]:
    """(dim of the source, dim of the sink) → their constant distance, from equal indices.

    ``A[2 * i + n]`` written and ``A[2 * j + n - 6]`` read means j - i = 3.
    """
    write, read = dependence.source_access, dependence.sink_access
    found: dict[tuple[str, str], int] = {}
    if write.may or read.may:
        return found
    for left, right in zip(map(affine, write.indices), map(affine, read.indices), strict=True):
        one, two = _single(left, source_dims), _single(right, sink_dims)
        if one and two and one[1:] == two[1:]:
            found[one[0], two[0]] = (left.constant - right.constant) // one[1]
    return found


def _single(
    form: Affine, dims: frozenset[str]
) -> tuple[str, int, tuple[tuple[Term, int], ...]] | None:
    """(dim, coefficient, parameter terms) of a form with one dim outside floors and none inside."""
    own = [(atom, c) for atom, c in form.terms if isinstance(atom, str) and atom in dims]
    rest = tuple(term for term in form.terms if term not in own)
    if len(own) != 1 or Affine(rest).variables() & dims:
        return None
    return str(own[0][0]), own[0][1], rest


def _finite(value: isl.Val) -> int | None:
    return value.to_python() if value.is_int() else None


# ---- How far apart a loop runs the two ends of a pair of instances, as one expression over both.
#
# In these expressions a dim ``i`` of the source is called ``0 i``, one of the sink ``1 i``, and a
# parameter ``n`` is called ``p n``, so that no two of them can be confused.


class LoopDistances:
    """What loops do to pairs of instances, each worked out once for a pair of statements."""

    def __init__(self) -> None:
        self._values: dict[tuple[int, str, str], Affine] = {}
        self._distances: dict[tuple[int, str, str], Affine] = {}
        self._parts: dict[Affine, tuple[Part, ...] | None] = {}
        self._loops: list[Loop] = []  # stay alive, so that their ids stay theirs

    def of(self, loop: Loop, source: Statement, sink: Statement) -> Affine:
        """The value of ``loop`` at the sink minus that at the source."""
        key = (id(loop), source.name, sink.name)
        if key not in self._distances:
            self._loops.append(loop)
            self._distances[key] = self._at(loop, sink, "1") - self._at(loop, source, "0")
        return self._distances[key]

    def parts(self, distance: Affine) -> tuple[Part, ...] | None:
        """``parts``, remembered."""
        if distance not in self._parts:
            self._parts[distance] = parts(distance)
        return self._parts[distance]

    def _at(self, loop: Loop, statement: Statement, end: str) -> Affine:
        key = (id(loop), statement.name, end)
        if key not in self._values:
            value = affine(loop.at[statement.name])
            self._values[key] = _renamed(value, frozenset(statement.dims), end)
        return self._values[key]


def _renamed(form: Affine, dims: frozenset[str], end: str) -> Affine:
    def rename(term: Term) -> Term:
        if isinstance(term, str):
            return f"{end} {term}" if term in dims else f"p {term}"
        return FloorDiv(_renamed(term.numerator, dims, end), term.divisor)

    return Affine(tuple((rename(t), c) for t, c in form.terms), form.constant)


@dataclass(frozen=True, slots=True)
class Part:
    """``factor * (left // T - right // T)``, factor > 0, where ``distance`` is left - right.

    Where there are no such floors, ``distance`` itself.
    """

    distance: Affine
    left: FloorDiv | None = None
    right: FloorDiv | None = None

    @property
    def divisor(self) -> int:
        return self.left.divisor if self.left is not None else 1


def parts(distance: Affine) -> tuple[Part, ...] | None:
    """``distance`` as a sum of positive multiples of parts; None if a floor is left alone."""
    floors = [(t, c) for t, c in distance.terms if isinstance(t, FloorDiv)]
    rest = tuple((t, c) for t, c in distance.terms if isinstance(t, str))
    found = [Part(Affine(rest, distance.constant))] if rest or distance.constant else []
    while floors:
        one, factor = floors.pop(0)
        other = next((t for t, c in floors if c == -factor and t.divisor == one.divisor), None)
        if other is None:
            return None
        floors.remove((other, -factor))
        left, right = (one, other) if factor > 0 else (other, one)
        found.append(Part(left.numerator - right.numerator, left, right))
    return tuple(found)
