"""Sums over what the serial loop around them stores, or of gathered elements: the same in scalars
and vectors."""

# ruff: noqa: F821, UP037  (sizes are names in kernels)

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.codegen.short_sums import short_sums
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.errors import ExecutionError
from weft.ir.loop_ir import Block, Buffer, For, If, Kernel, Stmt, Store, Update, walk
from weft.ir.machine import Cache, Machine
from weft.ir.scalar_expr import Expr, Load, Var, literal

ORDERS = (0, 1, 5, 24, 25, 41)  # around the length up to which scalars are taken
SIZES = (0, 1, 2, 7, 25, 53)


@weft.kernel
def all_pole(a: weft.i64["W"], y: weft.i64["N"]):
    for i in range(N):
        for k in range(min(i, W)):
            y[i] -= a[k] * y[i - 1 - k]


@weft.kernel
def backwards(a: weft.f64["W"], d: weft.f64["N"], y: weft.f64["N"]):
    for i in range(N - 1, -1, -1):
        for k in range(i + 1, min(N, i + 1 + W)):
            y[i] += a[k - i - 1] * y[k]
        y[i] /= d[i]


@weft.kernel
def lowest(c: weft.f32["N", "N"], y: weft.f32["N"]):
    for i in range(N):
        for k in range(i):
            y[i] = min(y[i], y[k] + c[i, k])


@weft.kernel
def picked(c: weft.i32["N", "K"], a: weft.f64["N", "K"], x: weft.f64["M"], y: weft.f64["N"]):
    for i in range(N):
        y[i] = 0.0
        for k in range(K):
            y[i] += a[i, k] * x[c[i, k]]


def exe(kernel: weft.Kernel, threads: int = 1) -> weft.Executable:
    return kernel.compile(options=weft.Options(threads=threads))


def test_forwards_in_integers() -> None:
    run = exe(all_pole)
    for n in SIZES:
        for w in ORDERS:
            a = np.random.default_rng(w).integers(-2, 3, w)
            y = np.random.default_rng(n).integers(-9, 9, n)
            expected = y.tolist()
            for i in range(n):
                expected[i] -= sum(int(a[k]) * expected[i - 1 - k] for k in range(min(i, w)))
            run(a, y)
            assert y.tolist() == [(v + 2**63) % 2**64 - 2**63 for v in expected], (n, w)


@pytest.mark.parametrize("threads", [1, 2])
def test_backwards_in_floats(threads: int) -> None:
    run = exe(backwards, threads)
    for n in SIZES:
        for w in ORDERS:
            rng = np.random.default_rng(n + w)
            a, d, y = rng.normal(size=w) / 8, rng.uniform(1, 2, n), rng.normal(size=n)
            expected = y.copy()
            for i in range(n - 1, -1, -1):
                expected[i] += a[: n - 1 - i] @ expected[i + 1 : i + 1 + w]
                expected[i] /= d[i]
            run(a, d, y)
            np.testing.assert_allclose(y, expected, rtol=1e-9, atol=1e-9, err_msg=f"{n} {w}")


def test_minima_with_nan() -> None:
    run = exe(lowest)
    for n in SIZES:
        for hole in (-1, n // 2):
            rng = np.random.default_rng(n)
            c, y = (rng.normal(size=s).astype(np.float32) for s in ((n, n), n))
            if 0 <= hole < n:
                y[hole] = np.nan
            expected = y.copy()
            for i in range(1, n):
                expected[i] = np.minimum(expected[i], np.min(expected[:i] + c[i, :i]))
            run(c, y)
            np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("threads", [1, 2])
def test_gathered(threads: int) -> None:
    run = exe(picked, threads)
    for n in (0, 1, 7):
        for m in (0, 1, 23, 24, 25, 41):
            rng = np.random.default_rng(n + m)
            c, a = rng.integers(0, 53, (n, m)).astype(np.int32), rng.normal(size=(n, m))
            x, y = rng.normal(size=53), np.full(n, 7.0)
            run(c, a, x, y)
            np.testing.assert_allclose(y, (a * x[c]).sum(1), rtol=1e-12, atol=1e-12)
    with pytest.raises(ExecutionError):
        run(np.full((2, 3), 53, np.int32), np.ones((2, 3)), np.ones(53), np.ones(2))


# ---- where there are two loops, on the IR.


i, k, n, one = Var("i"), Var("k"), Var("n"), literal(1)
MACHINE = Machine("m", 32, 16, (Cache(32768),))


def element(name: str, at: Expr) -> Load:
    return Load(name, (at,), dtypes.int64)


def fold(value: Expr, length: Expr = n) -> For:
    update = Update((("y", (i,)),), monoid("add", dtypes.int64), (value,))
    return For("k", literal(0), length, "vector", update)


def both(loop: For, after: Stmt, kind: str) -> bool:
    """Whether ``loop``, before ``after`` in a loop of ``kind``, is there in two forms."""
    buffers = tuple(Buffer(b, dtypes.int64, (n,), (one,)) for b in "xyz")
    outer = For("i", literal(0), n, kind, Block((loop, after)))
    changed = short_sums(Kernel("k", ("n",), buffers, outer, ()), MACHINE)
    return any(isinstance(s, If) for s in walk(changed.body))


def test_of_what_is_stored_around() -> None:
    stored = Store("x", (i,), literal(1))
    assert both(fold(element("x", k)), stored, "serial")
    assert both(fold(element("x", i - k) * element("z", k)), stored, "serial")


def test_of_what_is_gathered() -> None:
    rows = Store("z", (i,), literal(1))
    picked_ = Load("x", (element("z", k),), dtypes.int64)
    assert both(fold(picked_), rows, "parallel")
    assert not both(fold(picked_, i + one), rows, "parallel")  # some rows are longer than others
    assert not both(fold(Load("x", (element("z", i),), dtypes.int64)), rows, "parallel")


def test_not_of_others() -> None:
    stored = Store("x", (i,), literal(1))
    rows = For("k", literal(0), n, "vector", Store("x", (k,), literal(1)))
    assert not both(fold(element("z", k)), stored, "serial")  # of nothing that is stored
    assert not both(fold(element("x", k)), stored, "parallel")  # of no other iteration's
    assert not both(fold(element("x", k)), rows, "serial")  # of what is stored in vectors
    assert not both(fold(element("x", k), literal(99)), stored, "serial")  # of known length
    assert not both(fold(element("x", i)), stored, "serial")  # of one element
    row = Update((("y", (k,)),), monoid("add", dtypes.int64), (element("x", k),))
    assert not both(For("k", literal(0), n, "vector", row), stored, "serial")  # no sum
