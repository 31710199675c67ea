"""Jammed folds compute what the kernel does; nests that may not be jammed stay as they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.kernel_runner import Compiled, assert_same
from weft.codegen.unroll_and_jam import TURNS, unroll_and_jam
from weft.ir import dtypes
from weft.ir.build import maximum, monoid
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import Block, Buffer, For, Kernel, Let, Stmt, Store, Update
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Expr, Load, Var, literal

I64 = dtypes.int64
d, r, n, v = Var("d"), Var("r"), Var("n"), Var("v", I64)
SIDE = 24
TWO = literal(2)


def at(name: str, *indices: Expr) -> Load:
    return Load(name, indices, I64)


def fold(*indices: Expr, value: Expr, name: str = "add", buffer: str = "x") -> Update:
    return Update(((buffer, indices),), monoid(name, I64), (value,))


def nest(body: Stmt, low: Expr = literal(1), high: Expr = n, lanes: Expr = n) -> For:  # noqa: B008
    return For("d", low, high, "serial", For("r", literal(0), lanes, "vector", body))


def jammed(body: Stmt) -> bool:
    """Whether anything was jammed; the kernel still does the same, in each element."""
    shape, strides = (literal(SIDE), literal(SIDE)), (literal(SIDE), literal(1))
    buffers = tuple(Buffer(name, I64, shape, strides) for name in "xyb")
    original = Kernel("k", ("n",), buffers, body, ())
    changed = unroll_and_jam(original)
    verify_kernel(changed)
    for size in (0, 1, 2, 4, 5, 6, 9, 11, 17):
        rng = np.random.default_rng(size)
        arrays = {b.name: rng.integers(-9, 9, SIDE * SIDE) for b in buffers}
        expected = {name: a.copy() for name, a in arrays.items()}
        actual = {name: a.copy() for name, a in arrays.items()}
        interpret(original, {"n": size}, expected)
        interpret(changed, {"n": size}, actual)
        native, _ = Compiled(changed)({"n": size}, arrays)
        for name, values in expected.items():
            assert_same(actual[name], values, 0.0, name)
            assert_same(native[name], values, 0.0, name)
    return changed is not original


@pytest.mark.parametrize("low", [literal(0), literal(3), n // 2])
def test_sums_of_rows(low: Expr) -> None:
    assert jammed(nest(fold(TWO, r, value=at("y", d, r) * at("b", TWO, d)), low))


@pytest.mark.parametrize("length", range(2, 11))
def test_of_a_constant_length(length: int) -> None:
    made = jammed(nest(fold(TWO, r, value=at("y", d, r)), literal(3), literal(3 + length)))
    assert made == (length >= TURNS)


def test_in_the_order_of_the_program() -> None:
    """A fold that is neither associative nor commutative would show another order."""
    add = monoid("add", I64)
    odd = replace(add, name="odd", combined=(add.left[0] * 3 + add.right[0],), laws=frozenset())
    assert jammed(nest(Update((("x", (TWO, r)),), odd, (at("y", d, r),))))


def test_several_folds_with_definitions() -> None:
    one = fold(TWO, r, value=v * v)
    other = fold(literal(5), r, value=maximum(v, at("y", d, r)), name="max", buffer="b")
    assert jammed(nest(Let("v", at("y", d, r) - d, Block((one, other)))))


def test_other_rows_of_the_same_buffer() -> None:
    """A triangular solve: row n is folded, rows before it are read."""
    assert jammed(nest(fold(n, r, value=at("x", n - d, r) * at("b", n, d))))
    assert jammed(nest(fold(n, r, value=at("x", d, r)), literal(0)))


@pytest.mark.parametrize(
    "body",
    [
        fold(n, r, value=at("x", n - d, r)),  # row n itself, where d is 0
        fold(TWO, r, value=at("x", d, r)),  # one of the rows
        fold(TWO, d, value=at("y", d, r)),  # another element in each turn
        fold(TWO, literal(1), value=at("y", d, r)),  # one element for all lanes
        fold(TWO, r // 2, value=at("y", d, r)),  # one element for two lanes
        Block((fold(TWO, r, value=at("y", d, r)), fold(TWO, r, value=at("y", r, d)))),
        Block((fold(TWO, r, value=at("y", d, r)), Store("b", (TWO, r), at("y", d, r)))),
        Block((fold(TWO, r, value=at("y", d, r)), fold(TWO, r, value=at("x", TWO, r), buffer="b"))),
        fold(v, r, value=at("y", d, r)),
    ],
)
def test_what_may_differ_stays(body: Stmt) -> None:
    assert not jammed(nest(Let("v", at("y", d, literal(0)) * 0, body), literal(0)))


def test_lanes_that_differ_between_turns_stay() -> None:
    assert not jammed(nest(fold(TWO, r, value=at("y", d, r)), lanes=d))
