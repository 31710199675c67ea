"""Which loop carries a dependence: the pairs still together, followed loop by loop inwards."""

from __future__ import annotations

import islpy as isl

from weft.frontend.scalar_affine import Affine
from weft.polyhedral.analysis.delta_box import Distances
from weft.polyhedral.analysis.dependences import Dependence
from weft.polyhedral.analysis.quasi_affine import affine
from weft.polyhedral.named_isl import difference
from weft.polyhedral.schedule_tree import Loop

_equality = isl.Constraint.equality_from_aff
_inequality = isl.Constraint.inequality_from_aff


class Together:
    """The pairs of a dependence that agree in the loops entered so far.

    Call it inside ``named_isl.bounded``. Constant distances need no isl.
    """

    def __init__(self, dependence: Dependence) -> None:
        self.dependence = dependence
        self.pairs: isl.Set = dependence.map.wrap().flatten()
        self._distances = Distances(dependence)
        self._forms: dict[str, tuple[Affine, Affine]] = {}  # by the name of the loop

    def backward(self, loop: Loop) -> isl.Set | None:
        """The pairs whose sink ``loop`` runs in an earlier iteration than the source, if any."""
        return self._beyond(loop, -1)

    def carried(self, loop: Loop) -> isl.Set | None:
        """The pairs that ``loop`` runs in different iterations, if any."""
        back = self._beyond(loop, -1)
        return self._beyond(loop, 1) if back is None else back

    def enter(self, loop: Loop) -> bool:
        """Keep the pairs that ``loop`` runs in one iteration; whether there are any."""
        constant = self._constant(loop)
        if constant is None:
            self.pairs = self.pairs.add_constraint(_equality(self._delta(loop)))
        elif constant != 0:
            self.pairs = isl.Set.empty(self.pairs.get_space())
        return not self.pairs.is_empty()

    def _beyond(self, loop: Loop, sign: int) -> isl.Set | None:
        constant = self._constant(loop)
        if constant is not None:
            return self.pairs if constant * sign > 0 and not self.pairs.is_empty() else None
        past = self._delta(loop).scale_val(sign).add_constant_val(-1)
        found = self.pairs.add_constraint(_inequality(past))
        return None if found.is_empty() else found

    def _constant(self, loop: Loop) -> int | None:
        return self._distances.constant(*self._at(loop))

    def _delta(self, loop: Loop) -> isl.Aff:
        source, sink = self.dependence.source, self.dependence.sink
        before, after = self._at(loop)
        space = self.pairs.get_space()
        return difference(space, (before, source.dims), (after, sink.dims))

    def _at(self, loop: Loop) -> tuple[Affine, Affine]:
        """The value of ``loop`` at the source and at the sink."""
        if loop.name not in self._forms:
            source, sink = self.dependence.source.name, self.dependence.sink.name
            self._forms[loop.name] = affine(loop.at[source]), affine(loop.at[sink])
        return self._forms[loop.name]
