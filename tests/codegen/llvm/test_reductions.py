"""Maxima and minima in vector loops: NaN in any lane, of any vector, of groups and of tails.
Sums of bytes: what LLVM makes of them."""

# mypy: disable-error-code="no-untyped-def, valid-type, name-defined"

import numpy as np
import pytest

import weft

OPTIONS = weft.Options(cache=False, threads=1)


def ends(dtype, N):
    @weft.kernel
    def ends(y: dtype[2], x: dtype[N]):
        for i in range(N):
            y[0] = max(y[0], x[i])
            y[1] = min(y[1], x[i])

    return ends


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64])
def test_nan_wherever_it_is(dtype) -> None:
    run = ends(dtype, "N").compile(options=OPTIONS)
    rng = np.random.default_rng(0)
    first = rng.standard_normal(1).astype(dtype.name)
    for size in (0, 1, 7, 16, 31, 64, 129):
        x = rng.standard_normal(size).astype(dtype.name)
        for where in range(-1, size):
            given, found = x.copy(), np.repeat(first, 2)
            if where >= 0:
                given[where] = np.nan
                given[rng.integers(size)] = rng.choice([np.inf, -np.inf, np.nan])
            run(found, given)
            everything = np.concatenate([first, given])
            np.testing.assert_array_equal(found, [everything.max(), everything.min()])
    start = np.full(2, np.nan, dtype.name)
    run(start, x)
    assert np.isnan(start).all()


def test_nan_in_rows_of_a_known_width() -> None:
    """Written out, and two vectors at a time beside a long computation (softmax)."""
    for width in (5, 16, 48, 100, 768):
        x = np.random.default_rng(1).standard_normal((9, width)).astype(np.float32)
        for row, column in ((0, 0), (3, width - 1), (4, width // 2), (8, min(width - 1, 17))):
            x[row, column] = np.nan
        x[5, 2] = np.inf
        t = weft.placeholder(x.shape, name="x")
        k = weft.reduce_axis((0, width), name="k")
        y = weft.compute((9,), lambda i: weft.max_over(t[i, k], k), name="y")  # noqa: B023
        found = weft.compile([y], options=OPTIONS)(x)
        np.testing.assert_array_equal(np.asarray(found), x.max(axis=1))


def sums(left, right, N):
    @weft.kernel
    def sums(y: weft.int32[2], a: left[N], b: right[N]):
        for i in range(N):
            y[0] += weft.int32(a[i]) * weft.int32(b[i])
        for i in range(N):
            y[1] += abs(weft.int32(a[i]) - weft.int32(b[i]))

    return sums


@pytest.mark.parametrize("left", [weft.uint8, weft.int8, weft.int16])
@pytest.mark.parametrize("right", [weft.uint8, weft.int8, weft.int16])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 8, 12, 16, 32, 64, 65, 200])
def test_sums_of_small_integers(left, right, size) -> None:
    """All of them in one vector, and several."""
    rng = np.random.default_rng(size)
    a, b = (rng.integers(d.lowest, d.highest, size, d.numpy, True) for d in (left, right))
    found = np.array([1, 2], np.int32)
    sums(left, right, size).compile(options=OPTIONS)(found, a, b)
    wide = a.astype(np.int32), b.astype(np.int32)
    assert found.tolist() == [1 + wide[0] @ wide[1], 2 + abs(wide[0] - wide[1]).sum()]
