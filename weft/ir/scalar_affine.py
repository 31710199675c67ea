"""Quasi-affine normal form of int64 expressions, and what follows from it.

A quasi-affine expression is a sum of integer multiples of terms, plus a constant; a term is a
variable or the floor of a quasi-affine expression divided by a positive constant. Index and size
arithmetic is taken over the mathematical integers: indices that overflow int64 are no indices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import gcd

from weft.ir import dtypes
from weft.ir.scalar_expr import (
    Apply,
    Cast,
    Expr,
    Literal,
    Select,
    Var,
    literal,
    walk,
)

Range = tuple[int | None, int | None]  # inclusive; None: no bound
Ranges = Mapping[str, Range]


@dataclass(frozen=True, slots=True)
class FloorDiv:
    """floor(numerator / divisor), divisor > 1."""

    numerator: Affine
    divisor: int


Term = str | FloorDiv


@dataclass(frozen=True, slots=True)
class Affine:
    """sum(coefficient * term) + constant; terms in a fixed order, each once, none times zero."""

    terms: tuple[tuple[Term, int], ...] = ()
    constant: int = 0

    @property
    def is_constant(self) -> bool:
        return not self.terms

    def coefficient(self, term: Term) -> int:
        return dict(self.terms).get(term, 0)

    def __add__(self, other: Affine) -> Affine:
        return _combine(self, other, 1)

    def __sub__(self, other: Affine) -> Affine:
        return _combine(self, other, -1)

    def scaled(self, factor: int) -> Affine:
        if factor == 0:
            return Affine()
        if factor == 1:
            return self
        return Affine(tuple((t, c * factor) for t, c in self.terms), self.constant * factor)

    def plus(self, constant: int) -> Affine:
        return Affine(self.terms, self.constant + constant)

    def replaced(self, values: Mapping[Term, Affine]) -> Affine:
        """This with whole terms replaced; what stands below a floor stays."""
        if not any(term in values for term, _ in self.terms):
            return self
        constant = self.constant
        pairs: list[tuple[Term, int]] = []
        for term, c in self.terms:
            value = values.get(term)
            if value is None:
                pairs.append((term, c))
            else:
                pairs.extend((t, c * d) for t, d in value.terms)
                constant += c * value.constant
        return _affine(pairs, constant)

    def variables(self) -> frozenset[str]:
        """Every variable, those below a floor included."""
        found: set[str] = set()
        for term, _ in self.terms:
            found |= {term} if isinstance(term, str) else term.numerator.variables()
        return frozenset(found)

    def value(self, values: Mapping[str, int]) -> int:
        """The number that this is where variables have ``values``."""
        total = self.constant
        for term, coefficient in self.terms:
            if isinstance(term, str):
                total += coefficient * values[term]
            else:
                total += coefficient * (term.numerator.value(values) // term.divisor)
        return total

    def __str__(self) -> str:
        """``32*(j // 8) - 2*i + 3``."""
        pieces = [(c < 0, _piece(t, abs(c))) for t, c in self.terms]
        pieces.sort(key=lambda piece: piece[0])
        if self.constant or not pieces:
            pieces.append((self.constant < 0, str(abs(self.constant))))
        (negative, first), *others = pieces
        signed = (f" {'-' if minus else '+'} {text}" for minus, text in others)
        if negative:  # a sign binds tighter than a division
            first = f"-({first})" if _is_division(first) else f"-{first}"
        return first + "".join(signed)


def _piece(term: Term, factor: int) -> str:
    if isinstance(term, str):
        return term if factor == 1 else f"{factor}*{term}"
    numerator, divisor = term.numerator, term.divisor
    single = numerator.constant == 0 and len(numerator.terms) == 1 and numerator.terms[0][1] > 0
    text = f"{numerator} // {divisor}" if single else f"({numerator}) // {divisor}"
    return text if factor == 1 else f"{factor}*({text})"


def _is_division(piece: str) -> bool:
    """Whether ``piece`` is a floor without a factor."""
    return " // " in piece and not piece.endswith(")")


@lru_cache(maxsize=4096)
def variable(name: str) -> Affine:
    return Affine(((name, 1),))


@lru_cache(maxsize=4096)
def _number(value: int) -> Affine:
    return Affine((), value)


def _combine(left: Affine, right: Affine, sign: int) -> Affine:
    constant = left.constant + sign * right.constant
    if not right.terms:
        return Affine(left.terms, constant)
    return _affine((*left.terms, *((t, sign * c) for t, c in right.terms)), constant)


def _affine(pairs: Iterable[tuple[Term, int]], constant: int) -> Affine:
    total: dict[Term, int] = {}
    for term, coefficient in pairs:
        total[term] = total.get(term, 0) + coefficient
    terms = [(t, c) for t, c in total.items() if c]
    if len(terms) > 1:
        terms.sort(key=lambda pair: _order(pair[0]))
    return Affine(tuple(terms), constant)


def _order(term: Term) -> tuple[bool, str]:
    return (False, term) if isinstance(term, str) else (True, _piece(term, 1))


# ---- conversion ---------------------------------------------------------------------------------


def to_affine(expr: Expr, ranges: Ranges | None = None) -> Affine | None:
    """The normal form of ``expr``, simplified where ``ranges`` prove it; None if it has none."""
    if not expr.children:  # most indices: skip the bookkeeping
        return form_of(expr, [], {})
    if ranges:
        return _forms(expr, ranges)[id(expr)]
    known = _known.get(id(expr))
    if known is None:
        if len(_known) >= _KNOWN:
            _known.clear()
        known = _known[id(expr)] = expr, _forms(expr, {})[id(expr)]
    return known[1]


# Analyses ask for the same expressions' forms again and again. The expression that stands beside
# its form stays alive, so its id stays its own; no hash is taken of it, nor is 0.0 mixed with -0.0.
_known: dict[int, tuple[Expr, Affine | None]] = {}
_KNOWN = 8192


def _forms(expr: Expr, ranges: Ranges) -> dict[int, Affine | None]:
    """The forms of all that ``expr`` is made of, by identity."""
    forms: dict[int, Affine | None] = {}
    for node in walk(expr):
        forms[id(node)] = form_of(node, [forms[id(child)] for child in node.children], ranges)
    return forms


def to_expr(affine: Affine) -> Expr:
    """An expression with that value: positive parts first, then what is subtracted."""
    if affine.is_constant:
        return literal(affine.constant)
    plus = [_term_expr(term) * c for term, c in affine.terms if c > 0]
    minus = [_term_expr(term) * -c for term, c in affine.terms if c < 0]
    (plus if affine.constant > 0 else minus).append(literal(abs(affine.constant)))
    result = plus[0] if plus else -minus.pop(0)
    for part in plus[1:]:
        result = result + part
    for part in minus:
        result = result - part
    return result


def _term_expr(term: Term) -> Expr:
    return Var(term) if isinstance(term, str) else to_expr(term.numerator) // term.divisor


def form_of(node: Expr, operands: list[Affine | None], ranges: Ranges) -> Affine | None:
    """The normal form of ``node``, whose operands have those forms; None if it has none."""
    if node.dtype is not dtypes.int64 and node.dtype != dtypes.int64:
        return None
    match node:
        case Literal(value):
            return _number(int(value))
        case Var(name):
            return variable(name)
        case Apply(op):
            return _applied(op, operands, ranges)
    return None


def _applied(op: str, operands: list[Affine | None], ranges: Ranges) -> Affine | None:
    match op, operands:
        case "add", [Affine() as a, Affine() as b]:
            return a + b
        case "sub", [Affine() as a, Affine() as b]:
            return a - b
        case "mul", [Affine() as a, Affine() as b] if a.is_constant or b.is_constant:
            return a.scaled(b.constant) if b.is_constant else b.scaled(a.constant)
        case "floordiv", [Affine() as a, Affine() as b] if b.is_constant:
            return floor_divide(a, b.constant, ranges)
        case "mod", [Affine() as a, Affine() as b] if b.is_constant:
            quotient = floor_divide(a, b.constant, ranges)
            return a - quotient.scaled(b.constant) if b.constant else Affine()
        case "neg", [Affine() as a]:
            return a.scaled(-1)
        case "abs", [Affine() as a] if a.is_constant:
            return Affine((), abs(a.constant))
    return None


def floor_divide(numerator: Affine, divisor: int, ranges: Ranges) -> Affine:
    """floor(numerator / divisor), normalised; 0 where ``divisor`` is 0."""
    if divisor == 0:
        return Affine()
    if divisor < 0:
        numerator, divisor = numerator.scaled(-1), -divisor
    whole = _affine(((t, c // divisor) for t, c in numerator.terms if c % divisor == 0), 0)
    whole = whole.plus(numerator.constant // divisor)
    rest = numerator - whole.scaled(divisor)
    return whole + _proper_fraction(rest, divisor, ranges)


def _proper_fraction(rest: Affine, divisor: int, ranges: Ranges) -> Affine:
    """floor(rest / divisor), where no coefficient is a multiple of the divisor."""
    if rest.is_constant:
        return Affine((), rest.constant // divisor)
    units = {gcd(divisor, c) for _, c in rest.terms} if ranges else {_common(rest, divisor)}
    for unit in sorted(units, reverse=True):
        coarse = _affine(((t, c) for t, c in rest.terms if c % unit == 0), 0)
        fine = rest - coarse
        low, high = affine_bounds(fine, ranges)
        if low is not None and high is not None and low // unit == high // unit:
            # floor((unit*x + fine) / (unit*d)) = floor((x + floor(fine/unit)) / d)
            scaled = _affine(((t, c // unit) for t, c in coarse.terms), low // unit)
            if (scaled, divisor // unit) != (rest, divisor):
                return floor_divide(scaled, divisor // unit, ranges)
    low, high = affine_bounds(rest, ranges) if ranges else (None, None)
    if low is not None and high is not None and low // divisor == high // divisor:
        return Affine((), low // divisor)
    match rest.terms:
        case ((FloorDiv(inner, d), 1),):  # floor((floor(x/d) + k) / e) = floor((x + k*d) / (d*e))
            return floor_divide(inner.plus(rest.constant * d), d * divisor, ranges)
    return Affine(((FloorDiv(rest, divisor), 1),))


def _common(form: Affine, divisor: int) -> int:
    return gcd(divisor, *(c for _, c in form.terms))


# ---- questions ----------------------------------------------------------------------------------


def affine_bounds(affine: Affine, ranges: Ranges) -> Range:
    """The least and greatest value while variables stay in ``ranges``; exact without floors."""
    low: int | None = affine.constant
    high: int | None = affine.constant
    for term, coefficient in affine.terms:
        down, up = _term_bounds(term, ranges)
        if coefficient < 0:
            down, up = up, down
        low = None if low is None or down is None else low + coefficient * down
        high = None if high is None or up is None else high + coefficient * up
    return low, high


def _term_bounds(term: Term, ranges: Ranges) -> Range:
    if isinstance(term, str):
        return ranges.get(term, (None, None))
    low, high = affine_bounds(term.numerator, ranges)
    return (
        None if low is None else low // term.divisor,
        None if high is None else high // term.divisor,
    )


def bounds(expr: Expr, ranges: Ranges) -> Range:
    """An interval that holds the value of the int64 expression ``expr``; what is loaded is bounded
    by its dtype alone."""
    forms: dict[int, Affine | None] = {}
    found: dict[int, Range] = {}
    for node in walk(expr):
        form = form_of(node, [forms[id(child)] for child in node.children], ranges)
        forms[id(node)] = form
        if form is not None:
            found[id(node)] = affine_bounds(form, ranges)
        else:
            found[id(node)] = _interval(node, [found[id(child)] for child in node.children])
    return found[id(expr)]


def _interval(node: Expr, operands: list[Range]) -> Range:
    if node.dtype != dtypes.int64:
        return (None, None)
    match node, operands:
        case Cast(arg), _ if arg.dtype.is_integer and arg.dtype.bits < dtypes.int64.bits:
            return (int(arg.dtype.lowest), int(arg.dtype.highest))
        case Apply("add"), [(a, b), (c, d)]:
            return (_plus(a, c), _plus(b, d))
        case Apply("sub"), [(a, b), (c, d)]:
            return (_plus(a, _negated(d)), _plus(b, _negated(c)))
        case Apply("min"), [(a, b), (c, d)]:
            return (_both(min, a, c), _any(min, b, d))
        case Apply("max"), [(a, b), (c, d)]:
            return (_any(max, a, c), _both(max, b, d))
        case Apply("mul"), [(int(a), int(b)), (int(c), int(d))]:
            corners = (a * c, a * d, b * c, b * d)
            return (min(corners), max(corners))
        case Apply("mul"), [(int(a), _), (int(c), _)] if a >= 0 and c >= 0:
            return (a * c, None)
        case Apply("floordiv"), [(a, b), (int(c), int(d))] if c == d > 0:
            return (None if a is None else a // c, None if b is None else b // c)
        case Apply("mod"), [_, (int(c), d)] if c > 0:
            return (0, None if d is None else d - 1)
        case Select(), [_, (a, b), (c, d)]:
            return (_both(min, a, c), _both(max, b, d))
    return (None, None)


def _plus(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _negated(a: int | None) -> int | None:
    return None if a is None else -a


def _both(choose: Callable[[int, int], int], a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else choose(a, b)


def _any(choose: Callable[[int, int], int], a: int | None, b: int | None) -> int | None:
    return choose(a, b) if a is not None and b is not None else (b if a is None else a)
