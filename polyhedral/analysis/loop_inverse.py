"""Instances from loop values: the dims of a statement as affine expressions of the loops around it.

    i_t = i // 12, i_p = i % 12   →   i = 12*i_t + i_p   where   0 <= i_p < 12

The floors of the loops' values count as unknowns beside the dims, and the system is solved by
elimination, with no isl; what the floors mean comes back as constraints. Enough for what tiling,
skewing, shifting and permuting make.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from weft.ir.quasi_affine import affine
from weft.ir.scalar_affine import (
    Affine,
    FloorDiv,
    Range,
    Ranges,
    Term,
    floor_divide,
    variable,
)
from weft.ir.schedule_tree import Loop
from weft.ir.scop import Statement


@dataclass(frozen=True, slots=True)
class LoopInverse:
    """``dims``: each dim over the loops' names and parameters. ``constraints``: forms, each >= 0,
    that hold at exactly the loop values that belong to an instance in the domain. ``ranges``: what
    they say of single loops."""

    dims: Mapping[str, Affine]
    constraints: tuple[Affine, ...]
    ranges: Mapping[str, Range]

    def over_loops(self, form: Affine) -> Affine:
        """``form``, over dims and parameters, in terms of the loops."""
        return substituted(form, self.dims, self.ranges)


def loop_inverse(
    statement: Statement, loops: Sequence[Loop], names: Sequence[str]
) -> LoopInverse | None:
    """The instance at given values of ``loops``, which are to be called ``names``; None where the
    dims, or a floor in the loops' values, do not follow from them linearly with whole coefficients.

    ``names`` must differ from the parameters.
    """
    values = [affine(loop.at[statement.name]) for loop in loops]
    floors = _floors(values)
    unknowns: list[Term] = [*floors, *statement.dims]
    solved = _solve(values, unknowns, names)
    if solved is None:
        return None
    solution, leftover = solved
    constraints = list(leftover)
    for floor in floors:  # floor == q  <=>  0 <= numerator - divisor * q < divisor
        numerator = substituted(floor.numerator, solution, {})
        rest = numerator - solution[floor].scaled(floor.divisor)
        constraints += [rest, rest.scaled(-1).plus(floor.divisor - 1)]
    ranges = _ranges(constraints)
    for constraint in statement.domain:
        form = substituted(affine(constraint.expr), solution, ranges)
        constraints += [form, form.scaled(-1)] if constraint.equality else [form]
    kept = [c for c in dict.fromkeys(constraints) if not (c.is_constant and c.constant >= 0)]
    return LoopInverse({d: solution[d] for d in statement.dims}, tuple(kept), ranges)


def _ranges(constraints: Sequence[Affine]) -> dict[str, Range]:
    """The interval of each variable that some constraint bounds alone."""
    found: dict[str, Range] = {}
    for form in constraints:
        match form.terms:
            case ((str(name), 1 | -1 as c),):
                low, high = found.get(name, (None, None))
                if c == 1:
                    low = -form.constant if low is None else max(low, -form.constant)
                else:
                    high = form.constant if high is None else min(high, form.constant)
                found[name] = low, high
    return found


def _floors(values: Sequence[Affine]) -> list[FloorDiv]:
    """The floors in ``values`` and those inside their numerators."""
    found: dict[FloorDiv, None] = {}
    stack = list(reversed(values))
    while stack:
        for term, _ in stack.pop().terms:
            if isinstance(term, FloorDiv) and term not in found:
                found[term] = None
                stack.append(term.numerator)
    return list(found)


def _solve(
    values: Sequence[Affine], unknowns: Sequence[Term], names: Sequence[str]
) -> tuple[dict[Term, Affine], list[Affine]] | None:
    """Each unknown from ``values == names``, and what ties the names together, by Gauss-Jordan."""
    rows = [[Fraction(v.coefficient(u)) for u in unknowns] for v in values]
    rights = [_right(v, name, unknowns) for v, name in zip(values, names, strict=True)]
    rank = 0
    for column in range(len(unknowns)):
        pivot = next((r for r in range(rank, len(rows)) if rows[r][column]), None)
        if pivot is None:
            return None
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        rights[rank], rights[pivot] = rights[pivot], rights[rank]
        scale = rows[rank][column]
        rows[rank] = [x / scale for x in rows[rank]]
        rights[rank] = {t: c / scale for t, c in rights[rank].items()}
        for r in range(len(rows)):
            factor = rows[r][column]
            if r != rank and factor:
                rows[r] = [x - factor * y for x, y in zip(rows[r], rows[rank], strict=True)]
                terms = {**rights[r]}
                for term, c in rights[rank].items():
                    terms[term] = terms.get(term, Fraction(0)) - factor * c
                rights[r] = terms
        rank += 1
    forms = [_whole(terms) for terms in rights]
    if any(form is None for form in forms):
        return None
    exact = [form for form in forms if form is not None]
    ties = [tie for form in exact[rank:] for tie in (form, form.scaled(-1))]
    return dict(zip(unknowns, exact, strict=False)), ties


def _right(value: Affine, name: str, unknowns: Sequence[Term]) -> dict[Term | None, Fraction]:
    """``name`` minus the part of ``value`` that is known; None stands for the constant."""
    terms: dict[Term | None, Fraction] = {name: Fraction(1), None: Fraction(-value.constant)}
    for term, c in value.terms:
        if term not in unknowns:
            terms[term] = terms.get(term, Fraction(0)) - c
    return terms


def _whole(terms: Mapping[Term | None, Fraction]) -> Affine | None:
    form = Affine()
    for term, c in terms.items():
        if c.denominator != 1:
            return None
        one = Affine((), 1) if term is None else Affine(((term, 1),))
        form = form + one.scaled(int(c))
    return form


def substituted(
    form: Affine, solution: Mapping[Term, Affine] | Mapping[str, Affine], ranges: Ranges
) -> Affine:
    """``form`` with dims and known floors replaced; other floors keep theirs, of new numerators,
    as far as ``ranges`` of the loops do not decide them."""
    known = dict[Term, Affine](solution.items())
    result = Affine((), form.constant)
    for term, c in form.terms:
        if term in known:
            replaced = known[term]
        elif isinstance(term, FloorDiv):
            replaced = floor_divide(
                substituted(term.numerator, solution, ranges), term.divisor, ranges
            )
        else:
            replaced = variable(term)
        result = result + replaced.scaled(c)
    return result
