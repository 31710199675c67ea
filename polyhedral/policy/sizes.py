"""How many values dims and loops have, where that is known."""

from __future__ import annotations

from weft.frontend.scalar_expr import Expr, Literal, Var
from weft.polyhedral.analysis.linear import hull, linear
from weft.polyhedral.scop import Statement


def size_of(statement: Statement, dim: str) -> int | None:
    """How many values ``dim`` has, where that is a constant."""
    match hull(statement).get(dim):
        case Literal() as begin, Literal() as end:
            return max(1, int(end.value) - int(begin.value))
    return None


def turns_of(statement: Statement, value: Expr) -> tuple[int, int] | None:
    """First value and number of values of a loop along a dim, if both are constants."""
    form = linear(value, statement.dims)
    if form is None or not isinstance(form.rest, Literal) or len(form.coefficients) != 1:
        return None
    ((dim, step),) = form.coefficients.items()
    match hull(statement).get(dim):
        case Literal() as begin, Literal() as end if step == 1:
            low = int(begin.value)
            return low + int(form.rest.value), max(1, int(end.value) - low)
    return None


def from_first(statement: Statement, dim: str) -> Expr:
    """``dim`` counted from its first value, where that is a constant: tiles begin there."""
    match hull(statement).get(dim):
        case Literal() as begin, _:
            return Var(dim) - begin
    return Var(dim)
