"""Sums of products: which factors meet first, and that the sums are what they were."""

# ruff: noqa: F821  (sizes of a signature are names in the function's body)

import numpy as np
import pytest

import weft
from weft.ir.scalar_printer import scalar_text
from weft.polyhedral.regroup_products import regroup_products


@weft.kernel
def mttkrp(
    M: weft.f64["I", "R"], X: weft.f64["I", "J", "K"], B: weft.f64["J", "R"], C: weft.f64["K", "R"]
):
    for i in range(I):
        for j in range(J):
            for k in range(K):
                for r in range(R):
                    M[i, r] += X[i, j, k] * B[j, r] * C[k, r]


@weft.kernel
def subtracted(
    M: weft.i32["I", "R"], X: weft.i32["I", "K"], B: weft.i32["R"], C: weft.i32["K", "R"]
):
    for i in range(I):
        for k in range(K):
            for r in range(R):
                M[i, r] -= C[k, r] * X[i, k] * B[r]


@weft.kernel
def scaled(
    M: weft.f64["I", "R"], X: weft.f64["I", "K"], B: weft.f64["K", "R"], s: weft.f64["I", "K"]
):
    for i in range(I):
        for k in range(K):
            for r in range(R):
                M[i, r] += 2.0 * X[i, k] * B[k, r] * s[i, k]


@weft.kernel
def bilinear(total: weft.f64[1], x: weft.f64["I"], A: weft.f64["I", "J"], y: weft.f64["J"]):
    for i in range(I):
        for j in range(J):
            total[0] += x[i] * A[i, j] * y[j]


@weft.kernel
def narrow(
    M: weft.f16["I", "R"], X: weft.f16["I", "J"], B: weft.f16["J", "R"], C: weft.f16["J", "R"]
):
    for i in range(I):
        for j in range(J):
            for r in range(R):
                M[i, r] += X[i, j] * B[j, r] * C[j, r]


@weft.kernel
def no_sum(M: weft.f64["I", "R"], X: weft.f64["I"], B: weft.f64["R"], C: weft.f64["R"]):
    for i in range(I):
        for r in range(R):
            M[i, r] = X[i] * B[r] * C[r]


def product(kernel: weft.Kernel) -> str:
    """The contribution of ``kernel``'s statement, regrouped, with its arrays' names."""
    (statement,) = regroup_products(kernel.lowered.scop).statements
    text = scalar_text(statement.body.results[0])
    for number, read in enumerate(statement.reads):
        text = text.replace(f"{number}[]", read.tensor)
    return text


@pytest.mark.parametrize(
    "kernel, expected",
    [
        (mttkrp, "X * (B * C)"),
        (scaled, "float64(2.0) * X * s * B"),
        (subtracted, "-(C * B * X)"),
        (bilinear, "x * A * y"),
        (narrow, "X * B * C"),
        (no_sum, "X * B * C"),
    ],
)
def test_what_meets_first(kernel: weft.Kernel, expected: str) -> None:
    assert product(kernel) == expected


@pytest.mark.parametrize("sizes", [(0, 3, 3, 3), (1, 1, 1, 1), (13, 5, 7, 9), (300, 2, 17, 31)])
@pytest.mark.parametrize("threads", [1, 2])
def test_sums_are_what_they_were(sizes: tuple[int, ...], threads: int) -> None:
    i, j, k, r = sizes
    random = np.random.default_rng(0)
    m, x, b, c = (random.standard_normal(s) for s in ((i, r), (i, j, k), (j, r), (k, r)))
    expected = m + np.einsum("ijl,jr,lr->ir", x, b, c)
    weft.compile(mttkrp, options=weft.Options(threads=threads))(m, x, b, c)
    np.testing.assert_allclose(m, expected, rtol=1e-12, atol=1e-12)


def test_integers_wrap_as_they_did() -> None:
    random = np.random.default_rng(1)
    m, x, b, c = (
        random.integers(-(2**31), 2**31, s, np.int32) for s in ((5, 9), (5, 7), (9,), (7, 9))
    )
    expected = m - np.einsum("il,r,lr->ir", x, b, c)
    weft.compile(subtracted)(m, x, b, c)
    np.testing.assert_array_equal(m, expected)


def test_with_strict_nothing_moves() -> None:
    """The product that comes first overflows; the other one would not."""
    m, x, b, c = (
        np.zeros((1, 1)),
        *(np.full(s, v) for s, v in (((1, 1, 1), 1e200), ((1, 1), 1e200), ((1, 1), 1e-200))),
    )
    weft.compile(mttkrp, options=weft.Options(strict=True))(m, x, b, c)
    assert np.isinf(m[0, 0])


def test_what_takes_more_memory_than_the_arrays_is_not_stored() -> None:
    text = str(weft.schedule(mttkrp).automatic())
    assert "precompute" not in text


def test_a_schedule_of_its_own_is_of_this_program() -> None:
    for options in (weft.Options(), weft.Options(strict=True)):
        script = weft.schedule(mttkrp, options=options).automatic()
        own = weft.compile(mttkrp, schedule=script, options=options)
        assert own.source("llvm") == weft.compile(mttkrp, options=options).source("llvm")


def test_products_of_operators_are_regrouped_and_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_VERIFY", "full")
    random = np.random.default_rng(2)
    x, b, c = (random.standard_normal(s) for s in ((4, 5, 3), (5, 7), (3, 7)))
    j, k = (weft.reduce_axis((0, n), name=t) for n, t in ((5, "j"), (3, "k")))
    xs, bs, cs = (
        weft.placeholder(a.shape, "float64", name=n) for a, n in zip((x, b, c), "xbc", strict=True)
    )
    y = weft.compute(
        (4, 7), lambda i, r: weft.sum(xs[i, j, k] * bs[j, r] * cs[k, r], axis=(j, k)), name="y"
    )
    found = weft.compile(y, options=weft.Options(cache=False))(x, b, c)
    np.testing.assert_allclose(found, np.einsum("ijk,jr,kr->ir", x, b, c), rtol=1e-12)
