"""Generates ``math_coefficients.py``: polynomials for the mathematical functions.

Each interpolates a function at the Chebyshev points of an interval, in 60 decimal digits; its
coefficients are then rounded once. The error is within a small factor of the minimax polynomial of
the same degree: at most one more term, without a search.

    python -m weft.codegen.fit_polynomials > codegen/math_coefficients.py
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal, getcontext, localcontext
from functools import partial
from textwrap import fill, indent

DIGITS = 60
Function = Callable[[Decimal], Decimal]

# name -> (function, lower, upper, terms in float32, terms in float64)
Fit = tuple[Function, float, float, int, int]


def series(coefficient: Callable[[int], Decimal], z: Decimal) -> Decimal:
    """Sum of coefficient(k) * z**k until the terms vanish."""
    total, power, k = Decimal(0), Decimal(1), 0
    while k < 600:
        term = coefficient(k) * power
        total += term
        if k > 8 and abs(term) < Decimal(10) ** -(DIGITS - 4):
            break
        power *= z
        k += 1
    return total


def _factorial(n: int) -> Decimal:
    return Decimal(math.factorial(n))


def _asin_term(k: int) -> Decimal:
    """Of (asin(x) - x) / x**3 in x**2."""
    n = k + 1
    return Decimal(math.comb(2 * n, n)) / (Decimal(4) ** n * (2 * n + 1))


def pi() -> Decimal:
    """Machin's formula."""
    fifth, rest = Decimal(1) / 5, Decimal(1) / 239
    terms = (
        weight * x * series(lambda k: Decimal((-1) ** k) / (2 * k + 1), x * x)
        for weight, x in ((16, fifth), (-4, rest))
    )
    return sum(terms, Decimal(0))


def _erf_over_x(z: Decimal) -> Decimal:
    factor = 2 / pi().sqrt()
    return factor * series(lambda k: Decimal((-1) ** k) / (_factorial(k) * (2 * k + 1)), z)


def erfc(x: Decimal) -> Decimal:
    """1 - erf(x) for x <= 7, the cancellation paid for with digits."""
    with localcontext() as context:
        context.prec = DIGITS + 50
        z, total, term, k = x * x, Decimal(0), Decimal(1), 0
        while abs(term) > Decimal(10) ** -(DIGITS + 40) or k < 10:
            total += term / (2 * k + 1)
            k += 1
            term *= -z / k
        return 1 - 2 / _PI.sqrt() * x * total


def _scaled_erfc(t: Decimal) -> Decimal:
    """exp(x**2) * erfc(x) where x = 2 (1 + t) / (1 - t)."""
    x = 2 * (1 + t) / (1 - t)
    return (x * x).exp() * erfc(x)


getcontext().prec = DIGITS
_PI = pi()
_LN2 = Decimal(2).ln()

FITS: dict[str, Fit] = {
    # exp(r) = 1 + r + r**2 * EXP(r); the same for expm1
    "EXP": (lambda r: series(lambda k: 1 / _factorial(k + 2), r), -0.3467, 0.3467, 5, 11),
    # The same beside 16, or 8, powers of two between 1 and 2
    "EXP_16": (lambda r: series(lambda k: 1 / _factorial(k + 2), r), -0.0217, 0.0217, 2, 0),
    "EXP_8": (lambda r: series(lambda k: 1 / _factorial(k + 2), r), -0.0434, 0.0434, 0, 7),
    # 2**r = 1 + r * ln 2 + r**2 * EXP2(r)
    "EXP2": (
        lambda r: series(lambda k: _LN2 ** (k + 2) / _factorial(k + 2), r), -0.5001, 0.5001, 5, 11
    ),
    # log(1 + f) = f - f**2 / 2 + s * (f**2 / 2 + z * LOG(z)), s = f / (2 + f), z = s**2
    "LOG": (lambda z: series(lambda k: Decimal(2) / (2 * k + 3), z), 0.0, 0.0296, 3, 8),
    # log(1 + f) = 2 s + 2/3 s**3 + s**5 * LOG_TAIL(z)
    "LOG_TAIL": (lambda z: series(lambda k: Decimal(2) / (2 * k + 5), z), 0.0, 0.0296, 3, 9),
    # sin(r) = r + r**3 * SIN(r**2)
    "SIN": (
        lambda z: series(lambda k: Decimal((-1) ** (k + 1)) / _factorial(2 * k + 3), z),
        0.0, 0.63, 3, 7,
    ),
    # cos(r) = 1 - r**2 / 2 + r**4 * COS(r**2)
    "COS": (
        lambda z: series(lambda k: Decimal((-1) ** k) / _factorial(2 * k + 4), z),
        0.0, 0.63, 3, 7,
    ),
    # atan(t) = t + t**3 * ATAN(t**2)
    "ATAN": (
        lambda z: series(lambda k: Decimal((-1) ** (k + 1)) / (2 * k + 3), z), 0.0, 0.1717, 6, 13
    ),
    # asin(x) = x + x**3 * ASIN(x**2)
    "ASIN": (lambda z: series(_asin_term, z), 0.0, 0.2501, 6, 15),
    # tanh(x) = x + x**3 * TANH(x**2)
    "TANH": (
        lambda z: _tanh_rest(z), 1e-4, 0.3907, 6, 14
    ),
    # erf(x) = x * ERF(x**2)
    "ERF": (_erf_over_x, 0.0, 1.0, 0, 14),
    # erfc(x) = exp(-x**2) * ERFC(t), t = (x - 2) / (x + 2)
    "ERFC": (_scaled_erfc, -0.334, 0.501, 0, 20),
}  # fmt: skip


