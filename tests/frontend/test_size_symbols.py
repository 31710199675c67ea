"""What is known and assumed of the sizes of one graph."""

import pytest

from weft.frontend.size_symbols import SizeSymbols
from weft.ir.scalar_expr import Var, binary, select

N, M, K = Var("n"), Var("m"), Var("k")


def symbols(**ranges):
    sizes = SizeSymbols()
    for name in ("n", "m", "k"):
        sizes.open(name, *ranges.get(name, ()))
    return sizes


def test_unified_sizes_look_equal_and_are_conditions():
    sizes = symbols()
    assert sizes.unify(M, N) and sizes.normal(M) == N and sizes.normal(M + 1) == sizes.normal(N + 1)
    assert sizes.unify(N, 7)
    assert sizes.normal(M) == 7 and sizes.normal(N * M) == 49
    assert sizes.conditions() == ("m == 7", "n == 7")


def test_what_cannot_be_unified():
    sizes = symbols()
    assert not sizes.unify(3, 4)
    assert not sizes.unify(N * M, 12)
    assert not sizes.unify(2 * N, 5)
    assert sizes.conditions() == ()


def test_a_sum_gives_up_one_of_its_parts():
    sizes = symbols()
    assert sizes.unify(K, N + M)
    assert sizes.conditions() == ("k == m + n",)


@pytest.mark.parametrize("least", [binary("min", N, 64 + 0 * N), binary("min", N, 64 + 0 * N) + 0])
def test_a_minimum_and_its_size_are_one_where_it_is_small(least):
    sizes = symbols()
    assert sizes.unify(least, N)
    assert sizes.normal(least) == N and sizes.conditions() == ("n <= 64",)


def test_ranges_decide_minima_and_maxima():
    sizes = symbols(n=(3, 8))
    assert sizes.normal(binary("max", N, 2 + 0 * N)) == N
    assert sizes.normal(binary("min", N, 9 + 0 * N)) == N
    assert sizes.normal(binary("max", binary("min", N, 6 + 0 * N), 0 * N)) == binary(
        "min", N, 6 + 0 * N
    )
    assert sizes.normal(binary("max", N - 3, 0 * N)) == sizes.normal(N - 3)
    assert sizes.normal(binary("max", N - 4, 0 * N)) != sizes.normal(N - 4)


def test_equalities_that_are_known_are_no_conditions():
    sizes = symbols()
    sizes.assume_equal(N * (M + 1), N * M + N)
    assert sizes.conditions() == ()
    sizes.assume_equal(N * 128 * M, M * 128)
    assert sizes.conditions() == ("m * n == m",)


def test_at_most():
    sizes = symbols(n=(0, 8))
    sizes.assume_at_most(N, 8)
    sizes.assume_at_most(N + 1, 9)
    sizes.assume_at_most(M, 5)
    sizes.assume_at_most(M, 6)
    assert sizes.conditions() == ("n <= 8", "m <= 5")


def test_assumptions_are_of_symbols_that_calls_tell():
    sizes = symbols()
    sizes.assume((N > 1) | (M > 1))
    sizes.assume(select(N > 1, N, M) > 2)
    assert len(sizes.assumed(["n", "m"])) == 2 and sizes.assumed(["n"]) == ()


def test_equalities_say_how_sizes_are_written():
    sizes = symbols()
    sizes.assume((N // (N // 2)).equal(2))
    sizes.assume((8 * N).equal(8 * (N // 2) * (N // (N // 2))))
    sizes.assume((16 * M * K).equal(16 * M * N))
    sizes.learn()
    half = Var("n_by_2")
    assert sizes.normal(N) == sizes.normal(2 * half)
    assert sizes.normal(N // 2) == half and sizes.normal((N + 1) // 2 * 2) == sizes.normal(N)
    assert sizes.normal(N // (N // 2)) == 2
    assert sizes.normal(K) == sizes.normal(N)
    assert "n == n_by_2 * 2" in sizes.conditions()


def test_a_multiple_keeps_its_range():
    sizes = symbols(n=(3, 10))
    sizes.assume(N.equal(2 + (N - 1) // 2 * 2))
    sizes.learn()
    assert sizes.ranges["n_by_2"] == (2, 5)
    assert sizes.normal((N - 1) // 2) == sizes.normal(Var("n_by_2") - 1)


def test_equalities_that_say_nothing():
    sizes = symbols()
    sizes.assume((N * M).equal(12))
    sizes.assume(N.equal(N))
    sizes.assume((N // 3).equal(M // 2))
    sizes.learn()
    assert not sizes.equal and not sizes.numbers


def test_what_a_tracer_took_for_granted_becomes_a_condition():
    sizes = symbols()
    sizes.traced["n"] = 2
    assert not sizes.at_least(N - 1, 0)
    assert not sizes.assume_at_least(N - 3, 0) and not sizes.assume_at_least(M - 1, 0)
    assert sizes.conditions() == ()
    assert sizes.assume_at_least(N - 1, 0) and sizes.assume_at_least(N, 0)
    assert sizes.conditions() == ("n - 1 >= 0",)
