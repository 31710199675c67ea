"""Elements that several lanes share, ``x[j // 2]``: contiguous loads and a shuffle, no gather."""

# ruff: noqa: F821
# mypy: disable-error-code="name-defined, valid-type, no-untyped-def"

import numpy as np
import pytest

import weft
from tests.guarded import Guarded

OPTIONS = weft.Options(threads=1, cache=False, workers=0, target="x86-64-v4")
HERE = weft.Options(threads=1, cache=False, workers=0)
SIZES = (0, 1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 64, 65, 127, 131)


def enlarged(times: int, dtype):
    @weft.kernel
    def enlarge(x: dtype["N"], y: dtype[f"{times} * N"]):
        for j in range(times * N):
            y[j] = x[j // times]

    return enlarge


@pytest.mark.parametrize("dtype", [weft.u8, weft.i16, weft.f32, weft.f64, weft.i64])
@pytest.mark.parametrize("times", [1, 2, 3, 4, 6, 8, 16, 64, 128])
def test_repeated_elements(times: int, dtype: weft.DType) -> None:
    run = weft.compile(enlarged(times, dtype), options=HERE)
    for n in SIZES:
        x = np.random.default_rng(n).integers(0, 99, n).astype(dtype.numpy)
        for at_end in (False, True):  # of a page that nothing may be read beyond
            given = Guarded(x.nbytes, at_end=at_end).array(x.shape, x.dtype)
            given[...] = x
            y = np.zeros(times * n, dtype.numpy)
            run(given, y)
            np.testing.assert_array_equal(y, np.repeat(x, times))


@weft.kernel
def woven(a: weft.f32["N"], b: weft.f32["N"], c: weft.f32["2 * N"]):
    for j in range(2 * N):
        c[j] = a[j // 2] if j % 2 == 0 else b[j // 2]


@weft.kernel
def shifted(x: weft.f64["N"], y: weft.f64["N"], first: int):
    for j in range(3, N):
        y[j] = x[(j + 1) // 2] - x[j // 4 + 1] + (x[(2 * j + 6) // 4] if j > first else 0.0)


@weft.kernel
def phased(x: weft.i32["N"], y: weft.i32["N"]):
    for j in range(N):
        y[j] = x[j // 2] * (j % 4) - (3 * j) % 8 + (2 * j) // 8 + (-j) // 2 - (-j) % 4


@pytest.mark.parametrize("n", SIZES)
def test_in_turns(n: int) -> None:
    a, b = np.random.default_rng(n).random((2, n), np.float32)
    c = np.zeros(2 * n, np.float32)
    weft.compile(woven, options=HERE)(a, b, c)
    np.testing.assert_array_equal(c, np.stack([a, b], 1).ravel())


@pytest.mark.parametrize("first", [-1, 5, 1000])
@pytest.mark.parametrize("n", SIZES[3:])
def test_from_other_places_and_under_conditions(n: int, first: int) -> None:
    """Masks reach the elements: what no lane needs is not read."""
    x, y = np.random.default_rng(n).random(n), np.zeros(n)
    j = np.arange(3, n)
    right = x[(j + 1) // 2] - x[j // 4 + 1] + np.where(j > first, x[(2 * j + 6) // 4 % n], 0.0)
    weft.compile(shifted, options=HERE)(x, y, first)
    np.testing.assert_array_equal(y[3:], right)


@pytest.mark.parametrize("n", SIZES)
def test_quotients_and_remainders_of_lanes(n: int) -> None:
    x, y = np.random.default_rng(n).integers(-9, 9, n, np.int32), np.zeros(n, np.int32)
    j = np.arange(n)
    right = x[j // 2] * (j % 4) - (3 * j) % 8 + (2 * j) // 8 + (-j) // 2 - (-j) % 4
    weft.compile(phased, options=HERE)(x, y)
    np.testing.assert_array_equal(y, right)


@pytest.mark.parametrize("times", [2, 4, 8])
def test_no_element_is_gathered(times: int) -> None:
    code = weft.compile(enlarged(times, weft.f32), options=OPTIONS).source("llvm")
    assert "gather" not in code and "shufflevector" in code
    assert "gather" in weft.compile(enlarged(3, weft.f32), options=OPTIONS).source("llvm")
