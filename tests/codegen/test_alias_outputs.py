"""Temporaries in the results that they become: the same results, or left where they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.kernel_runner import check
from weft.codegen.alias_outputs import alias_outputs
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.loop_ir import Allocate, Block, Buffer, For, Kernel, Stmt, Store, Update, walk
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Expr, Load, Var, literal

F32 = dtypes.float32
b, k, i, m, n = map(Var, "bkimn")
ROWS, WIDTH, BLOCKS = 13, 21, 3
LARGE = 1 << 30


def buffer(name: str, *shape: int, scope: str = "global") -> Buffer:
    strides = [int(np.prod(shape[d + 1 :], dtype=int)) for d in range(len(shape))]
    sizes = tuple(map(literal, shape)), tuple(map(literal, strides))
    return Buffer(name, F32, *sizes, scope=scope)  # type: ignore[arg-type]


def load(name: str, *at: Expr) -> Load:
    return Load(name, at, F32)


def rows(body: Stmt, row: str = "k", lane: str = "i", count: int = ROWS) -> Stmt:
    lanes = For(lane, literal(0), literal(WIDTH), "vector", body)
    return For(row, literal(0), literal(count), "serial", lanes)


WRITE = Block(
    (
        Store("e", (k, i), load("x", k, i + b * WIDTH) * 2.0),
        Update((("s", (i,)),), monoid("add", F32), (load("e", k, i),)),
    )
)
ZERO = For("i", literal(0), literal(WIDTH), "vector", Store("s", (i,), literal(0.0, F32)))
LAST = Store("y", (m, n + b * WIDTH), load("e", m, n) / load("s", n))


def kernel(*parts: Stmt) -> Kernel:
    body: Stmt = Block((ZERO, *parts))
    for temporary in (buffer("s", WIDTH, scope="local"), buffer("e", ROWS, WIDTH, scope="local")):
        body = Allocate(temporary, body)
    loop = For("b", literal(0), literal(BLOCKS), "parallel", body)
    columns = BLOCKS * WIDTH
    return Kernel("k", (), (buffer("x", ROWS, columns), buffer("y", ROWS, columns)), loop)


def allocated(changed: Kernel) -> set[str]:
    return {s.buffer.name for s in walk(changed.body) if isinstance(s, Allocate)}


def same(original: Kernel, first: int = 0) -> Kernel:
    changed = alias_outputs(original, first, LARGE, LARGE)
    verify_kernel(changed)
    x = np.random.default_rng(1).uniform(1, 2, ROWS * BLOCKS * WIDTH).astype(np.float32)
    given = {"x": x, "y": np.full(x.size, -1, np.float32)}
    expected, found = check(original, {}, given, rtol=1e-6), check(changed, {}, given, rtol=1e-6)
    np.testing.assert_array_equal(found["y"], expected["y"])
    return changed


def test_what_becomes_a_result_is_kept_in_it() -> None:
    changed = same(kernel(rows(WRITE), rows(LAST, "m", "n")))
    assert allocated(changed) == {"s"}
    assert "e" not in {s.buffer for s in walk(changed.body) if isinstance(s, Store)}


def test_a_cache_that_holds_it_keeps_it() -> None:
    original = kernel(rows(WRITE), rows(LAST, "m", "n"))
    assert same(original, 4 * ROWS * WIDTH) == original
    assert allocated(same(original, 4 * ROWS * WIDTH - 1)) == {"s"}
    assert alias_outputs(original, 0, LARGE, 100) == original


def _value(value: Expr) -> Stmt:
    return rows(replace(LAST, value=value), "m", "n")


REFUSED: dict[str, Callable[[], Kernel]] = {
    "read elsewhere": lambda: kernel(
        rows(WRITE), _value(load("e", m, n) + load("e", m, literal(0)))
    ),
    "the result is read": lambda: kernel(
        rows(WRITE), _value(load("e", m, n) + load("y", m, n + b * WIDTH))
    ),
    "the result is stored before": lambda: kernel(
        rows(WRITE), rows(replace(LAST, value=load("s", n)), "m", "n"), rows(LAST, "m", "n")
    ),
    "fewer results": lambda: kernel(rows(WRITE), rows(LAST, "m", "n", ROWS - 1)),
    "one result of many": lambda: kernel(
        rows(WRITE), rows(replace(LAST, indices=(literal(2), n + b * WIDTH)), "m", "n")
    ),
    "results two apart": lambda: kernel(
        rows(WRITE), rows(replace(LAST, indices=(literal(1), n * 2)), "m", "n")
    ),
    "it is an update": lambda: kernel(
        rows(WRITE),
        rows(Update((("e", (k, i)),), monoid("add", F32), (load("s", i),))),
        rows(LAST, "m", "n"),
    ),
    "it is read after": lambda: kernel(
        rows(WRITE), rows(LAST, "m", "n"), rows(Store("s", (i,), load("e", k, i)))
    ),
}


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_otherwise_it_stays(make: Callable[[], Kernel]) -> None:
    original = make()
    assert alias_outputs(original, 0, LARGE, LARGE) == original
