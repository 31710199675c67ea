"""Where the steps of a statement keep clear of a tile that they end at.

for k < i: S(i, k), i in tiles of 8   →   k < 8·(i//8): every row of the tile has these steps
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.frontend.scalar_expr import Expr, literal
from weft.polyhedral.analysis.linear import linear, mentions
from weft.polyhedral.scop import Constraint, Statement


def beyond_tile(
    statement: Statement, stream: Sequence[str], tiled: Sequence[tuple[Expr, int]]
) -> tuple[Constraint, ...]:
    """Where ``stream`` keeps clear of the tile: every constraint that ties it to a tiled value
    holds for the whole tile. ``tiled``: (dim, tile size)."""
    found = []
    for constraint in statement.domain:
        if not any(mentions(constraint.expr, (d,)) for d in stream):
            continue
        worst = constraint.expr
        form = linear(worst, statement.dims)
        if form is None or constraint.equality:
            continue
        changed = False
        for value, size in tiled:
            factor = form.coefficients.get(getattr(value, "name", ""), 0)
            if factor == 0:
                continue
            # The value is its tile's first, plus something between 0 and size - 1.
            least = value // size * size
            worst = worst - value * factor + least * factor
            worst = worst + (literal(factor * (size - 1)) if factor < 0 else literal(0))
            changed = True
        if changed:  # k <= j: a step k that is a value j of the tile is not clear of it
            meets = form.rest == literal(0)
            found.append(Constraint(worst - 1 if meets else worst))
    return tuple(found)
