"""Immediates: values for the fields that an instruction computes with, and its result for them.

Candidates are the constants of a program; of narrow fields all values, as programs have other forms
of them, such as ``1 << shift`` and ``shift + 1``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import product
from math import prod

from weft.accel.capabilities import Compute
from weft.ir.scalar_expr import (
    Apply,
    Cast,
    Expr,
    Literal,
    Load,
    Var,
    literal,
    rewrite,
    select,
    walk,
)
from weft.ir.scalar_interpreter import evaluate

FEW = 64  # values of a narrow field
MAX_NUMBERS = 4096  # combinations of values of the fields of an instruction


def immediates(compute: Compute) -> list[str]:
    """The fields that it computes with."""
    found = {e.name for e in walk(compute.value) if isinstance(e, Var)}
    return sorted(found)


def with_immediates(
    compute: Compute, numbers: Iterable[int]
) -> Iterator[tuple[dict[str, int], Expr]]:
    """Its result with each of ``numbers`` in these fields; once if it has none."""
    names = immediates(compute)
    for fields in _assignments(compute, numbers):
        made = compute.value if not names else rewrite(compute.value, partial(_put, fields=fields))
        yield fields, made


def can_produce(compute: Compute, number: Expr, wanted: Expr) -> bool:
    """Whether some immediates make ``wanted`` of ``number``."""
    if not isinstance(wanted, Literal):
        return False
    values = {0} if wanted.dtype.is_float else {0, int(wanted.value), -int(wanted.value)}
    return any(
        rewrite(number, partial(_put, fields=f)) == wanted for f in _assignments(compute, values)
    )


def _assignments(compute: Compute, numbers: Iterable[int]) -> Iterator[dict[str, int]]:
    """Values for the fields that it computes with."""
    names = immediates(compute)
    holds = compute.operation.holds
    own = [[number for number in sorted(numbers) if holds(name, number)] for name in names]
    every = [_all_of(compute, name) or some for name, some in zip(names, own, strict=True)]
    fitting = every if prod(map(len, every)) <= MAX_NUMBERS else own
    if prod(map(len, fitting)) > MAX_NUMBERS:
        return
    for chosen in product(*fitting):
        yield dict(zip(names, chosen, strict=True))


def _all_of(compute: Compute, name: str) -> list[int]:
    """All values of field ``name``, if it is narrow: of a shift, not of a 16-bit number."""
    low, high = compute.operation.limits_of(name)
    return [*range(low, high + 1)] if high - low < FEW else []


def after(node: Expr, start: Literal) -> Expr | None:
    """``node`` if the target held ``start``."""
    if isinstance(node, Load) and node.source == 0:
        return start
    return _put(node, {})


def _put(node: Expr, fields: Mapping[str, int]) -> Expr | None:
    """``node`` with values for its fields, folded."""
    match node:
        case Var(name):
            return literal(fields[name], node.dtype)
        case Cast(Literal(value=int() as value), dtype):
            return literal(value, dtype)
        case Apply("add" | "sub" | "shr" | "shl", (left, Literal(value=0))):
            return left
        case Apply("add", (Literal(value=0), right)):
            return right
        case Apply(_, args) if all(isinstance(each, Literal) for each in args):
            if not node.dtype.is_float:
                return literal(evaluate(node, {}).item(), node.dtype)
    if len(node.children) == 3 and isinstance(node.children[0], Literal):
        return select(*node.children)
    return None
