"""Polynomials with rational coefficients over sizes and loop counters: how often, how many bytes.

Sums over a range are closed forms (Faulhaber, 1631), so that a triangle of loops counts as
``N**2/2 - N/2``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import comb, gcd, lcm

from weft.ir.scalar_affine import Affine

Monomial = tuple[tuple[str, int], ...]  # (variable, power > 0), variables in order
Number = int | Fraction


@dataclass(frozen=True, slots=True)
class Polynomial:
    """``(sum of coefficient times monomial) / divisor``; no coefficient is 0, no monomial stands
    twice, and nothing divides all coefficients and the divisor."""

    terms: tuple[tuple[Monomial, int], ...] = ()
    divisor: int = 1

    def __add__(self, other: Polynomial | Number) -> Polynomial:
        other = _polynomial(other)
        if not other.terms or not self.terms:
            return self if not other.terms else other
        common = lcm(self.divisor, other.divisor)
        mine, theirs = common // self.divisor, common // other.divisor
        total = {monomial: c * mine for monomial, c in self.terms}
        for monomial, c in other.terms:
            total[monomial] = total.get(monomial, 0) + c * theirs
        return _of(total, common)

    __radd__ = __add__

    def __sub__(self, other: Polynomial | Number) -> Polynomial:
        return self + other * -1

    def __mul__(self, other: Polynomial | Number) -> Polynomial:
        if not isinstance(other, Polynomial):
            if other == 1:
                return self
            above, below = other.numerator, other.denominator
            if below == self.divisor == 1:
                return Polynomial(tuple((m, c * above) for m, c in self.terms if above))
            return _of({m: c * above for m, c in self.terms}, self.divisor * below)
        if len(other.terms) == 1 and not other.terms[0][0]:
            return self * Fraction(other.terms[0][1], other.divisor)
        total: dict[Monomial, int] = {}
        for one, c in self.terms:
            for two, d in other.terms:
                key = _product(one, two)
                total[key] = total.get(key, 0) + c * d
        return _of(total, self.divisor * other.divisor)

    __rmul__ = __mul__

    def __truediv__(self, number: Number) -> Polynomial:
        return self * (1 / Fraction(number))

    def variables(self) -> frozenset[str]:
        return frozenset(name for monomial, _ in self.terms for name, _ in monomial)

    def value(self, values: Mapping[str, Number]) -> Fraction:
        total: Number = 0
        for monomial, c in self.terms:
            part: Number = c
            for name, power in monomial:
                part *= values[name] ** power
            total += part
        return Fraction(total) / self.divisor

    def about(self, values: Mapping[str, float]) -> float:
        """``value``, rounded."""
        total = 0.0
        for monomial, c in self.terms:
            part = float(c)
            for name, power in monomial:
                part *= values[name] ** power
            total += part
        return total / self.divisor

    def replaced(self, name: str, value: Polynomial) -> Polynomial:
        """This with ``value`` in place of the variable ``name``."""
        parts = self.coefficients(name)
        if list(parts) == [0] or not parts:
            return self
        total, power = Polynomial(), number(1)
        for exponent in range(max(parts) + 1):
            if exponent:
                power = power * value
            if exponent in parts:
                total = total + parts[exponent] * power
        return total

    def coefficients(self, name: str) -> dict[int, Polynomial]:
        """Power of ``name`` → what it is multiplied with."""
        found: dict[int, dict[Monomial, int]] = {}
        for monomial, c in self.terms:
            power = next((p for n, p in monomial if n == name), 0)
            rest = tuple(x for x in monomial if x[0] != name) if power else monomial
            found.setdefault(power, {})[rest] = c
        return {power: _of(rest, self.divisor) for power, rest in found.items()}

    def constant(self) -> Fraction:
        """The coefficient of no variable at all."""
        return Fraction(next((c for m, c in self.terms if not m), 0), self.divisor)

    def slope(self, name: str) -> Fraction:
        """The coefficient of ``name`` alone."""
        return Fraction(next((c for m, c in self.terms if m == ((name, 1),)), 0), self.divisor)

    def summed(self, name: str, low: Polynomial, high: Polynomial) -> Polynomial:
        """The sum over ``name`` from ``low`` to ``high`` (inclusive; 0 where high = low - 1)."""
        total = Polynomial()
        for power, factor in self.coefficients(name).items():
            if power == 0:
                total = total + factor * (high - low + 1)
                continue
            sums = _power_sum(power)
            total = total + factor * (sums.replaced("n", high) - sums.replaced("n", low - 1))
        return total

    def __str__(self) -> str:
        """``2*N**3/3 + N**2/2``: highest powers first."""
        if not self.terms:
            return "0"
        ordered = sorted(self.terms, key=lambda t: (-sum(p for _, p in t[0]), t[0]))
        text = ""
        for monomial, c in ordered:
            piece = _piece(monomial, Fraction(abs(c), self.divisor))
            sign = "-" if c < 0 else "+"
            text += f" {sign} {piece}" if text else f"{'-' if c < 0 else ''}{piece}"
        return text


def number(value: Number) -> Polynomial:
    exact = Fraction(value)
    return Polynomial((((), exact.numerator),), exact.denominator) if value else Polynomial()


def symbol(name: str) -> Polynomial:
    return Polynomial(((((name, 1),), 1),))


def _polynomial(value: Polynomial | Number) -> Polynomial:
    return value if isinstance(value, Polynomial) else number(value)


def of_affine(form: Affine) -> tuple[Polynomial, bool]:
    """The polynomial of ``form``, and whether it is exact: a floor counts as its mean."""
    total, exact = number(form.constant), True
    for term, c in form.terms:
        if isinstance(term, str):
            total = total + symbol(term) * c
        else:
            inner, _ = of_affine(term.numerator)
            mean = inner / term.divisor - Fraction(term.divisor - 1, 2 * term.divisor)
            total, exact = total + mean * c, False
    return total, exact


@lru_cache(maxsize=32)
def _power_sum(power: int) -> Polynomial:
    """1**power + … + n**power, over the variable ``n``."""
    n = symbol("n")
    if power == 0:
        return n
    # (n + 1)**(p + 1) - 1 = sum over q <= p of comb(p + 1, q) * S_q(n)
    whole = number(1)
    for _ in range(power + 1):
        whole = whole * (n + 1)
    rest = whole - 1
    for q in range(power):
        rest = rest - _power_sum(q) * comb(power + 1, q)
    return rest / (power + 1)


def _of(terms: Mapping[Monomial, int], divisor: int) -> Polynomial:
    kept = [(m, c) for m, c in terms.items() if c]
    if not kept:
        return Polynomial()
    common = gcd(divisor, *(c for _, c in kept)) if divisor != 1 else 1
    if common != 1:
        kept = [(m, c // common) for m, c in kept]
    if len(kept) > 1:
        kept.sort()
    return Polynomial(tuple(kept), divisor // common)


def _product(one: Monomial, two: Monomial) -> Monomial:
    if not one or not two:
        return one or two
    powers = dict(one)
    for name, power in two:
        powers[name] = powers.get(name, 0) + power
    return tuple(sorted(powers.items()))


def _piece(monomial: Monomial, c: Fraction) -> str:
    factors = [name if power == 1 else f"{name}**{power}" for name, power in monomial]
    if c.numerator != 1 or not factors:
        factors.insert(0, str(c.numerator))
    return "*".join(factors) + (f"/{c.denominator}" if c.denominator != 1 else "")
