"""``sum(coefficient * dim) + rest``: strides, boxes and alignments, read off expressions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from weft.frontend.scalar_expr import Apply, Expr, Literal, Var, literal, walk
from weft.polyhedral.scop import Constraint, Statement


@dataclass(frozen=True, slots=True)
class Linear:
    """``sum(coefficients[d] * d) + rest``; ``rest`` mentions none of the dims asked about."""

    coefficients: Mapping[str, int]
    rest: Expr


def linear(expr: Expr, dims: Collection[str]) -> Linear | None:
    """``expr`` split over ``dims``, or None where it is not linear in them."""
    if isinstance(expr, Var) and expr.name in dims:
        return Linear({expr.name: 1}, literal(0))
    if not mentions(expr, dims):
        return Linear({}, expr)
    if not isinstance(expr, Apply):
        return None
    parts = [linear(arg, dims) for arg in expr.args]
    if any(part is None for part in parts):
        return None
    match expr.op, parts:
        case "add", [Linear() as a, Linear() as b]:
            return _combine(a, b, 1)
        case "sub", [Linear() as a, Linear() as b]:
            return _combine(a, b, -1)
        case "neg", [Linear() as a]:
            return _combine(Linear({}, literal(0)), a, -1)
        case "mul", [Linear() as a, Linear() as b]:
            if isinstance(a.rest, Literal) and not a.coefficients:
                a, b = b, a
            if isinstance(b.rest, Literal) and not b.coefficients:
                return _combine(Linear({}, literal(0)), a, int(b.rest.value))
    return None


def _combine(a: Linear, b: Linear, factor: int) -> Linear:
    total = dict(a.coefficients)
    for dim, c in b.coefficients.items():
        total[dim] = total.get(dim, 0) + factor * c
    return Linear({d: c for d, c in total.items() if c}, a.rest + b.rest * factor)


def mentions(expr: Expr, names: Collection[str]) -> bool:
    """Whether a variable of ``names`` stands in ``expr``."""
    return any(isinstance(node, Var) and node.name in names for node in walk(expr))


def box(statement: Statement) -> dict[str, tuple[Expr, Expr]]:
    """dim -> (lower, upper exclusive) for each dim that constants and parameters alone bound.

    A dim that some constraint ties to another dim (a triangle) is left out.
    """
    lower: dict[str, Expr] = {}
    upper: dict[str, Expr] = {}
    tied: set[str] = set()
    for constraint in statement.domain:
        bound = _bound(constraint, statement.dims)
        if bound is None:
            tied |= {d for d in statement.dims if mentions(constraint.expr, (d,))}
            continue
        dim, is_lower, value = bound
        if is_lower:
            lower[dim] = _tighter(lower.get(dim), value, "max")
        else:
            upper[dim] = _tighter(upper.get(dim), value, "min")
    return {
        d: (lower[d], upper[d])
        for d in statement.dims
        if d in lower and d in upper and d not in tied
    }


def _bound(constraint: Constraint, dims: tuple[str, ...]) -> tuple[str, bool, Expr] | None:
    """``dim >= value`` (True) or ``dim < value`` (False) as (dim, which, value)."""
    split = None if constraint.equality else linear(constraint.expr, dims)
    if split is None or len(split.coefficients) != 1:
        return None
    ((dim, c),) = split.coefficients.items()
    if c == 1:
        return dim, True, literal(0) - split.rest
    return (dim, False, split.rest + 1) if c == -1 else None


def _tighter(old: Expr | None, new: Expr, op: str) -> Expr:
    if old is None or old == new:
        return new
    return (
        Apply(op, (old, new))
        if not (isinstance(old, Literal) and isinstance(new, Literal))
        else (literal(max(old.value, new.value) if op == "max" else min(old.value, new.value)))
    )


def extent(bounds: tuple[Expr, Expr], default: int = 256) -> int:
    """Number of points, ``default`` where it is symbolic (a guess for cost models only)."""
    size = bounds[1] - bounds[0]
    return max(0, int(size.value)) if isinstance(size, Literal) else default


def stride(indices: tuple[Expr, ...], shape: tuple[Expr, ...], dim: str) -> int | None:
    """Elements between neighbours along ``dim`` in a row-major tensor; None: not constant."""
    total, scale = 0, 1
    for index, size in zip(reversed(indices), reversed(shape), strict=True):
        split = linear(index, (dim,))
        if split is None:
            return None
        c = split.coefficients.get(dim, 0)
        if c and scale < 0:
            return None
        total += c * scale
        scale = scale * int(size.value) if isinstance(size, Literal) and scale > 0 else -1
    return total
