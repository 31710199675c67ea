"""Where statements run, while a Scop is being built: conjunctions with intervals beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from weft.ir.errors import ExpressionError
from weft.ir.scalar_affine import Affine, Range, floor_divide, to_affine
from weft.ir.scalar_condition import Conjunction, narrow, proves
from weft.ir.scalar_expr import Apply, Expr
from weft.ir.tensor_expr import Axis
from weft.polyhedral.lower_names import Symbols


@dataclass(frozen=True, slots=True)
class Domain:
    """Points of some axes: a conjunction, and an interval for every variable."""

    known: Conjunction
    ranges: dict[str, Range]
    context: tuple[Affine, ...] = ()  # forms over parameters that are at least 0

    def where(self, more: Conjunction) -> Domain:
        ranges = narrow(self.ranges, more.facts())
        return Domain(self.known & more, ranges, self.context)

    def implies(self, fact: Affine) -> bool:
        """Whether ``fact >= 0`` is seen to hold at all points."""
        return proves((*self.known.facts(), *self.context), self.ranges, fact)

    def news(self, known: Conjunction) -> Conjunction:
        """What ``known`` says beyond this domain."""
        at_least = tuple(f for f in dict.fromkeys(known.at_least) if not self.implies(f))
        return Conjunction(at_least, tuple(dict.fromkeys(known.equal)), known.exact)

    def holds(self, forms: Sequence[Affine], sizes: Sequence[Affine | None]) -> bool:
        """Whether indices with these ``forms`` are seen to be in range at all points."""
        return all(
            size is not None and self.implies(form) and self.implies((size - form).plus(-1))
            for form, size in zip(forms, sizes, strict=True)
        )

    @property
    def is_empty(self) -> bool:
        """Whether there is certainly no point; False says nothing."""
        return any(a is not None and b is not None and a > b for a, b in self.ranges.values())


def box(axes: Iterable[Axis], symbols: Symbols, where: str) -> Domain:
    """The points of ``axes``, outer ones first, each between its bounds.

    Raises ``ExpressionError`` (E0141) for a bound that is not affine.
    """
    facts: list[Affine] = []
    ranges: dict[str, Range] = {}
    for axis in axes:
        name = Affine(((axis.name, 1),))
        lowers, uppers = bound_forms(axis, symbols, where)
        own = [*(name - form for form in lowers), *((form - name).plus(-1) for form in uppers)]
        facts += own
        ranges[axis.name] = narrow({**symbols.ranges, **ranges}, own).get(axis.name, (None, None))
    known = Conjunction(tuple(facts))
    return Domain(known, {**symbols.ranges, **ranges}, tuple(symbols.facts))


def bound_forms(axis: Axis, symbols: Symbols, where: str) -> tuple[list[Affine], list[Affine]]:
    """Forms whose greatest is the lower bound of ``axis``, and whose least is its upper bound.

    ``0 <= i < max(n, 0)`` is ``0 <= i < n``: what is certainly not above the lower bound is no
    case of an upper bound.
    """
    lowers = _cases(axis.lower, "max", symbols, axis, where)

    def is_void(form: Affine) -> bool:
        return any(proves(symbols.facts, symbols.ranges, low - form) for low in lowers)

    return lowers, _cases(axis.upper, "min", symbols, axis, where, is_void)


def _cases(
    bound: Expr,
    op: str,
    symbols: Symbols,
    axis: Axis,
    where: str,
    is_void: Callable[[Affine], bool] | None = None,
) -> list[Affine]:
    forms: list[Affine] = []
    stack = [bound]
    while stack:
        expr = stack.pop()
        if is_void is not None and isinstance(expr, Apply) and expr.op == "max":
            left, right = (to_affine(symbols.normal(arg)) for arg in expr.args)
            if left is not None and is_void(left):
                stack.append(expr.args[1])
                continue
            if right is not None and is_void(right):
                stack.append(expr.args[0])
                continue
        form = to_affine(symbols.normal(expr))
        if form is not None:
            forms.append(form)
        elif isinstance(expr, Apply) and expr.op == op:
            stack.extend(reversed(expr.args))
        else:
            raise ExpressionError(
                "WEFT-E0141",
                f"a bound of axis {axis.name} is not affine in outer axes and sizes",
                where=where,
                hint="use a wider box, and a condition inside it",
            )
    return forms


def extremes(
    axes: Iterable[Axis], symbols: Symbols, where: str
) -> dict[str, tuple[Affine, Affine]]:
    """For every axis, outer ones first, forms over parameters at or below and above its values."""
    found: dict[str, tuple[Affine, Affine]] = {}
    for axis in axes:
        lowers, uppers = bound_forms(axis, symbols, where)
        size = to_affine(symbols.normal(axis.upper))  # a size is not negative, a case may be
        highest = _corner(uppers[0] if size is None else size, found, True)
        found[axis.name] = (_corner(lowers[0], found, False), highest.plus(-1))
    return found


def _corner(form: Affine, known: dict[str, tuple[Affine, Affine]], greatest: bool) -> Affine:
    """``form`` with every axis at the end of its range where the form is greatest (or least)."""
    result = Affine((), form.constant)
    for term, coefficient in form.terms:
        up = (coefficient > 0) == greatest
        if isinstance(term, str):
            value = known[term][up] if term in known else Affine(((term, 1),))
        else:
            value = floor_divide(_corner(term.numerator, known, up), term.divisor, {})
        result = result + value.scaled(coefficient)
    return result
