"""``sum(coefficient * dim) + rest``: strides, boxes and alignments, read off expressions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from weft.ir.isl_context import derived
from weft.ir.scalar_affine import Affine, FloorDiv, Term, to_affine, to_expr
from weft.ir.scalar_expr import (
    Apply,
    Expr,
    Literal,
    Load,
    Var,
    literal,
    rewrite,
    variable_list,
    walk,
)
from weft.ir.scop import Access, Constraint, Statement
from weft.ir.size_arithmetic import evaluate


@dataclass(frozen=True, slots=True)
class Linear:
    """``sum(coefficients[d] * d) + rest``; ``rest`` mentions none of the dims asked about."""

    coefficients: Mapping[str, int]
    rest: Expr


def linear(expr: Expr, dims: Collection[str]) -> Linear | None:
    """``expr`` split over ``dims``, or None where it is not linear in them."""
    if isinstance(expr, Var):
        return Linear({expr.name: 1}, literal(0)) if expr.name in dims else Linear({}, expr)
    form = to_affine(expr)
    if form is None:
        return None if mentions(expr, dims) else Linear({}, expr)
    coefficients: dict[str, int] = {}
    rest: list[tuple[Term, int]] = []
    for term, c in form.terms:
        if isinstance(term, str) and term in dims:
            coefficients[term] = c
        elif isinstance(term, FloorDiv) and term.numerator.variables() & set(dims):
            return None
        else:
            rest.append((term, c))
    return Linear(coefficients, to_expr(Affine(tuple(rest), form.constant)))


def first_step(expr: Expr, name: str) -> int:
    """How much more ``expr`` is where the variable ``name`` is 1 than where all are 0; 0 where that
    is not one number."""
    at = [rewrite(expr, partial(_at_unit, ones)) for ones in ((name,), ())]
    one, none = map(to_affine, at)
    return 0 if one is None or none is None else (one - none).constant


def _at_unit(ones: Collection[str], node: Expr) -> Expr | None:
    return literal(int(node.name in ones)) if isinstance(node, Var) else None


def mentions(expr: Expr, names: Collection[str]) -> bool:
    """Whether a variable of ``names`` stands in ``expr``."""
    return any(isinstance(node, Var) and node.name in names for node in walk(expr))


def box(statement: Statement) -> Mapping[str, tuple[Expr, Expr]]:
    """dim -> (lower, upper exclusive) for each dim that constants and parameters alone bound.

    A dim that some constraint ties to another dim (a triangle) is left out.
    """
    return derived(lambda: _box(statement), "box", (), statement)


def hull(statement: Statement) -> Mapping[str, tuple[Expr, Expr]]:
    """The same for each dim that constants and parameters bound, whatever else ties it to others:
    for guesses and costs alone, for there may be less between them."""
    return derived(lambda: _bounds(statement)[0], "hull", (), statement)


def between(
    bounds: Mapping[str, tuple[Expr, Expr]], dims: Collection[str]
) -> tuple[Constraint, ...]:
    """``dims`` between their ``bounds``."""
    ends = ((Var(d) - bounds[d][0], bounds[d][1] - 1 - Var(d)) for d in dims)
    return tuple(Constraint(end) for both in ends for end in both)


def is_box(statement: Statement) -> bool:
    """Whether constants and parameters alone bound every dim."""
    return box(statement).keys() == {*statement.dims}


def _box(statement: Statement) -> Mapping[str, tuple[Expr, Expr]]:
    bounds, tied = _bounds(statement)
    return MappingProxyType({d: both for d, both in bounds.items() if d not in tied})


def _bounds(statement: Statement) -> tuple[Mapping[str, tuple[Expr, Expr]], set[str]]:
    """The bounds of dims by constants and parameters, and the dims that others bound as well."""
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
    both = {d: (lower[d], upper[d]) for d in statement.dims if d in lower and d in upper}
    return MappingProxyType(both), tied


def _bound(constraint: Constraint, dims: tuple[str, ...]) -> tuple[str, bool, Expr] | None:
    """``dim >= value`` (True) or ``dim < value`` (False) as (dim, which, value)."""
    form = None if constraint.equality else to_affine(constraint.expr)
    if form is None:
        return None
    own = [(t, c) for t, c in form.terms if isinstance(t, str) and t in dims]
    rest = Affine(tuple(x for x in form.terms if x not in own), form.constant)
    if len(own) != 1 or (rest.terms and rest.variables() & set(dims)):
        return None
    ((dim, c),) = own
    if not rest.terms:  # of a step other than 1
        end = rest.constant // abs(c)
        return str(dim), c > 0, literal(-end if c > 0 else end + 1)
    if c == 1:
        return str(dim), True, to_expr(rest.scaled(-1))
    return (str(dim), False, to_expr(rest.plus(1))) if c == -1 else None


def _tighter(old: Expr | None, new: Expr, op: str) -> Expr:
    if old is None or old == new:
        return new
    return (
        Apply(op, (old, new))
        if not (isinstance(old, Literal) and isinstance(new, Literal))
        else (literal(max(old.value, new.value) if op == "max" else min(old.value, new.value)))
    )


TYPICAL_SIZE = 256  # what an open size counts as, for cost models only


def extent(bounds: tuple[Expr, Expr], default: int = TYPICAL_SIZE) -> int:
    """Number of points, ``default`` where it is symbolic (a guess for cost models only)."""
    low, high = bounds
    if isinstance(low, Literal) and isinstance(high, Literal):
        return max(0, int(high.value) - int(low.value))
    size = to_affine(high - low)
    return max(0, size.constant) if size is not None and size.is_constant else default


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


# ---- What moves along a dim of a statement: accesses, expressions over them, points apart.


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
    return _known(box(statement).get(dim))


def hull_extent(statement: Statement, dim: str) -> int | None:
    """The same of the ``hull``: at most how many values, for choices and costs alone."""
    return _known(hull(statement).get(dim))


def typical_extent(statement: Statement, dim: str) -> int | None:
    """The same, a typical one where it is open: to compare what choices cost, never a bound."""
    bounds = hull(statement).get(dim)
    if bounds is None:
        return None
    return part_extent(statement, dim) or max(1, extent(bounds))


def part_extent(statement: Statement, dim: str) -> int | None:
    """A typical extent of ``dim`` where it is a part of one open size: (h + 31) // 32."""
    bounds = hull(statement).get(dim)
    size = bounds[1] - bounds[0] if bounds else literal(0)
    names = variable_list(size)
    if len(names) != 1 or not any(isinstance(n, Apply) and n.op == "floordiv" for n in walk(size)):
        return None
    return max(1, evaluate(size, {names[0]: TYPICAL_SIZE}))


def _known(bounds: tuple[Expr, Expr] | None) -> int | None:
    match bounds:
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


def operands(expr: Expr) -> list[int]:
    """The numbers of the reads in ``expr``, each once, in order."""
    return list(dict.fromkeys(operand_number(n) for n in walk(expr) if isinstance(n, Load)))


def renumber(expr: Expr, numbers: Sequence[int]) -> Expr:
    """``expr`` with read ``numbers[k]`` called ``k``."""

    def change(node: Expr) -> Expr | None:
        if isinstance(node, Load):
            return replace(node, source=numbers.index(operand_number(node)))
        return None

    return rewrite(expr, change)


moves = Access.moves
"""``moves(access, *dims)``"""
