"""How much arithmetic one instance of a statement does, in multiply-adds, for cost models."""

from __future__ import annotations

from weft.ir.scalar_expr import Apply, Expr, walk
from weft.ir.scop import Statement

FUNCTION = 12.0  # a mathematical function as a vector polynomial
_CHEAP = {"neg": 1.0, "abs": 1.0, "not": 1.0, "floor": 1.0, "ceil": 1.0, "round": 1.0, "trunc": 1.0}
_COSTLY = {"div": 4.0, "sqrt": 4.0, "floordiv": 8.0, "mod": 8.0, "rem": 8.0, "truncdiv": 8.0}


def operations(statement: Statement) -> float:
    """Arithmetic operations of one instance, that of combining an update included."""
    bodies = (*(e for _, e in statement.body.lets), *statement.body.results)
    total = 1.0 if statement.update is not None else 0.0
    return total + sum(_weight(node) for e in bodies for node in walk(e))


def _weight(node: Expr) -> float:
    if not isinstance(node, Apply):
        return 0.0
    if node.op in _COSTLY:
        return _COSTLY[node.op]
    if len(node.args) == 2:
        return FUNCTION if node.op in ("pow", "atan2") else 1.0
    return _CHEAP.get(node.op, FUNCTION)


# ---- Row tiles: how many rows of an intermediate go together so that they stay in a cache.
#
#     S = A * B; T = f(S); Y = T * C   →   for i_t: { S[i_t] = A[i_t] * B; … ; Y[i_t] = T[i_t] * C }
#
# Closed forms over bytes: what a tile leaves in the cache does not go through memory, what every
# tile reads (``held``: B and C) has to stay there as well, or comes again for each of them.


LEAST_ROWS = 16  # of a tile: fewer and operands are hardly used again


def rows_in_cache(near: int, rows: int, row: int, held: int) -> int:
    """How many of ``rows``, each of ``row`` bytes, go through a cache of ``near`` bytes at once,
    while all of them use the same ``held`` bytes; 0 where that moves no less than all rows
    written once and read once do."""
    stays = 2 * held <= near
    room = near - near // 4 - held if stays else near // 2
    most = min(rows, room // max(row, 1))
    if most < min(rows, LEAST_ROWS):
        return 0
    again = 0 if stays else (-(-rows // most) - 1) * held
    return most if again <= rows * row else 0
