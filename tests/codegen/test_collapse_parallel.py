"""Nested parallel loops become one of as many turns, each pair of indices once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weft.codegen.collapse_parallel import collapse_parallel
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import Block, Buffer, For, If, Kernel, Stmt, Store, Update
from weft.ir.loop_printer import print_stmt
from weft.ir.scalar_expr import Expr, Var, literal

I64 = dtypes.int64
i, j, k, n = Var("i"), Var("j"), Var("k"), Var("n")
count = Update((("x", (i * 100 + j,)),), monoid("add", I64), (literal(1),))


def nest(body: Stmt, *loops: tuple[str, int | Expr, int | Expr]) -> Kernel:
    for name, low, high in reversed(loops):
        bounds = [b if isinstance(b, Expr) else literal(b) for b in (low, high)]
        body = For(name, bounds[0], bounds[1], "parallel", body)
    x = Buffer("x", I64, (literal(10000),), (literal(1),))
    return Kernel("k", ("n",), (x,), body)


def run(kernel: Kernel, size: int) -> np.ndarray:
    memory = {"x": np.zeros(10000, np.int64)}
    interpret(kernel, {"n": size}, memory)
    return memory["x"]


@pytest.mark.parametrize("size", [0, 1, 7])
def test_each_pair_once(size: int) -> None:
    for kernel in (nest(count, ("i", 0, n), ("j", 2, 9)), nest(count, ("i", 1, 4), ("j", 0, n))):
        collapsed = collapse_parallel(kernel)
        assert isinstance(collapsed.body, For) and collapsed.body.kind == "parallel"
        assert not isinstance(collapsed.body.body, For)
        np.testing.assert_array_equal(run(collapsed, size), run(kernel, size))


@pytest.mark.parametrize("size", [3, 9])
def test_either_nest_of_a_branch(size: int) -> None:
    both = [nest(count, ("i", 0, n), ("j", low, 9)) for low in (2, 4)]
    kernel = replace(both[0], body=If(n > 5, both[0].body, both[1].body))
    collapsed = collapse_parallel(kernel)
    assert isinstance(collapsed.body, If)
    for inside in (collapsed.body.then, collapsed.body.otherwise):
        assert isinstance(inside, For) and not isinstance(inside.body, For)
    np.testing.assert_array_equal(run(collapsed, size), run(kernel, size))


def test_triangles_and_long_loops_stay() -> None:
    for kernel in (nest(count, ("i", 0, n), ("j", 0, i)), nest(count, ("i", 0, 300), ("j", 0, 2))):
        assert collapse_parallel(kernel) == kernel


def test_text() -> None:
    kernel = nest(Store("x", (i,), j), ("i", 0, 3), ("j", 0, 5))
    assert print_stmt(collapse_parallel(kernel).body) == (
        "for i.j in 0 .. 15 parallel:\n"
        "  let i = i.j // 5\n"
        "  let j = i.j % 5\n"
        "  x[i] = j"
    )  # fmt: skip


def test_two_loops_one_after_the_other_stay() -> None:
    one = nest(count, ("i", 0, 3), ("j", 0, 5))
    both = Kernel("k", ("n",), one.buffers, Block((one.body, one.body)))
    assert collapse_parallel(both) == both
