"""Handlers of Bessel's functions and Airy's, in float64 for results of at most 32 bits.

All are one power series near 0 and one asymptotic series far from it (Abramowitz and Stegun, 1964,
chapters 9 and 10). Where they meet, what cancels in the first and what the second leaves out are
both about exp(-2 · 9) of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from weft.frontend.torch.special import number, polynomial, special
from weft.ir.scalar_expr import Expr, apply, select

MEET = 9.0
_NEAR_TERMS, _FAR_TERMS = 28, 18  # the next of each is smaller than the error of the other

Weight = Callable[[int], float]


def _near(order: float, q: Expr, weight: Weight = lambda _: 1.0) -> Expr:
    """Σ_k weight(k) qᵏ / (k! Γ(k + order + 1)): I_order(x) = (x/2)^order times that of x²/4."""
    terms = [
        weight(k) / (math.factorial(k) * math.gamma(k + order + 1)) for k in range(_NEAR_TERMS)
    ]
    return polynomial(q, tuple(terms))


def _far_coefficients(order: float) -> list[float]:
    """a_k = Π_{j ≤ k} (4 order² - (2j - 1)²) / 8j."""
    found = [1.0]
    for j in range(1, _FAR_TERMS):
        found.append(found[-1] * (4 * order**2 - (2 * j - 1) ** 2) / (8 * j))
    return found


def _far(order: float, x: Expr, sign: int) -> Expr:
    """Σ_k a_k (sign / x)ᵏ."""
    return polynomial(number(sign) / x, tuple(_far_coefficients(order)))


def _waves(order: float, x: Expr) -> tuple[Expr, Expr]:
    """Σ_k (-1)ᵏ a_2k / x²ᵏ, and the same of a_2k+1: the factors of cosine and sine."""
    signed = [a * (-1) ** (k // 2) for k, a in enumerate(_far_coefficients(order))]
    square = number(1) / (x * x)
    return polynomial(square, tuple(signed[::2])), polynomial(square, tuple(signed[1::2])) / x


def _harmonic(order: int) -> Weight:
    """ψ(k + 1) + ψ(k + order + 1)."""

    def psi(n: int) -> float:
        return sum(1 / j for j in range(1, n)) - 0.5772156649015329  # Euler's constant

    return lambda k: psi(k + 1) + psi(k + order + 1)


def _split(x: Expr, near: Expr, far: Expr) -> Expr:
    return select(x < MEET, near, far)


def _odd(order: int, x: Expr, found: Expr) -> Expr:
    """``found`` for |x| as the value for x."""
    return select(x < 0, number(0) - found, found) if order else found


# ---- the first kind -----------------------------------------------------------------------------


def _first(order: int) -> Callable[[Expr], Expr]:
    """J."""

    def found(x: Expr) -> Expr:
        size = abs(x)
        even, odd = _waves(order, size)
        angle = size - (order / 2 + 0.25) * math.pi
        wave = even * apply("cos", angle) - odd * apply("sin", angle)
        far = wave * apply("sqrt", number(2 / math.pi) / size)
        near = _near(order, size * size * -0.25) * (size * 0.5 if order else 1)
        return _odd(order, x, _split(size, near, far))

    return found


def _modified_first(order: int, scaled: bool) -> Callable[[Expr], Expr]:
    """I, or I exp(-|x|)."""

    def found(x: Expr) -> Expr:
        size = abs(x)
        near = _near(order, size * size * 0.25) * (size * 0.5 if order else 1)
        far = _far(order, size, -1) / apply("sqrt", size * (2 * math.pi))
        down, up = apply("exp", number(0) - size), apply("exp", size)
        value = _split(size, near * down, far) if scaled else _split(size, near, far * up)
        return _odd(order, x, value)

    return found


# ---- the second kind, of positive numbers -------------------------------------------------------


def _second(order: int) -> Callable[[Expr], Expr]:
    """Y."""

    def found(x: Expr) -> Expr:
        even, odd = _waves(order, x)
        angle = x - (order / 2 + 0.25) * math.pi
        wave = even * apply("sin", angle) + odd * apply("cos", angle)
        far = wave * apply("sqrt", number(2 / math.pi) / x)
        q, half = x * x * -0.25, x * 0.5 if order else number(1)
        near = apply("log", x * 0.5) * _near(order, q) * 2 - _near(order, q, _harmonic(order))
        near = near * half - (number(2) / x if order else 0)
        edge = select(x.equal(0), number(-math.inf), number(math.nan))
        return select(x > 0, _split(x, near / math.pi, far), edge)

    return found


def _modified_second(order: int, scaled: bool) -> Callable[[Expr], Expr]:
    """K, or K exp(x)."""

    def found(x: Expr) -> Expr:
        far = _far(order, x, 1) * apply("sqrt", number(math.pi / 2) / x)
        q, half = x * x * 0.25, x * 0.5 if order else number(1)
        near = apply("log", x * 0.5) * _near(order, q) - _near(order, q, _harmonic(order)) * 0.5
        near = near * half * (-1) ** (order + 1) + (number(1) / x if order else 0)
        down, up = apply("exp", number(0) - x), apply("exp", x)
        value = _split(x, near * up, far) if scaled else _split(x, near, far * down)
        edge = select(x.equal(0), number(math.inf), number(math.nan))
        return select(x > 0, value, edge)

    return found


for _n in (0, 1):
    special(_first(_n), f"aten.special_bessel_j{_n}", f"prims.bessel_j{_n}")
    special(_second(_n), f"aten.special_bessel_y{_n}")
    special(
        _modified_first(_n, False), f"aten.special_modified_bessel_i{_n}", f"prims.bessel_i{_n}"
    )
    special(_modified_first(_n, True), f"prims.bessel_i{_n}e")
    special(_modified_second(_n, False), f"aten.special_modified_bessel_k{_n}")
    special(_modified_second(_n, True), f"aten.special_scaled_modified_bessel_k{_n}")


# ---- others -------------------------------------------------------------------------------------


def spherical_first(x: Expr) -> Expr:
    """sin x / x."""
    return select(x.equal(0), number(1), apply("sin", x) / x)


def airy(x: Expr) -> Expr:
    """Ai, with z = 2/3 |x|^(3/2): K_1/3(z) of positive x, waves of negative ones."""
    size = abs(x)
    z = size * apply("sqrt", size) * (2 / 3)
    cube = x * x * x / 9
    near = _near(-1 / 3, cube) * 3 ** (-2 / 3) - x * _near(1 / 3, cube) * 3 ** (-4 / 3)
    falls = _far(1 / 3, z, 1) * apply("exp", number(0) - z) * 0.5
    even, odd = _waves(1 / 3, z)
    angle = z + math.pi / 4
    wave = even * apply("sin", angle) + odd * apply("cos", angle)
    far = select(x > 0, falls, wave) / apply("sqrt", apply("sqrt", size) * math.pi)
    return _split(z, near, select(size.equal(math.inf), number(0), far))


special(spherical_first, "aten.special_spherical_bessel_j0", "prims.spherical_bessel_j0")
special(airy, "aten.special_airy_ai")
