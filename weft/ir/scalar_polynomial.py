"""Polynomials over size symbols: when are two products of sizes the same?"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable
from functools import reduce
from math import gcd

from weft.ir.scalar_affine import to_affine, to_expr
from weft.ir.scalar_expr import Apply, Expr, Literal, Var, literal, walk

Monomial = tuple[Expr, ...]  # factors in a fixed order: size symbols, and whatever is no polynomial
Polynomial = dict[Monomial, int]  # no coefficient is 0


def polynomial(expr: Expr) -> Polynomial:
    """``expr`` multiplied out. Divisions and the like are factors of their own, normalised."""
    found: dict[int, Polynomial] = {}
    for node in walk(expr):
        found[id(node)] = _polynomial(node, [found[id(child)] for child in node.children])
    return found[id(expr)]


def _polynomial(node: Expr, operands: list[Polynomial]) -> Polynomial:
    match node, operands:
        case Literal(value), _:
            return {(): int(value)} if value else {}
        case Var(), _:
            return {(node,): 1}
        case Apply("neg"), [a]:
            return scaled(a, -1)
        case Apply("add"), [a, b]:
            return add(a, b)
        case Apply("sub"), [a, b]:
            return add(a, scaled(b, -1))
        case Apply("mul"), [a, b]:
            return multiply(a, b)
    form = to_affine(node)
    return {(node if form is None else to_expr(form),): 1}


def add(left: Polynomial, right: Polynomial) -> Polynomial:
    total = dict(left)
    for monomial, coefficient in right.items():
        total[monomial] = total.get(monomial, 0) + coefficient
    return {m: c for m, c in total.items() if c}


def scaled(left: Polynomial, factor: int) -> Polynomial:
    return {m: c * factor for m, c in left.items() if c * factor}


def multiply(left: Polynomial, right: Polynomial) -> Polynomial:
    total: Polynomial = {}
    for a, x in left.items():
        for b, y in right.items():
            total = add(total, {tuple(sorted(a + b, key=repr)): x * y})
    return total


def product(sizes: Iterable[Expr]) -> Polynomial:
    total: Polynomial = {(): 1}
    for size in sizes:
        total = multiply(total, polynomial(size))
    return total


def without_common_factors(found: Polynomial) -> Polynomial:
    """``found`` over all numbers and factors that its monomials have in common."""
    if not found:
        return found
    unit = gcd(*found.values())
    common = reduce(operator.and_, map(Counter, found))
    return {tuple((Counter(m) - common).elements()): c // unit for m, c in found.items()}


def quotient(left: Polynomial, right: Polynomial) -> Polynomial | None:
    """``left`` over ``right`` where ``right`` is one product that divides every one of ``left``;
    else None. Both may be 0 where a factor is: then any value would do."""
    if len(right) != 1:
        return None
    ((monomial, divisor),) = right.items()
    found: Polynomial = {}
    for factors, coefficient in left.items():
        rest = list(factors)
        for factor in monomial:
            if factor not in rest:
                return None
            rest.remove(factor)
        if coefficient % divisor:
            return None
        found[tuple(rest)] = coefficient // divisor
    return found


def from_polynomial(value: Polynomial) -> Expr:
    result: Expr = literal(0)
    for monomial, coefficient in value.items():
        factor: Expr = literal(coefficient)
        for atom in monomial:
            factor = factor * atom
        result = result + factor
    return result
