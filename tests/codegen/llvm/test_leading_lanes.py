"""Rests of narrow elements: no access outside, nothing else written, at every length."""

# ruff: noqa: F821, UP037  (sizes are names in kernels)

from __future__ import annotations

import re

import numpy as np
import pytest

import weft
from tests.guarded import Guarded

LENGTHS = (*range(35), 63, 64, 65, 127, 128, 129, 130)


@weft.kernel
def bytes_(x: weft.u8["N"], y: weft.u8["N"]):
    for i in range(N):
        y[i] = x[i] // 2 + weft.u8(3)


@weft.kernel
def words(x: weft.i16["N"], y: weft.i16["N"]):
    for i in range(N):
        y[i] = max(x[i], y[i])


@weft.kernel
def half(x: weft.f16["N"], y: weft.f16["N"]):
    for i in range(N):
        y[i] = x[i]


@weft.kernel
def window(x: weft.u8["H", "W"], y: weft.u8["H", "W"]):
    for i in range(1, H - 1):
        for j in range(1, W - 1):
            most = x[i, j]
            for a in range(-1, 2):
                for b in range(-1, 2):
                    most = max(most, x[i + a, j + b])
            y[i, j] = most


@weft.kernel
def every_other_byte(x: weft.u8["2 * K"], y: weft.u8["N"]):
    for i in range(N):
        y[i] = x[2 * i] if i < K else weft.u8(1)


@weft.kernel
def every_third(x: weft.f32["3 * K"], y: weft.f32["N"]):
    for i in range(N):
        y[i] = x[3 * i + 2] if i < K else 1.0


def between_pages(array: np.ndarray, *, at_end: bool) -> np.ndarray:
    memory = Guarded(array.nbytes, at_end=at_end)
    held = memory.array(array.shape, array.dtype)
    held[...] = array
    return held


@pytest.mark.parametrize("target", ["x86-64-v3", "host"])
@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (bytes_, lambda x, y: x // 2 + np.uint8(3)),
        (words, np.maximum),
        (half, lambda x, y: x),
    ],
)
def test_rows(kernel: weft.Kernel, expected: object, target: str) -> None:
    run = kernel.compile(options=weft.Options(threads=1, target=target))
    dtype = run.inputs[0].dtype.name
    for n in LENGTHS:
        x, y = np.random.default_rng(n).integers(0, 200, (2, n)).astype(dtype)
        for at_end in (False, True):
            given, out = (between_pages(a, at_end=at_end) for a in (x, y))
            run(given, out)
            np.testing.assert_array_equal(out, expected(x, y), err_msg=f"{n}")


@pytest.mark.parametrize("target", ["x86-64-v3", "host"])
@pytest.mark.parametrize("size", [0, 1, 7, 16, 31, 33, 64, 100, 131])
def test_strides_where_a_condition_holds_for_the_first_lanes(target: str, size: int) -> None:
    """The others have no elements."""
    options = weft.Options(threads=1, target=target)
    bytes_of, thirds = (k.compile(options=options) for k in (every_other_byte, every_third))
    x = np.random.default_rng(size).integers(0, 256, 2 * size, np.uint8)
    z = np.random.default_rng(size).random(3 * size, np.float32)
    for n in LENGTHS:
        for at_end in (False, True):
            y, w = np.zeros(n, np.uint8), np.zeros(n, np.float32)
            bytes_of(between_pages(x, at_end=at_end), y)
            thirds(between_pages(z, at_end=at_end), w)
            there = min(n, size)
            np.testing.assert_array_equal(y, [*x[::2][:there], *[1] * (n - there)])
            np.testing.assert_array_equal(w, [*z[2::3][:there], *[1.0] * (n - there)])


@pytest.mark.parametrize("target", ["x86-64-v3", "host"])
def test_windows(target: str) -> None:
    run = window.compile(options=weft.Options(threads=1, target=target))
    for w in (0, 1, 2, 3, 7, 34, 66, 67, 130, 131, 133):
        for h in (2, 3, 5):
            x = np.random.default_rng(w).integers(0, 256, (h, w), np.uint8)
            expected = np.full((h, w), 7, np.uint8)
            for i in range(1, h - 1):
                for j in range(1, w - 1):
                    expected[i, j] = x[i - 1 : i + 2, j - 1 : j + 2].max()
            given = between_pages(x, at_end=True)
            out = between_pages(np.full((h, w), 7, np.uint8), at_end=True)
            run(given, out)
            np.testing.assert_array_equal(out, expected, err_msg=f"{h} {w}")


def test_no_masks_of_bytes() -> None:
    text = bytes_.compile(options=weft.Options(threads=1, target="x86-64-v3")).source("llvm")
    assert not re.search(r"llvm\.masked\.(load|store)", text)
    text = bytes_.compile(options=weft.Options(threads=1, target="x86-64-v4")).source("llvm")
    assert re.search(r"llvm\.masked\.(load|store)", text)