def _tanh_rest(z: Decimal) -> Decimal:
    x = z.sqrt()
    return (_tanh(x) - x) / (x * z)


def fit(function: Function, lower: float, upper: float, terms: int) -> list[Decimal]:
    """Coefficients, constant first, of the polynomial of ``terms`` terms."""
    middle, half = (lower + upper) / 2, (upper - lower) / 2
    angles = (math.pi * (2 * k + 1) / (2 * terms) for k in range(terms))
    points = [Decimal(middle + half * math.cos(a)) for a in angles]
    table = [function(x) for x in points]
    for order in range(1, terms):  # Newton's divided differences, in place
        for k in range(terms - 1, order - 1, -1):
            table[k] = (table[k] - table[k - 1]) / (points[k] - points[k - order])
    polynomial = [table[-1]]
    for k in range(terms - 2, -1, -1):  # times (x - point), plus the next difference
        shifted = [Decimal(0), *polynomial]
        for i, c in enumerate(polynomial):
            shifted[i] -= points[k] * c
        shifted[0] += table[k]
        polynomial = shifted
    return polynomial


def fit_quotient(
    function: Function, upper: float, top: int, bottom: int
) -> tuple[list[Decimal], list[Decimal]]:
    """Numerator and denominator (constant 1) of ``top`` and ``bottom`` terms on 0 … ``upper``.

    Interpolation again, at points drawn towards 0: the linear system p(x) - f(x) q(x) = 0.
    """
    count = top + bottom - 1
    angles = (math.pi * (2 * k + 1) / (2 * count) for k in range(count))
    points = [Decimal(upper * ((1 + math.cos(a)) / 2) ** 1.5) for a in angles]
    rows = []
    for x in points:
        value = function(x)
        powers = [x**k for k in range(max(top, bottom))]
        rows.append([*powers[:top], *(-value * p for p in powers[1:bottom]), value])
    solution = _solved(rows)
    return solution[:top], [Decimal(1), *solution[top:]]


