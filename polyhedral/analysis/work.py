"""How much arithmetic one instance of a statement does, in multiply-adds, for cost models."""

from __future__ import annotations

from weft.frontend.scalar_expr import Apply, Expr, walk
from weft.polyhedral.scop import Statement

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
