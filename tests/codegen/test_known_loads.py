"""Loads that an iteration makes anyway need no condition: where they do, they keep it."""

# ruff: noqa: F821, UP037  (sizes are names in kernels)

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.codegen.kernel_runner import check
from weft.codegen.known_loads import known_loads
from weft.ir import dtypes
from weft.ir.loop_ir import Block, Buffer, For, If, Kernel, Let, Stmt, Store, walk
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Expr, Load, Var, literal, select

N = 37
F64, I64 = dtypes.float64, dtypes.int64
i = Var("i")
ZERO = literal(0.0, F64)


def load(name: str, at: Expr = i) -> Load:
    return Load(name, (at,), I64 if name == "p" else F64)


def kernel(*stmts: Stmt) -> Kernel:
    body = For("i", literal(0), literal(N), "vector", Block(stmts))
    sizes = {"x": 2 * N, "y": N, "z": N, "p": N}
    shapes = {name: (literal(size),) for name, size in sizes.items()}
    buffers = (
        Buffer(name, I64 if name == "p" else F64, shape, (literal(1),))
        for name, shape in shapes.items()
    )
    return Kernel("k", (), tuple(buffers), body)


def branch(name: str, at: Expr = i) -> Store:
    """z[i] = name[at] if y[i] > 0 else 0"""
    return Store("z", (i,), select(load("y") > ZERO, load(name, at), ZERO))


def values() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    x, y, z = rng.standard_normal(2 * N), rng.standard_normal(N), np.zeros(N)
    x[5] = y[7] = np.nan
    return {"x": x, "y": y, "z": z, "p": rng.integers(0, N, N)}


TWICE = i * 2
FIRST = Store("y", (i,), load("x", TWICE) - literal(1.0, F64))
SAFE = {
    "a store that loads": (FIRST, branch("x", TWICE)),
    "a let that loads": (Let("t", load("x", TWICE), Store("y", (i,), Var("t", F64))),
                         branch("x", TWICE)),
    "its element is stored meanwhile": (
        FIRST, Store("x", (TWICE,), literal(9.0, F64)), branch("x", TWICE)),
    "the condition loads": (If(load("x", TWICE) > ZERO, branch("x", TWICE)),),
}  # fmt: skip
T = Var("t")
UNSAFE = {
    "another element": (FIRST, branch("x", i)),
    "loaded under a condition": (
        If(load("y") > ZERO, Store("y", (i,), load("x", TWICE))), branch("x", TWICE)),
    "loaded in a branch": (branch("x", TWICE), branch("x", TWICE)),
    "where data say": (
        Store("y", (i,), load("x", load("p"))), Store("p", (i,), literal(0)),
        branch("x", load("p"))),
    "a name of its own": (
        Let("t", TWICE, Store("y", (i,), load("x", T))), Let("t", i, branch("x", T))),
}  # fmt: skip


@pytest.mark.parametrize("name", SAFE)
def test_known(name: str) -> None:
    given = kernel(*SAFE[name])
    made = known_loads(given)
    assert made != given
    verify_kernel(made)
    found, expected = check(made, {}, values()), check(given, {}, values())
    for array in found:
        np.testing.assert_array_equal(found[array], expected[array])


@pytest.mark.parametrize("name", UNSAFE)
def test_unknown(name: str) -> None:
    given = kernel(*UNSAFE[name])
    verify_kernel(given)
    made = known_loads(given)
    lets = [s.value for s in walk(made.body) if isinstance(s, Let) and s.name.startswith("known")]
    assert not any(isinstance(value, Load) and value.source == "x" for value in lets)
    found, expected = check(made, {}, values()), check(given, {}, values())
    for array in found:
        np.testing.assert_array_equal(found[array], expected[array])


@weft.kernel
def nearest(s: weft.f64["N", "K"], best: weft.f64["N"], who: weft.i32["N"]):
    for i in range(N):
        best[i] = 1e300
        who[i] = -1
        for k in range(K):
            if s[i, k] < best[i]:
                best[i] = s[i, k]
                who[i] = k


@pytest.mark.parametrize("target", ["host", "x86-64-v3"])
def test_the_least_and_where(target: str) -> None:
    run = nearest.compile(options=weft.Options(threads=1, cache=False, target=target))
    assert "known.0" in run.as_text("loops")
    for n in (0, 1, 2, 7, 31, 33):
        for k in (1, 2, 9):
            s = np.random.default_rng(n).integers(0, 5, (n, k)).astype(float)
            s[::3, 0] = np.nan
            best, who = np.zeros(n), np.zeros(n, np.int32)
            run(s, best, who)
            kept = np.where(np.isnan(s), 1e300, s)
            np.testing.assert_array_equal(best, kept.min(axis=1, initial=1e300))
            where = kept.argmin(axis=1)
            np.testing.assert_array_equal(who, np.where(kept.min(axis=1) < 1e300, where, -1))
