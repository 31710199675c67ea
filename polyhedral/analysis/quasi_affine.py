"""Quasi-affine index expressions in normal form.

    Affine ::= constant + Σ coefficient · Atom
    Atom   ::= variable name | Floor(Affine, divisor)          floor(Affine / divisor), divisor > 0

Two expressions that differ only in how they were written (``(i + 1) * 2`` and ``2 * i + 2``,
``i % 4`` and ``i - 4 * (i // 4)``, ``(8 * t + i) // 8`` and ``t + i // 8``) have the same normal
form, so closed-form analyses compare and subtract them without isl. Arithmetic is exact: indices
that overflow int64 are not modelled.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from weft.dtypes import int64
from weft.errors import CompileError
from weft.frontend.scalar_expr import Apply, Expr, Literal, Var, literal, walk
from weft.frontend.scalar_printer import scalar_text


@dataclass(frozen=True, slots=True)
class Floor:
    """floor(numerator / divisor)."""

    numerator: Affine
    divisor: int


Atom = str | Floor


@dataclass(frozen=True, slots=True)
class Affine:
    """``constant`` plus the ``terms``, whose coefficients are not zero, in canonical order."""

    constant: int
    terms: tuple[tuple[Atom, int], ...] = ()

    def __add__(self, other: Affine) -> Affine:
        return _combine(self, other, 1)

    def __sub__(self, other: Affine) -> Affine:
        return _combine(self, other, -1)

    def scaled(self, factor: int) -> Affine:
        if factor == 0:
            return Affine(0)
        return Affine(self.constant * factor, tuple((a, c * factor) for a, c in self.terms))

    def floordiv(self, divisor: int) -> Affine:
        """floor(self / divisor); multiples of the divisor come out of the floor."""
        whole = Affine(
            self.constant // divisor,
            tuple((a, c // divisor) for a, c in self.terms if c % divisor == 0),
        )
        rest = tuple((a, c) for a, c in self.terms if c % divisor)
        if not rest:
            return whole
        common = math.gcd(divisor, *(c for _, c in rest))
        inner = Affine(self.constant % divisor // common, tuple((a, c // common) for a, c in rest))
        return whole + Affine(0, ((_nested(inner, divisor // common), 1),))

    def __str__(self) -> str:
        text = ""
        for atom, coefficient in (*_positive_first(self.terms), ("", self.constant)):
            if coefficient or not (text or atom):
                piece = _piece_text(atom, abs(coefficient))
                sign = "-" if coefficient < 0 else "+"
                text = f"{text} {sign} {piece}" if text else piece if sign == "+" else "-" + piece
        return text

    @property
    def is_constant(self) -> bool:
        return not self.terms

    def coefficient(self, atom: Atom) -> int:
        return next((c for a, c in self.terms if a == atom), 0)

    def value(self, values: Mapping[str, int]) -> int:
        """The number that this is where variables have ``values``."""
        total = self.constant
        for atom, coefficient in self.terms:
            if isinstance(atom, str):
                total += coefficient * values[atom]
            else:
                total += coefficient * (atom.numerator.value(values) // atom.divisor)
        return total

    def variables(self) -> tuple[str, ...]:
        """Names that occur, inside floors too, each once."""
        found: dict[str, None] = {}
        stack = [self]
        while stack:
            for atom, _ in stack.pop().terms:
                if isinstance(atom, str):
                    found.setdefault(atom)
                else:
                    stack.append(atom.numerator)
        return tuple(found)


def _nested(numerator: Affine, divisor: int) -> Floor:
    """floor((floor(e / a) + c) / b) is floor((e + a c) / (a b))."""
    match numerator.terms:
        case ((Floor(inner, first), 1),):
            return _nested(inner + Affine(first * numerator.constant), first * divisor)
    return Floor(numerator, divisor)


def variable(name: str) -> Affine:
    return Affine(0, ((name, 1),))


def affine(expr: Expr) -> Affine:
    """The normal form of a quasi-affine ``expr``.

    Raises CompileError (WEFT-E0401) if it is none: products of variables, division by a variable,
    loads, selects.
    """
    if not expr.children:  # most indices: skip the bookkeeping
        return _node(expr, ())
    forms: dict[int, Affine] = {}
    for node in walk(expr):
        forms[id(node)] = _node(node, tuple(forms[id(child)] for child in node.children))
    return forms[id(expr)]


def _node(node: Expr, args: tuple[Affine, ...]) -> Affine:
    match node, args:
        case (Literal(value), _) if node.dtype == int64:
            return Affine(int(value))
        case (Var(name), _) if node.dtype == int64:
            return variable(name)
        case Apply("add"), (left, right):
            return left + right
        case Apply("sub"), (left, right):
            return left - right
        case Apply("neg"), (arg,):
            return arg.scaled(-1)
        case (Apply("mul"), (left, right)) if left.is_constant:
            return right.scaled(left.constant)
        case (Apply("mul"), (left, right)) if right.is_constant:
            return left.scaled(right.constant)
        case (Apply("floordiv"), (left, right)) if right.is_constant and right.constant > 0:
            return left.floordiv(right.constant)
        case (Apply("mod"), (left, right)) if right.is_constant and right.constant > 0:
            return left - left.floordiv(right.constant).scaled(right.constant)
    raise CompileError(
        "WEFT-E0401",
        f"the index expression {scalar_text(node)} is not quasi-affine",
        why="only sums, multiples by constants, and // and % by positive constants are analysed",
        hint="use a data-dependent (may) access, whose element is computed at run time",
    )


def as_expr(form: Affine) -> Expr:
    """An int64 expression whose normal form is ``form``."""
    result: Expr | None = None
    for atom, coefficient in _positive_first(form.terms):
        value: Expr = Var(atom) if isinstance(atom, str) else _floor_expr(atom)
        if result is None:
            result = value * coefficient
        elif coefficient < 0:
            result = result - value * -coefficient
        else:
            result = result + value * coefficient
    if result is None:
        return literal(form.constant)
    return result - -form.constant if form.constant < 0 else result + form.constant


def _positive_first(terms: tuple[tuple[Atom, int], ...]) -> list[tuple[Atom, int]]:
    return sorted(terms, key=lambda term: term[1] < 0)


def _piece_text(atom: Atom, factor: int) -> str:
    match atom:
        case "":
            return str(factor)
        case str():
            text = atom
        case Floor(numerator, divisor):
            single = numerator.constant == 0 and len(numerator.terms) == 1
            text = f"{numerator} // {divisor}" if single else f"({numerator}) // {divisor}"
            text = f"({text})" if factor != 1 else text
    return text if factor == 1 else f"{factor}*{text}"


def _floor_expr(atom: Floor) -> Expr:
    return as_expr(atom.numerator) // atom.divisor


def _combine(left: Affine, right: Affine, sign: int) -> Affine:
    if not right.terms:
        return Affine(left.constant + sign * right.constant, left.terms)
    terms = dict(left.terms)
    for atom, coefficient in right.terms:
        terms[atom] = terms.get(atom, 0) + sign * coefficient
    return Affine(left.constant + sign * right.constant, _canonical(terms.items()))


def _canonical(terms: Iterable[tuple[Atom, int]]) -> tuple[tuple[Atom, int], ...]:
    return tuple(sorted(((a, c) for a, c in terms if c), key=_order))


def _order(term: tuple[Atom, int]) -> tuple[bool, str]:
    atom = term[0]
    return (False, atom) if isinstance(atom, str) else (True, repr(atom))
