"""Indices are asked for once before loops that repeat them, and kernels do what they did."""

from __future__ import annotations

import numpy as np
import pytest

from weft.codegen.hoist_checks import hoist_checks
from weft.ir import dtypes
from weft.ir.errors import WeftError
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import Block, Buffer, Check, For, If, Kernel, Let, Stmt, Store, walk
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Expr, Load, Var, literal, select

i, j, q, n, m = map(Var, "ijqnm")
SIDE, ROWS = 6, 9
SIZES = [(a, b) for a in (0, 1, 3) for b in (0, 1, 5, ROWS)]


def at(k: Expr) -> Expr:
    return Load("e", (k,), dtypes.int64)


def inside(k: Expr) -> Expr:
    return (at(k) >= 0) & (at(k) < SIDE)


def step(number: int, k: Expr = j) -> Stmt:
    """A checked write at e[k], which cannot be left out, done twice or moved unseen."""
    old = select(inside(k), Load("x", (at(k),), dtypes.int64), literal(0))
    write = If(inside(k), Store("x", (at(k),), old * 3 + number))
    return Block((Check(inside(k), 1, (at(k), literal(SIDE))), write))


def sweep(body: Stmt, var: str = "j", upper: Expr = m) -> For:
    return For(var, literal(0), upper, "serial", body)


def kernel(body: Stmt) -> Kernel:
    buffers = (
        Buffer("x", dtypes.int64, (literal(SIDE),), (literal(1),)),
        Buffer("e", dtypes.int64, (literal(ROWS),), (literal(1),)),
    )
    return Kernel("k", ("n", "m"), buffers, sweep(body, "i", n), ("outside",))


HOISTED: dict[str, Stmt] = {
    "one": sweep(step(1)),
    "two": sweep(Block((step(1), step(2)))),
    "siblings of one name": Block((sweep(step(1)), sweep(step(2), upper=m - 2))),
    "a condition": sweep(If(j < m - 1, step(1, j + 1))),
    "another row's": sweep(step(1), upper=select(n > m, m, m - 1)),
    "a let": sweep(Let("p", j + 0, step(1, Var("p")))),
    "deep": sweep(sweep(step(1), "q", literal(2))),
    "short of the loop": sweep(sweep(step(1, q), "q", j)),
}
KEPT: dict[str, Stmt] = {
    "under what the loop changes": sweep(If(j < i, step(1), step(2))),
    "the loop's own": sweep(step(1, i)),
    "overwritten": sweep(Block((step(1), Store("e", (j,), literal(2))))),
    "bounds of the loop's own": sweep(step(1), upper=i),
    "a let of the loop's own": sweep(Let("p", select(i > j, i, j), step(1, Var("p")))),
}


def run(k: Kernel, a: int, b: int, e: np.ndarray) -> tuple[np.ndarray, np.ndarray, str]:
    x, data, told = np.arange(SIDE), e.copy(), ""
    try:
        interpret(k, {"n": a, "m": b}, {"x": x, "e": data})
    except WeftError as error:
        told = str(error)
    return x, data, told


@pytest.mark.parametrize("name", [*HOISTED, *KEPT])
def test_kernels_do_what_they_did(name: str) -> None:
    before = kernel({**HOISTED, **KEPT}[name])
    after = hoist_checks(before)
    verify_kernel(after)
    rng = np.random.default_rng(3)
    for bad in (None, -1, SIDE):
        for a, b in SIZES:
            e = rng.integers(0, SIDE, ROWS)
            if bad is not None:
                e[rng.integers(0, ROWS)] = bad
            for one, two in zip(run(before, a, b, e), run(after, a, b, e), strict=True):
                assert np.array_equal(one, two), (bad, a, b)


@pytest.mark.parametrize("name", HOISTED)
def test_a_version_has_no_checks(name: str) -> None:
    after = hoist_checks(kernel(HOISTED[name]))
    loops = [s for s in walk(after.body) if isinstance(s, For) and s.var == "i"]
    assert sorted(any(isinstance(s, Check) for s in walk(loop)) for loop in loops) == [False, True]


@pytest.mark.parametrize("name", KEPT)
def test_what_the_loop_changes_is_asked_in_it(name: str) -> None:
    after = hoist_checks(kernel(KEPT[name]))
    assert sum(isinstance(s, For) and s.var == "i" for s in walk(after.body)) == 1
