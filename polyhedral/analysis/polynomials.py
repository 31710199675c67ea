"""Polynomials with rational coefficients over sizes and loop counters: how often, how many bytes.

Sums over a range are closed forms (Faulhaber, 1631), so that a triangle of loops counts as
``N**2/2 - N/2``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import comb

from weft.frontend.scalar_affine import Affine

Monomial = tuple[tuple[str, int], ...]  # (variable, power > 0), variables in order
Number = int | Fraction


@dataclass(frozen=True, slots=True)
class Polynomial:
    """Sum of coefficient times monomial; no coefficient is 0, no monomial stands twice."""

    terms: tuple[tuple[Monomial, Fraction], ...] = ()

    def __add__(self, other: Polynomial | Number) -> Polynomial:
        total = dict(self.terms)
        for monomial, c in _polynomial(other).terms:
            total[monomial] = total.get(monomial, Fraction()) + c
        return _of(total)

    __radd__ = __add__

    def __sub__(self, other: Polynomial | Number) -> Polynomial:
        return self + _polynomial(other) * -1

    def __mul__(self, other: Polynomial | Number) -> Polynomial:
        total: dict[Monomial, Fraction] = {}
        for one, c in self.terms:
            for two, d in _polynomial(other).terms:
                key = _product(one, two)
                total[key] = total.get(key, Fraction()) + c * d
        return _of(total)

    __rmul__ = __mul__

    def __truediv__(self, number: Number) -> Polynomial:
        return self * (1 / Fraction(number))

    def variables(self) -> frozenset[str]:
        return frozenset(name for monomial, _ in self.terms for name, _ in monomial)

    def value(self, values: Mapping[str, Number]) -> Fraction:
        total = Fraction()
        for monomial, c in self.terms:
            for name, power in monomial:
                c *= Fraction(values[name]) ** power
            total += c
        return total

    def replaced(self, name: str, value: Polynomial) -> Polynomial:
        """This with ``value`` in place of the variable ``name``."""
        total, powers = Polynomial(), [number(1)]
        for power, factor in self.coefficients(name).items():
            while len(powers) <= power:
                powers.append(powers[-1] * value)
            total = total + factor * powers[power]
        return total

    def coefficients(self, name: str) -> dict[int, Polynomial]:
        """Power of ``name`` → what it is multiplied with."""
        found: dict[int, dict[Monomial, Fraction]] = {}
        for monomial, c in self.terms:
            power = dict(monomial).get(name, 0)
            rest = tuple(factor for factor in monomial if factor[0] != name)
            found.setdefault(power, {})[rest] = c
        return {power: _of(rest) for power, rest in found.items()}

    def summed(self, name: str, low: Polynomial, high: Polynomial) -> Polynomial:
        """The sum over ``name`` from ``low`` to ``high`` (inclusive; 0 where high = low - 1)."""
        total = Polynomial()
        for power, factor in self.coefficients(name).items():
            sums = _power_sum(power)
            upper, lower = sums.replaced("n", high), sums.replaced("n", low - 1)
            total = total + factor * (upper - lower)
        return total

    def __str__(self) -> str:
        """``2*N**3/3 + N**2/2``: highest powers first."""
        if not self.terms:
            return "0"
        ordered = sorted(self.terms, key=lambda t: (-sum(p for _, p in t[0]), t[0]))
        text = ""
        for monomial, c in ordered:
            sign = "-" if c < 0 else "+"
            piece = _piece(monomial, abs(c))
            text += f" {sign} {piece}" if text else f"{'-' if c < 0 else ''}{piece}"
        return text


def number(value: Number) -> Polynomial:
    return Polynomial((((), Fraction(value)),)) if value else Polynomial()


def symbol(name: str) -> Polynomial:
    return Polynomial(((((name, 1),), Fraction(1)),))


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


def _of(terms: Mapping[Monomial, Fraction]) -> Polynomial:
    return Polynomial(tuple(sorted((m, c) for m, c in terms.items() if c)))


def _product(one: Monomial, two: Monomial) -> Monomial:
    powers = dict(one)
    for name, power in two:
        powers[name] = powers.get(name, 0) + power
    return tuple(sorted(powers.items()))


def _piece(monomial: Monomial, c: Fraction) -> str:
    factors = [name if power == 1 else f"{name}**{power}" for name, power in monomial]
    if c.numerator != 1 or not factors:
        factors.insert(0, str(c.numerator))
    return "*".join(factors) + (f"/{c.denominator}" if c.denominator != 1 else "")
