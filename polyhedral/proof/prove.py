"""The whole proof of one schedule: what every compilation asks, and ``weft check`` once more."""

from __future__ import annotations

from dataclasses import dataclass

from weft.ir.schedule_tree import Tree
from weft.ir.scop import Scop
from weft.polyhedral.proof.legality import check, check_bounds
from weft.polyhedral.proof.validation import validate


@dataclass(frozen=True, slots=True)
class Proof:
    """What was proved: so many ``statements`` run in an order that keeps so many ``dependences``,
    none of which has to be asked about where the order is that of the source."""

    statements: int
    dependences: int


def prove(original: Scop, scheduled: Scop, tree: Tree) -> Proof:
    """Prove that ``scheduled``, run as ``tree`` says, stays inside its tensors and computes what
    ``original`` does in its initial order, for all sizes in the context.

    Raises CompileError (WEFT-E0430) for an access outside its tensor, IllegalScheduleError as
    ``check`` and ``validate`` do, and BudgetError (WEFT-E0400) rather than running unbounded.
    """
    check_bounds(scheduled)
    dependences = check(scheduled, tree)
    validate(original, scheduled, tree)
    return Proof(len(scheduled.statements), dependences)
