"""Polynomials: arithmetic against numbers, sums against adding up."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from random import Random

import pytest

from weft.ir.quasi_affine import affine
from weft.ir.scalar_expr import Var
from weft.polyhedral.analysis.polynomials import Polynomial, number, of_affine, symbol

N, M, i = symbol("N"), symbol("M"), symbol("i")


def _random(random: Random) -> Polynomial:
    total = number(0)
    for _ in range(random.randint(0, 4)):
        term = number(Fraction(random.randint(-6, 6), random.randint(1, 4)))
        for factor in random.choices((N, M, i), k=random.randint(0, 3)):
            term = term * factor
        total = total + term
    return total


POINTS = [dict(zip("NMi", p, strict=True)) for p in product((-2, 0, 3), (1, 5), (-1, 4))]


@pytest.mark.parametrize("seed", range(20))
def test_arithmetic_against_numbers(seed: int) -> None:
    random = Random(seed)
    a, b = _random(random), _random(random)
    for at in POINTS:
        x, y = a.value(at), b.value(at)
        assert (a + b).value(at) == x + y
        assert (a - b).value(at) == x - y
        assert (a * b).value(at) == x * y
        assert (a / 6 + 1).value(at) == x / 6 + 1
        assert a.replaced("i", b).value(at) == a.value({**at, "i": y})
    assert a + b == b + a and a * b == b * a and (a - a).terms == ()
    parts = a.coefficients("i")
    assert sum((p * _power(i, k) for k, p in parts.items()), number(0)) == a
    assert a.slope("i") == parts.get(1, number(0)).constant()


def _power(base: Polynomial, exponent: int) -> Polynomial:
    total = number(1)
    for _ in range(exponent):
        total = total * base
    return total


@pytest.mark.parametrize("power", range(8))
def test_sums_of_powers(power: int) -> None:
    total = _power(i, power).summed("i", M, N)
    for low, high in ((0, 5), (-3, 4), (2, 2), (3, 2)):
        assert total.value({"M": low, "N": high}) == sum(x**power for x in range(low, high + 1))


def test_text() -> None:
    assert str(number(0)) == "0"
    assert str(N * N * N * 2 / 3 + N * N / 2 - N + 4) == "2*N**3/3 + N**2/2 - N + 4"
    assert str(number(-1) * N * M * M) == "-M**2*N"
    assert str(number(Fraction(-3, 2))) == "-3/2"


def test_floors_count_as_their_mean() -> None:
    form, exact = of_affine(affine((Var("N") + 3) // 8 + Var("M")))
    assert not exact
    values = [form.value({"N": n, "M": 0}) for n in range(80)]
    floors = [(n + 3) // 8 for n in range(80)]
    assert sum(values) == pytest.approx(sum(floors), rel=0.01)
    assert of_affine(affine(2 * Var("N") - 1)) == (N * 2 - 1, True)
