"""How long the arithmetic of a statement is as code, for bounds on what is inlined and written
out."""

from __future__ import annotations

from weft.ir.scalar_expr import Apply, Expr, walk
from weft.ir.scop import Statement

# Multiply-adds that an operation is as long as; a mathematical function is a polynomial.
FUNCTION = 12.0
_CHEAP = {"neg": 1.0, "abs": 1.0, "not": 1.0, "floor": 1.0, "ceil": 1.0, "round": 1.0, "trunc": 1.0}
_COSTLY = {"div": 4.0, "sqrt": 4.0, "floordiv": 8.0, "mod": 8.0, "rem": 8.0, "truncdiv": 8.0}


def operations(statement: Statement) -> float:
    """Arithmetic operations of one instance, that of combining an update included."""
    bodies = statement.body.expressions
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


# ---- Row tiles: how many rows of an intermediate stay in a cache from producer to consumer.
#
#     S = A * B; T = f(S); Y = T * C   →   for i_t: { S[i_t] = A[i_t] * B; … ; Y[i_t] = T[i_t] * C }
#
# In bytes: the rows of a tile do not go through memory; what every tile reads (``held``: B and C)
# has to stay in the cache as well, or is read again for each of them.


LEAST_ROWS = 16  # of a tile: with fewer, operands are hardly reused


def rows_in_cache(cache: int, rows: int, row: int, held: int) -> int:
    """How many of ``rows``, each of ``row`` bytes, stay in a ``cache`` of so many bytes at a time,
    while all of them read the same ``held`` bytes; 0 if that moves no fewer bytes than writing and
    reading all rows once."""
    stays = 2 * held <= cache
    room = cache - cache // 4 - held if stays else cache // 2
    most = min(rows, room // max(row, 1))
    if most < min(rows, LEAST_ROWS):
        return 0
    again = 0 if stays else (-(-rows // most) - 1) * held
    return most if again <= rows * row else 0
