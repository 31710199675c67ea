from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.graph.minimal_filtering import (
    POINTS,
    Filter,
    amplification,
    error_bound,
    growth,
    minimal_filter,
    prove,
    toom_cook,
)
from weft.ir.errors import InternalError

SIZES = [(m, r) for m, r in product(range(1, 8), range(1, 8)) if m + r <= 9]


@pytest.mark.parametrize(("m", "r"), SIZES)
def test_every_filter_is_proved_and_exact_in_floats(m: int, r: int) -> None:
    f = minimal_filter(m, r)
    prove(f)  # once more: the search proves what it returns
    assert (len(f.a), len(f.g), len(f.b)) == (m, f.n, f.n)
    for value in (v for matrix in (f.a, f.b) for row in matrix for v in row):
        assert Fraction(float(np.float32(float(value)))) == value
    assert all(v.denominator == 1 for row in f.b for v in row)


points = st.lists(
    st.fractions(min_value=-9, max_value=9, max_denominator=9), min_size=0, max_size=8, unique=True
)


@given(points, st.data())
def test_any_different_points_give_a_filter_of_any_shape(chosen, data) -> None:
    m = data.draw(st.integers(1, len(chosen) + 1))
    f = toom_cook(m, len(chosen) + 2 - m, chosen)
    prove(f)
    numbers = st.fractions(min_value=-99, max_value=99, max_denominator=99)
    x = data.draw(st.lists(numbers, min_size=f.n, max_size=f.n))
    w = data.draw(st.lists(numbers, min_size=f.r, max_size=f.r))
    v = [sum(c * e for c, e in zip(row, x, strict=True)) for row in f.b]
    u = [sum(c * e for c, e in zip(row, w, strict=True)) for row in f.g]
    y = [sum(c * p * q for c, p, q in zip(row, u, v, strict=True)) for row in f.a]
    assert y == [sum(x[i + k] * w[k] for k in range(f.r)) for i in range(m)]


@given(st.sampled_from(SIZES), st.sampled_from("agb"), st.data())
def test_a_changed_coefficient_is_refused(size, name, data) -> None:
    f = minimal_filter(*size)
    rows = [list(row) for row in getattr(f, name)]
    row = data.draw(st.integers(0, len(rows) - 1))
    column = data.draw(st.integers(0, len(rows[row]) - 1))
    rows[row][column] += data.draw(st.sampled_from([Fraction(1), Fraction(-1, 7)]))
    broken = replace(f, **{name: tuple(map(tuple, rows))})
    with pytest.raises(InternalError, match="E0330"):
        prove(broken)


def test_known_forms() -> None:
    f = minimal_filter(2, 3)
    assert f.points == (0, 1, -1)
    assert f.a == ((1, 1, 1, 0), (0, 1, -1, 1))
    assert f.b == ((-1, 0, 1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, -1, 0, 1))
    half = Fraction(1, 2)
    assert f.g == ((-1, 0, 0), (half, half, half), (half, -half, half), (0, 0, 1))


def test_the_chosen_points_round_least() -> None:
    lavin = toom_cook(4, 3, tuple(map(Fraction, (0, 1, -1, 2, -2))))
    assert amplification(minimal_filter(4, 3)) < amplification(lavin)
    assert set(minimal_filter(6, 3).points) <= set(POINTS)


def direct(m: int, r: int) -> Filter:
    """The direct sum as a bilinear form of m * r products, to compare with."""
    pairs = list(product(range(m), range(r)))
    one = Fraction(1)
    a = tuple(tuple(one * (i == row) for i, _ in pairs) for row in range(m))
    g = tuple(tuple(one * (k == tap) for tap in range(r)) for _, k in pairs)
    b = tuple(tuple(one * (p == i + k) for p in range(m + r - 1)) for i, k in pairs)
    return Filter(m, r, (), a, g, b)


@given(st.integers(1, 6), st.integers(1, 6))
def test_the_direct_sum_amplifies_nothing(m: int, r: int) -> None:
    assert amplification(direct(m, r)) == pytest.approx(1)
    assert growth(direct(m, r)) == 1
    assert error_bound([direct(m, r)], 5) >= 5 * r


@pytest.mark.parametrize(("m", "r"), [(2, 3), (4, 3), (6, 3), (2, 5), (4, 5)])
def test_amplification_is_what_random_data_shows(m: int, r: int) -> None:
    f = minimal_filter(m, r)
    a, g, b = (np.array([[float(v) for v in row] for row in t]) for t in (f.a, f.g, f.b))
    random = np.random.default_rng(m * r)
    w, x = random.standard_normal((4000, r)), random.standard_normal((4000, f.n))
    noise = random.standard_normal((4000, f.n))  # a rounding error of each product
    errors = ((w @ g.T) * (x @ b.T) * noise) @ a.T
    assert np.sqrt((errors**2).mean() / r) == pytest.approx(amplification(f), rel=0.15)
