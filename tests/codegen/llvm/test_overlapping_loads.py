"""Neighbours in a row: the same values, nothing outside is touched, rows in place are left be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.kernel_runner import Compiled, assert_same
from weft.codegen.llvm.kernel import emit_kernel
from weft.codegen.llvm.target import host_target
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.dtypes import DType
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import Block, Buffer, For, Kernel, Let, Stmt, Store, Update
from weft.ir.scalar_expr import Expr, Load, Var, literal, select

v, n, w = Var("v"), Var("n"), Var("w")
TURNS = (0, 1, 7, 8, 9, 15, 16, 17, 24, 33, 64, 67)
REACH = 9  # the furthest that any program below loads from its place
WIDE = replace(host_target(), vector_bytes=64)


def x(offset: int, dtype: DType = dtypes.int64, buffer: str = "x") -> Load:
    return Load(buffer, (v + offset + REACH,), dtype)


def put(value: Expr, buffer: str = "y") -> Store:
    return Store(buffer, (v + REACH,), value)


def kernel(body: Stmt, dtype: DType = dtypes.int64, aliases: tuple[str, ...] = ()) -> Kernel:
    shape = (n + 2 * REACH,)
    rows = tuple(
        Buffer(name, dtype, shape, (literal(1),), aliases=aliases if name == "y" else ())
        for name in "xyz"
    )
    factor = Buffer("f", dtype, (), ())
    return Kernel("k", ("n",), (*rows, factor), For("v", literal(0), n, "vector", body))


def shifts(body: Stmt, dtype: DType = dtypes.int64) -> bool:
    """Whether ``body`` shifts vectors; it computes the same on memory that ends where it may."""
    return _same(kernel(body, dtype))


def _same(made: Kernel) -> bool:
    for turns in TURNS:
        rng = np.random.default_rng(turns)
        size = turns + 2 * REACH
        given = {
            b.name: rng.integers(-9, 9, size if b.shape else 1).astype(b.dtype.numpy)
            for b in made.buffers
        }
        want = {name: a.copy() for name, a in given.items()}
        interpret(made, {"n": turns}, want)
        for at_end in (True, False):
            got, _ = Compiled(made)({"n": turns}, given, at_end)
            for name, values in want.items():
                assert_same(got[name], values, 0.0, f"{name}, {turns} turns")
    return "shufflevector <" in _loop_of(made)


def _loop_of(made: Kernel) -> str:
    """The text without broadcasts, which shuffle as well."""
    text = emit_kernel(made, WIDE, contract=False).text
    return "\n".join(line for line in text.splitlines() if "zeroinitializer" not in line)


@pytest.mark.parametrize("dtype", [dtypes.float64, dtypes.float32, dtypes.int32, dtypes.int64])
def test_three_neighbours_share_a_load(dtype: DType) -> None:
    factor = Load("f", (), dtype)
    assert shifts(put(x(-1, dtype) * factor + x(0, dtype) * x(1, dtype)), dtype)


@pytest.mark.parametrize("offsets", [(-4, 4), (0, 1), (-9, -1), (1, 9), (-9, 0, 9), (-9, 9)])
def test_places_up_to_a_vector_apart(offsets: tuple[int, ...]) -> None:
    total: Expr = literal(0)
    for k, offset in enumerate(offsets):
        total = total + x(offset) * (k + 2)
    near = any(0 < max(offsets) - offset <= 8 for offset in offsets)
    assert shifts(put(total)) == near


def test_rows_that_are_written_are_loaded_anew() -> None:
    """Lanes of one turn are independent here, but not of the turns before."""
    assert not shifts(put(x(0) + x(8), "x"))
    assert not shifts(Block((put(x(0) + x(1)), put(x(0, buffer="y"), "x"))))


@pytest.mark.parametrize(("row", "shifted"), [(0, False), (1, True), (-1, True)])
def test_other_rows_of_an_array_in_place(row: int, shifted: bool) -> None:
    """x[r, v] and x[r, v + 1] are shifted, where it is another row of x that the loop writes."""
    width = n + 2 * REACH
    loads = [Load("g", (Var("r"), v + k), dtypes.int64) for k in (3, 5)]
    body = Store("g", (Var("r") + row, v + 4), loads[0] * 3 - loads[1])
    buffer = Buffer("g", dtypes.int64, (literal(3), width), (width, literal(1)))
    loop = For("v", literal(0), n, "vector", body)
    made = Kernel("k", ("n", "r"), (buffer,), loop)
    for turns in TURNS if row else (0, 1):  # in one row, lanes would not be independent
        random = np.random.default_rng(turns)
        given = {"g": random.integers(-9, 9, 3 * (turns + 2 * REACH))}
        want = {"g": given["g"].copy()}
        interpret(made, {"n": turns, "r": 1}, want)
        for at_end in (True, False):
            got, _ = Compiled(made)({"n": turns, "r": 1}, given, at_end)
            assert_same(got["g"], want["g"], 0.0, str(turns))
    assert ("shufflevector <" in _loop_of(made)) == shifted


def test_rows_that_may_lie_on_written_memory_are_loaded_anew() -> None:
    body = put(x(0) + x(1))
    assert "shufflevector <" in _loop_of(kernel(body))
    assert "shufflevector <" not in _loop_of(kernel(body, aliases=("x",)))


def test_loads_that_not_every_turn_makes_stay_where_they_are() -> None:
    seldom = select(x(0, buffer="z") > literal(0), x(-1), x(1))
    assert not shifts(put(seldom))


def test_several_rows_values_and_sums() -> None:
    body = Let("w", x(-1) + x(1), Block((put(w * x(0)), put(x(2, buffer="x") - w, "z"))))
    assert shifts(body)
    total = Update((("y", (literal(0),)),), monoid("add", dtypes.int64), (x(0) * x(3),))
    assert shifts(total)


def test_bytes_stay_as_they_are() -> None:
    assert not shifts(put(x(0, dtypes.int8) + x(1, dtypes.int8)), dtypes.int8)
