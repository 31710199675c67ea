"""Floats of 16 bits in the twin: every value, against ml_dtypes and NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import weft

TWIN = weft.Options(target="cuda-twin", workers=0)
N = 1 << 16


def same(got: np.ndarray, want: np.ndarray) -> None:
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
def test_every_value(dtype: type) -> None:
    name = np.dtype(dtype).name
    x, y = (weft.placeholder((N,), dtype=name, name=n) for n in "xy")
    d = weft.placeholder((N,), dtype="float64", name="d")
    k = weft.reduce_axis((0, N), name="k")
    program = weft.compile(
        [
            weft.compute((N,), lambda i: x[i] * y[i] + x[i], name="a"),
            weft.compute((N,), lambda i: d[i].astype(name), name="b"),
            weft.compute((N,), lambda i: weft.maximum(x[i], -y[i]), name="c"),
            weft.compute((N,), lambda i: x[i].astype("float32"), name="e"),
            weft.compute((1,), lambda i: weft.max_over(y[k], axis=k), name="f"),
        ],
        options=TWIN,
    )
    values = np.arange(N, dtype=np.uint16).view(dtype)
    random = np.random.default_rng(0)
    a, b = values, random.permutation(values)
    with np.errstate(all="ignore"):
        wide = values.astype(np.float64)
        halves = (wide[: N // 2] + wide[1 : N // 2 + 1]) / 2  # ties
        many = random.standard_normal(N // 2) * 10.0 ** random.integers(-45, 45, N // 2)
        doubles = np.concatenate([halves, many])
        got = program(x=a, y=b, d=doubles)
        single_a, single_b = a.astype(np.float32), b.astype(np.float32)
        product = (single_a * single_b).astype(dtype).astype(np.float32)
        same(got[0], (product + single_a).astype(dtype))
        same(got[1], doubles.astype(dtype))
        same(got[2], np.maximum(single_a, -single_b).astype(dtype))
        same(got[3], single_a)
        assert np.isnan(got[4].astype(np.float64)).all()


def test_bits_stay() -> None:
    x = weft.placeholder((N,), dtype="float16", name="x")
    copied = weft.compile(weft.compute((N,), lambda i: x[N - 1 - i], name="y"), options=TWIN)
    values = np.arange(N, dtype=np.uint16).view(np.float16)
    finite = np.isfinite(values)
    assert np.array_equal(
        copied(values)[::-1].view(np.uint16)[finite], values.view(np.uint16)[finite]
    )
