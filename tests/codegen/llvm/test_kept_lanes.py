"""Stores that keep old values in some lanes: blends, no masked stores where these are slow."""

# ruff: noqa: F821, UP037  (sizes are names in kernels)

from __future__ import annotations

import re

import numpy as np
import pytest

import weft

SIZES = (0, 1, 2, 7, 31, 65)


def columns(real: weft.DType, whole: weft.DType) -> weft.Kernel:
    """The greatest product of each column, and its row."""

    @weft.kernel
    def greatest(v: real["M"], A: real["M", "N"], most: real["N"], arg: whole["N"]):
        for s in range(N):
            best = real(-1.0)
            row = whole(-1)
            for q in range(M):
                product = v[q] * A[q, s]
                if product > best:
                    best = product
                    row = whole(q)
            most[s] = best
            arg[s] = row

    return greatest


@weft.kernel
def raised(c: weft.f64["M", 64], x: weft.f64[64], seen: weft.i64[64]):
    for i in range(M):
        for j in range(64):
            if c[i, j] > x[j]:
                x[j] = c[i, j]
                seen[j] += 1
            else:
                seen[j] -= 2


@pytest.mark.parametrize("target", ["x86-64-v3", "host"])
@pytest.mark.parametrize("types", [("f64", "i32"), ("f32", "i64"), ("f64", "i64"), ("f32", "i16")])
def test_greatest(types: tuple[str, str], target: str) -> None:
    real, whole = (getattr(weft, t) for t in types)
    run = columns(real, whole).compile(options=weft.Options(threads=1, target=target))
    for m in SIZES:
        for n in SIZES:
            rng = np.random.default_rng(m + 100 * n)
            a, v = rng.random((m, n)).astype(real.name), rng.random(m).astype(real.name)
            most, arg = np.zeros(n, real.name), np.zeros(n, whole.name)
            run(v, a, most, arg)
            products = np.vstack([np.full((1, n), -1, real.name), v[:, None] * a])
            np.testing.assert_array_equal(most, products.max(0))
            np.testing.assert_array_equal(arg, products.argmax(0) - 1)


def test_raised() -> None:
    run = raised.compile(options=weft.Options(threads=1))
    for m in SIZES:
        c = np.random.default_rng(m).normal(size=(m, 64))
        x, seen = np.zeros(64), np.zeros(64, np.int64)
        run(c, x, seen)
        high = np.maximum.accumulate(np.vstack([np.zeros((1, 64)), c]), axis=0)
        ups = (c > high[:-1]).sum(0)
        np.testing.assert_array_equal(x, high[-1])
        np.testing.assert_array_equal(seen, ups - 2 * (m - ups))


def test_no_masked_stores_and_lanes_in_registers() -> None:
    run = raised.compile(options=weft.Options(threads=1, target="x86-64-v3"))
    assert not re.search(r"maskmov\w+\s+%\w+, %\w+, ", run.source("asm"))
    body = run.source("llvm").split('define internal void @"kernel_raised_body')[1].split("\n}")[0]
    assert not re.search(r"(load|store|getelementptr) .*%scratch", body)
