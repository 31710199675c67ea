"""What moves along a dim of a statement: accesses, expressions over them, points apart."""

from __future__ import annotations

from collections.abc import Collection

from weft.frontend.scalar_expr import Expr, Literal, Load, Var, walk
from weft.polyhedral.analysis.linear import box, linear
from weft.polyhedral.scop import Access, Statement


def tell_apart(access: Access, dims: Collection[str]) -> bool:
    """Whether each of ``dims`` has an index of its own: a quick way to tell that no two of their
    points are one element."""
    alone = set()
    for index in access.indices:
        split = linear(index, dims)
        if split is not None and sum(map(bool, split.coefficients.values())) == 1:
            alone |= {d for d, c in split.coefficients.items() if c}
    return alone >= set(dims)


def known_extent(statement: Statement, dim: str) -> int | None:
    """How many values ``dim`` has, where that is a constant."""
    match box(statement).get(dim):
        case Literal() as begin, Literal() as end:
            return max(1, int(end.value) - int(begin.value))
    return None


def expression_moves(statement: Statement, expr: Expr, dim: str) -> bool:
    """Whether ``expr``, over the reads of ``statement``, may have other values along ``dim``."""
    return any(
        (isinstance(n, Var) and n.name == dim)
        or (isinstance(n, Load) and moves(statement.reads[operand_number(n)], dim))
        for n in walk(expr)
    )


def dims_moving(access: Access, dims: Collection[str]) -> frozenset[str]:
    """Those of ``dims`` along which ``access`` moves."""
    return frozenset(d for d in dims if moves(access, d))


def operand_number(load: Load) -> int:
    """Which read of its statement ``load`` is."""
    assert isinstance(load.source, int)
    return load.source


def moves(access: Access, dim: str) -> bool:
    """Whether ``access`` may touch other elements along ``dim``."""
    return any(
        split is None or bool(split.coefficients.get(dim))
        for split in (linear(index, (dim,)) for index in access.indices)
    )
