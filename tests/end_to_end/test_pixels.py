"""Short dims between whose elements others of the same statement are stored: pixels of a few
channels, enlarged images, products with small matrices. In vectors across them, and right."""

# ruff: noqa: F821
# mypy: disable-error-code="name-defined, valid-type, no-untyped-def, index, no-untyped-call"

from typing import Any

import numpy as np
import pytest

import weft
from weft.ir.size_arithmetic import evaluate


@weft.kernel
def gains(x: weft.f32["M", "N", 3], w: weft.f32[3], y: weft.f32["M", "N", 3]):
    for i in range(M):
        for j in range(N):
            for c in range(3):
                y[i, j, c] = x[i, j, c] * w[c]


@weft.kernel
def interleaved(x: weft.u8[3, "N"], y: weft.u8["N", 3]):
    for j in range(N):
        for c in range(3):
            y[j, c] = x[c, j]


@weft.kernel
def backwards(x: weft.i16["N"], y: weft.i16["5 * N"]):
    for j in range(N):
        for c in range(5):
            y[5 * j + 4 - c] = x[j] + c


@weft.kernel
def enlarged(x: weft.f64["M", "N"], y: weft.f64["2 * M", "2 * N"]):
    for i in range(M):
        for j in range(N):
            for a in range(2):
                for b in range(2):
                    y[2 * i + a, 2 * j + b] = x[i, j]


@weft.kernel
def mixed(x: weft.f32["N", 3], w: weft.f32[3, 3], y: weft.f32["N", 3]):
    for i in range(N):
        for c in range(3):
            for k in range(3):
                y[i, c] += x[i, k] * w[k, c]


@weft.kernel
def smoothed(x: weft.i64["N", 4], w: weft.i64[3], y: weft.i64["N", 4]):
    for j in range(1, N - 1):
        for c in range(4):
            total = 0
            for k in range(3):
                total += x[j + k - 1, c] * w[k]
            y[j, c] = total


@weft.kernel
def kronecker(A: weft.f64["M", "N"], B: weft.f64[2, 5], C: weft.f64["2 * M", "5 * N"]):
    for i in range(M):
        for j in range(N):
            for k in range(2):
                for m in range(5):
                    C[2 * i + k, 5 * j + m] = A[i, j] * B[k, m]


@weft.kernel
def gaps_that_stay(x: weft.f32["N"], y: weft.f32["4 * N"]):
    for j in range(N):
        for c in range(3):
            y[4 * j + c] = x[j]


@weft.kernel
def part_of_each(x: weft.f32["N"], y: weft.f32["N", 4]):
    for j in range(N):
        for c in range(min(j, 4)):
            y[j, c] = x[j]


@weft.kernel
def each_from_the_last(y: weft.f64["N", 2]):
    for j in range(N):
        for c in range(2):
            y[j, c] = y[j, c] + 0.5 * y[j - 1, c] if j > 0 else y[j, c]


FILLED = (gains, interleaved, backwards, enlarged, kronecker)
OTHERS = (mixed, smoothed, gaps_that_stay, part_of_each, each_from_the_last)


def name_of(kernel: Any) -> str:
    return str(kernel.__name__)


def arguments(kernel: Any, size: int) -> dict[str, Any]:
    rng, found = np.random.default_rng(size), dict[str, Any]()
    for each in kernel.lowered.arguments:
        shape = tuple(evaluate(n, {"M": 3, "N": size}) for n in each.shape)
        found[each.name] = rng.integers(0, 9, shape).astype(each.dtype.numpy)
    return found


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kernel", [*FILLED, *OTHERS], ids=name_of)
def test_every_channel_of_every_pixel(kernel: Any, threads: int) -> None:
    run = kernel.compile(options=weft.Options(threads=threads, cache=False))
    for size in (0, 1, 2, 7, 16, 31, 33, 64, 129):
        given = arguments(kernel, size)
        wanted = {name: value.copy() for name, value in given.items()}
        kernel.python(*wanted.values())
        run(*given.values())
        for name, value in wanted.items():
            np.testing.assert_array_equal(given[name], value, err_msg=f"{name} {size}")


@pytest.mark.parametrize("kernel", FILLED, ids=name_of)
def test_pixels_are_lanes_and_channels_written_out(kernel: Any) -> None:
    options = weft.Options(target="x86-64-v4")  # all these pixels are shorter than its vectors
    script = str(weft.schedule(kernel, options=options).automatic())
    assert "unrolled=" in script and ('vector=["j"]' in script or 'vector=["i"]' in script)
