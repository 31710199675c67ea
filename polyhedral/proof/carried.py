"""Which loop carries a dependence: the pairs still together, followed loop by loop inwards.

A tiled, skewed schedule has many loops but few different values: ``(i + t) // 64``, ``i + t``. What
a loop does to a dependence is therefore read off the distance Δ of such a value from source to
sink, over a set of pairs without floors, ``_loose``, which holds all pairs still together and
perhaps some more:

    Δ(v) >= 0          implies   Δ(v // T) >= 0
    Δ(v // T) = 0      implies   |Δ(v)| < T, and Δ(v - T * (v // T)) = Δ(v) further in
    Δ(v) + Δ(w) = 0    implies   Δ(v) = 0 and Δ(w) = 0, where neither is negative

Only what this leaves open is asked of the exact pairs, floors and all. The answers are exact.
"""

from __future__ import annotations

import islpy as isl

from weft.ir.named_isl import pair_aff
from weft.ir.scalar_affine import Affine, FloorDiv, Term, variable
from weft.ir.schedule_tree import Loop
from weft.polyhedral.proof.dependences import Dependence
from weft.polyhedral.proof.loop_distances import LoopDistances, Part, uniform

_equality = isl.Constraint.equality_from_aff
_inequality = isl.Constraint.inequality_from_aff


class Together:
    """The pairs of a dependence that agree in the loops entered so far.

    Call it inside ``bounded``.
    """

    def __init__(self, dependence: Dependence, distances: LoopDistances | None = None) -> None:
        self.dependence = dependence
        self._distances = distances or LoopDistances()
        self._ends = dependence.source, dependence.sink
        self._loose: isl.Set = dependence.map.wrap().flatten()
        self._exact: isl.Set = self._loose
        self._entered: list[Affine] = []  # distances that are 0, though not yet in _exact
        self._equal = _uniform(dependence)  # terms → equal ones
        self._limits: list[Affine] = []  # at least 0, though not yet in _loose
        self._never_negative: set[Affine] = set()
        self._none_left = False

    @property
    def pairs(self) -> isl.Set:
        """The pairs, flattened. Exact."""
        if self._none_left:
            self._exact = isl.Set.empty(self._exact.get_space())
            self._entered.clear()
        for distance in self._entered:
            self._exact = self._exact.add_constraint(_equality(self._aff(distance)))
        self._entered.clear()
        return self._exact

    def is_empty(self) -> bool:
        """Whether no pair is left. Exact."""
        self._limited()
        return self._none_left or self._loose.is_empty() or self.pairs.is_empty()

    def backward(self, loop: Loop) -> isl.Set | None:
        """The pairs whose sink ``loop`` runs in an earlier iteration than the source, if any."""
        distance = self._distance(loop)
        return None if self._at_least_zero(distance) else self._beyond(distance, -1)

    def carried(self, loop: Loop) -> isl.Set | None:
        """The pairs that ``loop`` runs in different iterations, if any."""
        distance = self._distance(loop)
        if self._zero(distance):
            return None
        back = self._beyond(distance, -1)
        return self._beyond(distance, 1) if back is None else back

    def enter(self, loop: Loop) -> bool:
        """Keep the pairs that ``loop`` runs in one iteration; False where they are clearly none."""
        distance = self._distance(loop)
        if distance.is_constant:
            self._none_left |= distance.constant != 0
            return not self._none_left
        self._entered.append(distance)
        pieces = self._distances.parts(distance)
        if pieces is not None and (
            len(pieces) == 1 or all(self._at_least_zero(piece.distance) for piece in pieces)
        ):
            for piece in pieces:
                self._enter(piece)
        return not self._none_left

    def _enter(self, part: Part) -> None:
        """Let ``part`` be 0."""
        distance, reach = self._known(part.distance), part.divisor - 1
        if part.left is not None and part.right is not None:
            self._let(part.left, Affine(((part.right, 1),)))
        if distance.is_constant:
            self._none_left |= abs(distance.constant) > reach
        elif not any(isinstance(term, FloorDiv) for term, _ in distance.terms):
            if part.divisor == 1:
                self._loose = self._loose.add_constraint(_equality(self._aff(distance)))
                self._none_left |= self._loose.is_empty()
                return
            self._limits += [distance.plus(reach), distance.scaled(-1).plus(reach)]

    def _let(self, term: Term, value: Affine) -> None:
        one = {term: value}
        self._equal = {old: known.replaced(one) for old, known in self._equal.items()} | one

    def _limited(self) -> bool:
        """Bring what floors leave of distances into ``_loose``; whether that is anything new."""
        limits, self._limits = self._limits, []
        for limit in limits:
            self._loose = self._loose.add_constraint(_inequality(self._aff(limit)))
        return bool(limits)

    # ---- distances ------------------------------------------------------------------------------

    def _distance(self, loop: Loop) -> Affine:
        return self._known(self._distances.of(loop, *self._ends))

    def _known(self, distance: Affine) -> Affine:
        """``distance``, simplified by what is known to be equal at both ends."""
        return distance.replaced(self._equal)

    def _zero(self, distance: Affine) -> bool:
        """Whether ``distance`` is certainly 0 for all pairs."""
        pieces = self._distances.parts(distance)
        return pieces is not None and all(
            self._at_least_zero(piece.distance) and self._at_least_zero(piece.distance.scaled(-1))
            for piece in pieces
        )

    def _at_least_zero(self, distance: Affine) -> bool:
        """Whether ``distance`` is certainly nowhere negative."""
        distance = self._known(distance)
        if distance.is_constant:
            return distance.constant >= 0 or self._none_left
        if distance in self._never_negative:
            return True
        pieces = self._distances.parts(distance)
        if pieces is None:
            return False
        if len(pieces) > 1 or pieces[0].divisor > 1:
            found = all(self._at_least_zero(piece.distance) for piece in pieces)
        else:
            negative = _inequality(self._aff(distance.scaled(-1).plus(-1)))
            found = self._loose.add_constraint(negative).is_empty() or (
                self._limited() and self._loose.add_constraint(negative).is_empty()
            )
        if found:
            self._never_negative.add(distance)
        return found

    def _beyond(self, distance: Affine, sign: int) -> isl.Set | None:
        """The exact pairs where ``distance`` has that sign, if any."""
        past = self._aff(distance.scaled(sign).plus(-1))
        found = self.pairs.add_constraint(_inequality(past))
        return None if found.is_empty() else found

    def _aff(self, distance: Affine) -> isl.Aff:
        return pair_aff(self._loose.get_space(), distance, self._ends[0].dims, self._ends[1].dims)


def _uniform(dependence: Dependence) -> dict[Term, Affine]:
    """Dims of the sink that are a constant away from a dim of the source, as that."""
    source, sink = frozenset(dependence.source.dims), frozenset(dependence.sink.dims)
    return {
        f"1 {after}": variable(f"0 {before}").plus(distance)
        for (before, after), distance in uniform(dependence, source, sink).items()
    }
