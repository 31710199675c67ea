"""Short rows are asked for, once each; the kernel does the same."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.kernel_runner import Compiled, assert_same
from weft.codegen.show_short_rows import show_short_rows
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import Buffer, For, Kernel, Let, Prefetch, Stmt, Update, walk
from weft.ir.loop_printer import print_stmt
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Expr, Load, Var, literal

I64 = dtypes.int64
i, j, v, w, n = Var("i"), Var("j"), Var("v"), Var("w"), Var("n")
SIDE = 20


def at(name: str, *indices: Expr) -> Load:
    return Load(name, indices, I64)


def rows(value: Expr, low: Expr = literal(0), high: Expr = n) -> Stmt:  # noqa: B008
    fold = Update((("y", (i, j)),), monoid("add", I64), (value,))
    return For("v", low, high, "vector", fold)


FOLD = Update((("y", (i, j)),), monoid("add", I64), (at("x", Var("u"), v),))


def nest(body: Stmt) -> Stmt:
    inner = For("j", literal(0), n, "serial", Let("w", i + 1, body))
    return For("i", literal(0), literal(3), "parallel", inner)


def asked(body: Stmt) -> list[str]:
    """What is asked for; the kernel still does the same, whatever the length."""
    shape = (literal(SIDE), literal(SIDE))
    buffers = tuple(Buffer(b, I64, shape, (literal(SIDE), literal(1))) for b in "xy")
    original = Kernel("k", ("n",), buffers, body, ())
    changed = show_short_rows(original, 64)
    verify_kernel(changed)
    for size in (0, 1, 7, 8, 9, 16):
        rng = np.random.default_rng(size)
        arrays = {b.name: rng.integers(-9, 9, SIDE * SIDE) for b in buffers}
        expected = {name: a.copy() for name, a in arrays.items()}
        actual = {name: a.copy() for name, a in arrays.items()}
        interpret(original, {"n": size}, expected)
        interpret(changed, {"n": size}, actual)
        native, _ = Compiled(changed)({"n": size}, arrays)
        for name in expected:
            assert_same(actual[name], expected[name], 0.0, name)
            assert_same(native[name], expected[name], 0.0, name)
    return [print_stmt(s).strip() for s in walk(changed.body) if isinstance(s, Prefetch)]


def test_a_row_that_moves_with_all_loops() -> None:
    assert asked(nest(rows(at("x", i + j, v) + at("x", i + j, v)))) == ["prefetch x[i + j, 0]"]
    assert asked(nest(rows(at("x", w + j, v)))) == ["prefetch x[w + j, 0]"]
    assert asked(nest(rows(at("x", i, v), j, j + 3))) == ["prefetch x[i, j]"]


@pytest.mark.parametrize(
    "body",
    [
        rows(at("x", j, v)),  # in a cache from the second turn of i on
        rows(at("x", v, i + j)),  # no row
        rows(at("x", i + j, v), literal(0), literal(8)),  # a whole vector
        rows(at("x", at("x", i, j) * 0, v)),  # not known before
        For("v", literal(0), n, "vector", Let("u", i + j, FOLD)),  # not known before, either
    ],
)
def test_what_is_seen_or_not_known(body: Stmt) -> None:
    assert asked(nest(body)) == []
