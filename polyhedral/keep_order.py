"""Keep order: floating-point sums are no longer free to be reordered (``Options.strict``).

    update add over k, associative and commutative   →   update add over k, in the order of k

The laws of a monoid are what dependences, legality and emitters go by, so that without them the
contributions of one element are folded in the initial order on every schedule, whatever the vector
length and the number of threads. Integers keep theirs: their folds are exact.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.scop import Scop, Statement


def keep_order(scop: Scop) -> Scop:
    """``scop`` with no law for the folds that have a component of float dtype."""
    return replace(scop, statements=tuple(map(_in_order, scop.statements)))


def _in_order(statement: Statement) -> Statement:
    update = statement.update
    if update is None or not any(dtype.is_float for dtype in update.monoid.dtypes):
        return statement
    monoid = replace(update.monoid, laws=frozenset())
    return replace(statement, update=replace(update, monoid=monoid))