def _solved(rows: list[list[Decimal]]) -> list[Decimal]:
    """Gauss and Jordan's elimination; the last column is the right-hand side."""
    size = len(rows)
    for column in range(size):
        pivot = max(range(column, size), key=lambda r: abs(rows[r][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for r in range(size):
            if r != column:
                factor = rows[r][column] / rows[column][column]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[column], strict=True)]
    return [rows[k][-1] / rows[k][k] for k in range(size)]


def fit_pieces(
    function: Function, parts: int, count: int, terms: int, end: Function
) -> list[float]:
    """Coefficients, all constant ones first, of ``count`` polynomials in d: of ``function`` at
    x = j / ``parts`` + d, |d| <= 1 / (2 * ``parts``), the first for d >= 0 and without a constant
    where the function is 0 there; the last one is that of ``end``."""
    half, pieces = 0.5 / parts, []
    for j in range(count):
        at, piece = Decimal(j) / parts, function if j < count - 1 else end
        low = -half if j else 0.0
        if j == 0 and not function(Decimal(0)):
            pieces.append([Decimal(0), *fit(lambda d: function(d) / d, low, half, terms - 1)])
        else:
            shifted = partial(_shifted, piece, at)
            pieces.append(fit(shifted, low, half, terms))
    return [nearest_single(piece[k]) for k in range(terms) for piece in pieces]


def _shifted(function: Function, at: Decimal, d: Decimal) -> Decimal:
    return function(at + d)


def _tanh(x: Decimal) -> Decimal:
    e = (2 * x).exp()
    return (e - 1) / (e + 1)


def _erf_root(z: Decimal) -> Decimal:
    """erf(x) / x in z = x**2, also where the series is slow."""
    if z < Decimal("0.25"):
        return _erf_over_x(z)
    x = z.sqrt()
    return (1 - erfc(x)) / x


def nearest_single(value: Decimal) -> float:
    return float(struct.unpack("<f", struct.pack("<f", float(value)))[0])


def split(value: Decimal, bits: int, single: bool) -> tuple[float, float, float]:
    """``value`` as head + middle + tail, head and middle of ``bits`` bits each (exact products)."""
    parts = []
    for _ in range(2):
        exponent = math.frexp(float(value))[1]
        scale = Decimal(2) ** (bits - exponent)
        part = Decimal(int(value * scale)) / scale
        parts.append(float(part))
        value -= part
    tail = nearest_single(value) if single else float(value)
    return parts[0], parts[1], tail


def tables() -> Iterator[tuple[str, tuple[float, ...], tuple[float, ...]]]:
    """(name, float32 coefficients, float64 coefficients), constants and splits included."""
    for name, (function, lower, upper, short, long) in FITS.items():
        yield (
            name,
            tuple(nearest_single(c) for c in fit(function, lower, upper, short)) if short else (),
            tuple(float(c) for c in fit(function, lower, upper, long)) if long else (),
        )
    # erf(x) = x * ERF_TOP(x**2) / ERF_BOTTOM(x**2) for x**2 <= 15, beyond which float32 has 1
    for name, part in zip(
        ("ERF_TOP", "ERF_BOTTOM"), fit_quotient(_erf_root, 15.0, 6, 6), strict=True
    ):
        yield name, tuple(map(nearest_single, part)), ()
    # Pieces around multiples of 1 / 8 and 1 / 2: erf(x) / x, tanh(x)
    yield "ERF_32", tuple(fit_pieces(lambda x: _erf_root(x * x), 8, 32, 4, lambda x: 1 / x)), ()
    yield "TANH_32", tuple(fit_pieces(_tanh, 2, 32, 8, lambda x: Decimal(1))), ()
    powers = [[Decimal(2) ** (Decimal(j) / n) for j in range(n)] for n in (16, 8)]
    yield "POWERS", tuple(map(nearest_single, powers[0])), tuple(map(float, powers[1]))
    for name, value in (("LN2", _LN2), ("HALF_PI", _PI / 2), ("LOG2_E", 1 / _LN2)):
        yield name, split(value, 24, True), split(value, 53, False)


def two_over_pi(bits: int) -> int:
    """floor(2 / pi * 2**bits)."""
    with localcontext() as context:
        context.prec = int(bits * 0.302) + 20
        one = Decimal(10) ** -(context.prec - 2)

        def arctan(inverse: int) -> Decimal:
            power = Decimal(1) / inverse
            total, k = power, 1
            while power > one:
                power /= inverse * inverse
                total += Decimal((-1) ** k) * power / (2 * k + 1)
                k += 1
            return total

        value = 2 / (16 * arctan(5) - 4 * arctan(239))
        return int(value * Decimal(2) ** bits)


def main() -> None:
    print('"""Polynomials and constants of ``math_functions``; written by ``fit_polynomials``."""')
    print("\nfrom __future__ import annotations\n\n# fmt: off")
    for precision, column in (("float", 1), ("double", 2)):
        print(f"{precision.upper()}: dict[str, tuple[float, ...]] = {{")
        for row in tables():
            values = row[column]
            assert isinstance(values, tuple)
            if not values:
                continue
            print(f'    "{row[0]}": (')
            print(indent(fill(" ".join(f"{v!r}," for v in values), 92), " " * 8))
            print("    ),")
        print("}")
    print("# fmt: on\n\n# 1280 bits of 2 / pi behind the binary point, most significant first")
    digits = f"{two_over_pi(1280):0320x}"
    print("TWO_OVER_PI = (")
    for start in range(0, 320, 64):
        print(f'    "{digits[start : start + 64]}"')
    print(")")


if __name__ == "__main__":
    main()
