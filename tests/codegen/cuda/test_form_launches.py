"""Loops bound to a GPU become launches, with barriers where threads might meet; nothing is lost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weft.codegen.cuda.form_launches import form_launches
from weft.ir.dtypes import int64
from weft.ir.errors import CompileError, InternalError
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import Allocate, Block, Buffer, For, If, Kernel, Stmt, Store, While
from weft.ir.loop_printer import print_stmt
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Expr, Load, Var, literal

i, j, n, t = map(Var, ("i", "j", "n", "t"))
ZERO, ONE = literal(0), literal(1)


def buffer(name: str, *sizes: Expr, **more: object) -> Buffer:
    strides = (n, ONE)[2 - len(sizes) :]
    return Buffer(name, int64, sizes, strides, **more)  # type: ignore[arg-type]


def kernel(body: Stmt) -> Kernel:
    return Kernel("f", ("n",), (buffer("A", n, n), buffer("s", n)), body)


def load(name: str, *indices: Expr) -> Load:
    return Load(name, indices, int64)


def loop(var: str, kind: str, body: Stmt) -> For:
    return For(var, ZERO, n, kind, body)  # type: ignore[arg-type]


ROWS = loop("t", "serial", Block((
    loop("i", "grid", Allocate(buffer("r", literal(8)), Block((
        loop("j", "block", Store("r", (j % 8,), load("A", i, j))),
        For("j_2", ZERO, n, "block", Store("A", (i, Var("j_2")), load("r", ZERO) + Var("j_2"))),
    )))),
    Store("s", (ZERO,), load("s", ZERO) + 1),
    Store("s", (ONE,), load("s", ZERO) + 1),
)))  # fmt: skip


def test_rows_and_what_follows_are_two_launches() -> None:
    made = form_launches(kernel(ROWS))
    verify_kernel(made)
    assert print_stmt(made.body) == (
        "for t in 0 .. n serial:\n"
        "  for i in 0 .. n grid:\n"
        "    allocate r: int64[8] shared\n"
        "    for j in 0 .. n block:\n"
        "      r[j % 8] = A[i, j]\n"
        "    barrier\n"
        "    for j_2 in 0 .. n block:\n"
        "      A[i, j_2] = r[0] + j_2\n"
        "  for launch in 0 .. 1 grid:\n"
        "    single:\n"
        "      s[0] = s[0] + 1\n"
        "      s[1] = s[0] + 1"
    )


@pytest.mark.parametrize("size", [0, 1, 2, 7])
def test_they_compute_the_same(size: int) -> None:
    got, want = ({"A": np.arange(size * size), "s": np.zeros(2, int)} for _ in range(2))
    whole = replace(kernel(ROWS), buffers=(buffer("A", n, n), buffer("s", literal(2))))
    interpret(whole, {"n": size}, want)
    interpret(form_launches(whole), {"n": size}, got)
    assert np.array_equal(got["A"], want["A"]) and np.array_equal(got["s"], want["s"])


def test_a_block_asks_for_itself_what_stands_between_grid_loops() -> None:
    inner = loop("j", "grid", Store("A", (i, j), ONE))
    made = form_launches(kernel(loop("i", "grid", If(i > 2, inner))))
    verify_kernel(made)
    assert print_stmt(made.body) == (
        "for i in 0 .. n grid:\n"
        "  for j in 0 .. n grid:\n"
        "    single:\n"
        "      if i > 2:\n"
        "        A[i, j] = 1"
    )


def test_all_is_one_thread_where_nothing_is_bound() -> None:
    made = form_launches(kernel(loop("i", "serial", Store("s", (i,), ONE))))
    assert print_stmt(made.body) == (
        "for launch in 0 .. 1 grid:\n  single:\n    for i in 0 .. n serial:\n      s[i] = 1"
    )


def test_memory_goes_into_the_launch_that_uses_it() -> None:
    grid = loop("i", "grid", Store("s", (i,), ONE))
    uses = (
        loop("j", "block", Store("r", (j % 8,), j)),
        loop("j_2", "block", Store("s", (Var("j_2"),), load("r", ZERO))),
    )
    body = Allocate(buffer("r", literal(8)), Block((grid, *uses, grid)))
    made = form_launches(kernel(loop("t", "serial", body)))
    verify_kernel(made)
    assert print_stmt(made.body) == (
        "for t in 0 .. n serial:\n"
        "  for i in 0 .. n grid:\n"
        "    single:\n"
        "      s[i] = 1\n"
        "  for launch in 0 .. 1 grid:\n"
        "    allocate r: int64[8] shared\n"
        "    for j in 0 .. n block:\n"
        "      r[j % 8] = j\n"
        "    barrier\n"
        "    for j_2 in 0 .. n block:\n"
        "      s[j_2] = r[0]\n"
        "  for i in 0 .. n grid:\n"
        "    single:\n"
        "      s[i] = 1"
    )


GRID = loop("i", "grid", Store("s", (i,), ONE))


@pytest.mark.parametrize(
    "body",
    [
        Allocate(buffer("r", n), loop("i", "grid", Store("r", (i,), ONE))),
        For("t", ZERO, load("s", ZERO), "serial", GRID),
        While(load("s", ZERO) > 0, GRID),
        loop("t", "grid", Block((GRID, Store("s", (t,), ONE)))),
    ],
    ids=["memory of several launches", "a bound by data", "a loop by data", "two in one"],
)
def test_what_cannot_be_launched_is_refused(body: Stmt) -> None:
    with pytest.raises(CompileError, match="WEFT-E0506"):
        form_launches(kernel(body))


@pytest.mark.parametrize(
    "body",
    [
        Block((GRID, Store("s", (ZERO,), ONE))),
        GRID,
        For("t", ZERO, load("s", ZERO), "serial", GRID),
    ],
    ids=["an effect on the host", "an effect of a whole block", "the host reads"],
)
def test_the_verifier_knows_hosts_and_blocks(body: Stmt) -> None:
    with pytest.raises(InternalError, match="WEFT-E0912"):
        verify_kernel(kernel(body))
