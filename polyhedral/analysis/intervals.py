"""Intervals that dims stay in: constants, read off constraints one by one, without isl."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from weft.ir.quasi_affine import affine
from weft.ir.scalar_affine import Affine, Range, affine_bounds, to_expr
from weft.ir.scalar_condition import narrow
from weft.ir.scop import Constraint, Scop, Statement

Ranges = Mapping[str, Range]


def facts(constraints: Iterable[Constraint]) -> tuple[Affine, ...]:
    """``constraints`` as forms that are at least 0."""
    forms = [(affine(c.expr), c.equality) for c in constraints]
    return tuple(f for form, both in forms for f in (form, form.scaled(-1))[: 1 + both])


def ranges_of(scop: Scop, statement: Statement, more: Iterable[Affine] = ()) -> Ranges:
    """The least and the greatest value of every variable of ``statement`` where it runs and all of
    ``more`` are at least 0; None where no constant is seen."""
    known = facts((*scop.context, *statement.domain))
    return narrow(narrow({}, known), (*known, *more))


def certain(form: Affine, ranges: Ranges) -> bool:
    """Whether ``form`` is seen to be at least 0 in ``ranges``."""
    low, _ = affine_bounds(form, ranges)
    return low is not None and low >= 0


def extents(names: Iterable[str], ranges: Ranges) -> list[int] | None:
    """How many values ``names`` have; None where one has no bound."""
    found = [ranges.get(name, (None, None)) for name in names]
    if any(low is None or high is None for low, high in found):
        return None
    return [max(high - low + 1, 0) for low, high in found if low is not None and high is not None]


def restricted(statement: Statement, ranges: Ranges) -> Statement:
    """``statement`` for those values of its dims that are in ``ranges`` too, which follow from its
    domain and more."""
    own = {d: ranges[d] for d in statement.dims if d in ranges}
    kept = [c for c in statement.domain if c.equality or _only(affine(c.expr)) not in own]
    box = []
    for name, (low, high) in own.items():
        value = Affine(((name, 1),))
        box += [value.plus(-low)] if low is not None else []
        box += [value.scaled(-1).plus(high)] if high is not None else []
    return replace(statement, domain=(*(Constraint(to_expr(form)) for form in box), *kept))


def _only(form: Affine) -> str | None:
    """The variable that alone ``form`` is linear in."""
    names = [term for term, _ in form.terms]
    return names[0] if len(names) == 1 and isinstance(names[0], str) else None
