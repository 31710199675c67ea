"""Minimal filtering: m outputs of a correlation with r taps from m + r - 1 products, not m * r.

    y[i] = Σ_k x[i + k] * w[k]      i < m, k < r
         = Σ_j A[i, j] * (Σ_k G[j, k] * w[k]) * (Σ_p B[j, p] * x[p])      j, p < m + r - 1

For any m + r - 2 different points a_j and the point at infinity, A, G and B follow from Lagrange's
interpolation of the polynomial product (Toom 1963, Cook 1966) by transposition (Winograd 1980;
Lavin and Gray 2016 for convolution layers). Everything here is exact, in fractions: ``prove``
checks the identity for every coefficient, so that it holds for all data, over any commutative ring
that has the fractions of G. What floating point adds is ``amplification`` and ``growth``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from math import gcd, lcm, prod, sqrt

from weft.ir.errors import InternalError

Matrix = tuple[tuple[Fraction, ...], ...]

POINTS = tuple(map(Fraction, ("0", "1", "-1", "2", "-2", "1/2", "-1/2", "4", "-4", "1/4", "-1/4")))
"""What points are chosen from: powers of two, so that A and B are exact in binary floats."""


@dataclass(frozen=True, slots=True, eq=False)  # hashed by identity: what is known of it is kept
class Filter:
    """F(m, r): A (m x n), G (n x r), B (n x n) with n = m + r - 1; A and B are dyadic."""

    m: int
    r: int
    points: tuple[Fraction, ...]  # without infinity, which comes last
    a: Matrix
    g: Matrix
    b: Matrix

    @property
    def n(self) -> int:
        return self.m + self.r - 1


@cache
def minimal_filter(m: int, r: int) -> Filter:
    """F(m, r) at those of ``POINTS`` that amplify rounding errors least; of equals, the first.

    0 and as many pairs of opposite points as fit come first: pairs share terms.
    """
    filters = [toom_cook(m, r, points) for points in _point_sets(m + r - 2)]
    best = min(filters, key=lambda f: round(amplification(f), 9))
    prove(best)
    return best


def _point_sets(count: int) -> list[tuple[Fraction, ...]]:
    """Sets of ``count`` points: 0, pairs of opposites, and one more where ``count`` is even."""
    positive = [p for p in POINTS if p > 0]
    pairs, odd = divmod(count - 1, 2)
    if count < 1:
        return [()]
    found = []
    for chosen in combinations(positive, pairs):
        whole = (Fraction(0), *(q for p in chosen for q in (p, -p)))
        left = [q for q in POINTS if q not in whole]
        found += [(*whole, q) for q in left] if odd else [whole]
    return found


def toom_cook(m: int, r: int, points: Sequence[Fraction]) -> Filter:
    """F(m, r) at ``points``, m + r - 2 different ones.

    Rows of B are coprime integers; the factors that make them so are in G, which is applied to
    weights, once.
    """
    n = m + r - 1
    assert len(set(points)) == len(points) == n - 1
    a = [[p**i for p in points] + [Fraction(i == m - 1)] for i in range(m)]
    g, b = [], []
    for p in points:
        others = [q for q in points if q != p]
        row = [*_coefficients(others), Fraction(0)]
        scale = _integral(row)
        weight = 1 / prod((p - q for q in others), start=Fraction(1)) / scale
        b.append([c * scale for c in row])
        g.append([weight * p**k for k in range(r)])
    row = _coefficients(points)
    scale = _integral(row)
    b.append([c * scale for c in row])
    g.append([Fraction(k == r - 1) / scale for k in range(r)])
    return Filter(m, r, tuple(points), _matrix(a), _matrix(g), _matrix(b))


def _coefficients(roots: Sequence[Fraction]) -> list[Fraction]:
    """Of Π (x - root), the constant term first."""
    none, found = Fraction(0), [Fraction(1)]
    for root in roots:
        shifted = [none, *found]
        found = [low - root * high for low, high in zip(shifted, [*found, none], strict=True)]
    return found


def _integral(row: Sequence[Fraction]) -> Fraction:
    """What makes ``row`` coprime integers."""
    common = lcm(*(c.denominator for c in row))
    return Fraction(common, gcd(*(int(c * common) for c in row)))


def _matrix(rows: Sequence[Sequence[Fraction]]) -> Matrix:
    return tuple(tuple(row) for row in rows)


def prove(f: Filter) -> None:
    """Raise InternalError (WEFT-E0330) unless Σ_j A[i,j] G[j,k] B[j,p] = [p = i + k] everywhere.

    That is the whole identity: both sides are linear in x and w, so it holds for all data.
    """
    for i, k, p in product(range(f.m), range(f.r), range(f.n)):
        value = sum((f.a[i][j] * f.g[j][k] * f.b[j][p] for j in range(f.n)), start=Fraction(0))
        if value != (p == i + k):
            raise InternalError(
                "WEFT-E0330", f"F({f.m}, {f.r}) gives x[{p}] * w[{k}] the factor {value} in y[{i}]"
            )


@cache
def amplification(f: Filter) -> float:
    """The ratio of rounding errors to those of the direct sum, for random data.

    Products of independent x and w of variance 1 have variance |G_j|² |B_j|²; their errors
    contribute to y[i] times A[i, j]; the direct sum has r products of variance 1. The ratios of two
    axes multiply.
    """
    noise = [_squares(g) * _squares(b) for g, b in zip(f.g, f.b, strict=True)]
    return sqrt(
        sum(_squares(column) * e for column, e in zip(_columns(f.a), noise, strict=True))
        / (f.m * f.r)
    )


def _columns(rows: Matrix) -> list[tuple[Fraction, ...]]:
    return list(zip(*rows, strict=True))


def _squares(row: Sequence[Fraction]) -> float:
    return sum((float(c) ** 2 for c in row), start=0.0)


@cache
def growth(f: Filter) -> float:
    """The ratio of the greatest sum of absolute terms of y[i] to that of the direct sum."""
    size = [_sum(g) * _sum(b) for g, b in zip(f.g, f.b, strict=True)]
    return float(max(sum(abs(a) * s for a, s in zip(row, size, strict=True)) for row in f.a) / f.r)


def error_bound(filters: Sequence[Filter], others: int) -> float:
    """The largest error for |x|, |w| <= 1, in units of the rounding error of 1, to first order.

    ``others``: terms of the sums besides the taps of ``filters``. The longest chain of roundings
    meets the largest sum of absolute values (Higham 2002, section 3.1).
    """
    roundings = others + 1 + sum(2 * f.n + 2 for f in filters)
    return roundings * others * prod(growth(f) * f.r for f in filters)


def _sum(row: Sequence[Fraction]) -> Fraction:
    return sum(map(abs, row), start=Fraction(0))
