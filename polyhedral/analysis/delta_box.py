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
from weft.polyhedral.proof.dependences import Dependence
from weft.polyhedral.proof.loop_distances import uniform

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
    """Distances over one dependence; what its accesses say about them, and each answer, is worked
    out once, whoever asks."""

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
        self._between: dict[tuple[Expr, Expr], Range] = {}
        self._within: dict[tuple[Expr, Expr], Distances | None] = {}

    def within(self, source: Expr, sink: Expr) -> Distances | None:
        """The distances over those pairs only for which the two values are equal; None: none."""
        if (source, sink) not in self._within:
            self._within[source, sink] = self._restricted(affine(source), affine(sink))
        return self._within[source, sink]

    def between(self, source: Expr, sink: Expr) -> Range:
        """(min, max) of ``sink`` at the sink minus ``source`` at the source, over all pairs.

        Exact; None where it is unbounded. Raises BudgetError (WEFT-E0400, or
        WEFT-E0477 from the quota) rather than running on.
        """
        if (source, sink) not in self._between:
            self._between[source, sink] = self._extremes(affine(source), affine(sink))
        return self._between[source, sink]

    def _restricted(self, before: Affine, after: Affine) -> Distances | None:
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

    def _extremes(self, before: Affine, after: Affine) -> Range:
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


def _finite(value: isl.Val) -> int | None:
    return value.to_python() if value.is_int() else None
