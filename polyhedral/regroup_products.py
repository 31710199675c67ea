"""Regroup products: in a sum of products, factors that do not depend on all loops meet first.

    M[i, r] += X[i, j, k] * B[j, r] * C[k, r]   →   M[i, r] += X[i, j, k] * (B[j, r] * C[k, r])

so that all rows i of a register tile share one product. The same freedom as the order of a sum: not
with ``Options.strict``. Integers are exact either way; floats below 32 bits are left as they are,
for each product of theirs is rounded where its definition says. The order of a tensor contraction
(Lam et al., "On optimizing a class of multi-dimensional loops with reductions", 1997), but nothing
is stored.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from itertools import combinations
from operator import mul

from weft.ir.scalar_expr import Apply, Expr, Load, Var
from weft.ir.scalar_paths import walk_scalar
from weft.ir.scop import Scop, Statement
from weft.polyhedral.analysis.linear import mentions

Dims = frozenset[str]


def regroup_products(scop: Scop) -> Scop:
    """``scop`` with the products that its sums add up in the order that takes fewer of them."""
    found = tuple(map(_regrouped, scop.statements))
    return scop if found == scop.statements else replace(scop, statements=found)


def _regrouped(statement: Statement) -> Statement:
    update = statement.update
    if update is None or not update.monoid.is_sum:
        return statement
    results = tuple(_product(expr, statement) for expr in statement.body.results)
    if results == statement.body.results:
        return statement
    return replace(statement, body=replace(statement.body, results=results))


def _product(expr: Expr, statement: Statement) -> Expr:
    """``expr`` with factors that depend on few loops multiplied first, where that leaves a product
    which depends on fewer loops than all of them; otherwise as it is."""
    match expr:
        case Apply("neg", (arg,)):
            return -_product(arg, statement)
    parts = [(factor, _dims(factor, statement)) for factor in _factors(expr)]
    every = frozenset[str]().union(*(dims for _, dims in parts))
    regrouped = False
    while len(parts) > 2 and (expr.dtype.bits >= 32 or not expr.dtype.is_float):
        pairs = combinations(range(len(parts)), 2)
        a, b = min(pairs, key=lambda pair: len(parts[pair[0]][1] | parts[pair[1]][1]))
        (left, one), (right, two) = parts[a], parts.pop(b)
        if one | two == every:
            break
        parts[a] = left * right, one | two
        regrouped |= b > 1
    return reduce(mul, (factor for factor, _ in parts)) if regrouped else expr


def _factors(expr: Expr) -> list[Expr]:
    match expr:
        case Apply("mul", (left, right)):
            return _factors(left) + _factors(right)
    return [expr]


def _dims(expr: Expr, statement: Statement) -> Dims:
    """The loops that ``expr`` depends on; all of them where that is not plain."""
    every, lets = frozenset(statement.dims), [name for name, _ in statement.body.lets]
    found: set[str] = set()
    for node in walk_scalar(expr):
        match node:
            case Load(int(number)) if statement.reads[number].may:
                return every
            case Load(int(number)):
                indices = statement.reads[number].indices
                found |= {dim for dim in every if any(mentions(i, (dim,)) for i in indices)}
            case Var(name):
                if name in lets:
                    return every
                found |= every & {name}
    return frozenset(found)
