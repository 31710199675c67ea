"""Which elements of its memories an instruction touches, from its semantics and its fields.

An element is what one address holds: the first index of a memory is the address, the others stand
inside an element. Loops that addresses move along are the instruction's turns; what they read of
micro-operations is looked up in ``contents``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.frontend.scalar_expr import Expr, Load, Var, walk
from weft.frontend.scalar_interpreter import evaluate
from weft.polyhedral.analysis.linear import box
from weft.polyhedral.scop import Access, Constraint, Scop, Statement

Array = np.ndarray[Any, Any]
Contents = Mapping[str, Array]  # arrays by the name of the semantics' tensor


@dataclass(frozen=True, slots=True)
class Touch:
    """``addresses`` in the order of the turns; ``number``: of the statement, in textual order."""

    tensor: str
    addresses: Array
    writes: bool
    number: int


def touches(scop: Scop, fields: Mapping[str, int], contents: Contents) -> Iterator[Touch]:
    """What one instruction with these ``fields`` touches."""
    for number, statement in enumerate(scop.statements):
        turns = _turns(statement, fields)
        for access in statement.reads:
            yield Touch(
                access.tensor, _addresses(statement, access, turns, contents), False, number
            )
        for access in statement.writes:
            found = _addresses(statement, access, turns, contents)
            if statement.update is not None:
                yield Touch(access.tensor, found, False, number)
            yield Touch(access.tensor, found, True, number)


def _turns(statement: Statement, fields: Mapping[str, int]) -> dict[str, Array]:
    """The values of every dim and field, dims as arrays that broadcast against each other. Of dims
    that no address moves along, the first value."""
    moving = set().union(*(_moving(statement, a) for a in (*statement.reads, *statement.writes)))
    ranges = box(statement)
    values: dict[str, Array] = {name: np.asarray(value) for name, value in fields.items()}
    dims = [d for d in statement.dims if d in moving]
    for dim in statement.dims:
        low, high = (int(evaluate(bound, fields)) for bound in ranges[dim])
        if dim in moving:
            shape = [-1 if d == dim else 1 for d in dims]
            values[dim] = np.arange(low, max(low, high)).reshape(shape)
        else:
            values[dim] = np.asarray(low)
    return values


def _moving(statement: Statement, access: Access) -> set[str]:
    """The dims that the address, or whether there is an access, depends on."""
    found: set[str] = set()
    stack: list[Expr] = [_address(access), *(c.expr for c in access.guard)]
    while stack:
        for node in walk(stack.pop()):
            if isinstance(node, Var) and node.name in statement.dims:
                found.add(node.name)
            elif isinstance(node, Load):
                stack.extend(statement.reads[_number(node.source)].indices)
    return found


def _address(access: Access) -> Expr:
    return access.body_indices[0] if access.may else access.indices[0]


def _number(source: Hashable) -> int:
    assert isinstance(source, int), "a body loads reads by number"
    return source


def _addresses(
    statement: Statement, access: Access, values: Mapping[str, Array], contents: Contents
) -> Array:
    def load(source: Hashable, _: tuple[Array, ...]) -> Array:
        read = statement.reads[_number(source)]
        return contents[read.tensor][tuple(evaluate(i, values) for i in read.indices)]

    found = evaluate(_address(access), values, load)
    shape = np.broadcast_shapes(*(v.shape for v in values.values()))
    held = np.broadcast_to(_holds(access.guard, values), shape)
    every: Array = np.broadcast_to(found, shape)[held]
    return every


def _holds(guard: tuple[Constraint, ...], values: Mapping[str, Array]) -> Array:
    held = np.asarray(True)
    for each in guard:
        value = evaluate(each.expr, values)
        held = held & (value == 0 if each.equality else value >= 0)
    return held
