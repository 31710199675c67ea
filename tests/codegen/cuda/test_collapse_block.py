"""Block loops that nest become one with the same turns."""

from __future__ import annotations

import numpy as np
import pytest

from weft.codegen.cuda.collapse_block import collapse_block
from weft.ir.dtypes import int64
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import Buffer, For, If, Kernel, Stmt, Store
from weft.ir.loop_printer import print_stmt
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Load, Var, apply, literal

i, j, k, n = map(Var, ("i", "j", "k", "n"))
ZERO, ONE = literal(0), literal(1)
A = Buffer("A", int64, (literal(16), literal(16)), (literal(16), ONE))


def nest(step: int = 1) -> Stmt:
    visit = Store("A", (i, j), Load("A", (i, j), int64) + 1)
    inner = For("j", apply("max", ZERO, i - 2), apply("min", literal(9), n), "block", visit, step)
    return For("i", ZERO, apply("min", literal(7), n), "block", If(n > 1, inner))


def test_text() -> None:
    assert print_stmt(collapse_block(nest(), {"i", "j", "n"})) == (
        "for thread in 0 .. 63 block:\n"
        "  let i = thread // 9\n"
        "  let j = max(0, i - 2) + thread % 9\n"
        "  if (i < min(7, n)) & (n > 1) & (j < min(9, n)):\n"
        "    A[i, j] = A[i, j] + 1"
    )


@pytest.mark.parametrize("size", [0, 1, 2, 5, 7, 8, 16])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_every_turn_once(size: int, step: int) -> None:
    body = nest(step)
    made = Kernel("f", ("n",), (A,), collapse_block(body, {"i", "j", "n"}))
    verify_kernel(made)
    got, want = np.zeros(256, int), np.zeros(256, int)
    interpret(made, {"n": size}, {"A": got})
    interpret(Kernel("f", ("n",), (A,), body), {"n": size}, {"A": want})
    assert np.array_equal(got, want)


def test_a_loop_without_a_constant_bound_stays() -> None:
    inner = For("j", ZERO, n, "block", Store("A", (i, j), ONE))
    alone = For("i", ZERO, n, "block", inner)
    assert collapse_block(alone, {"i", "j", "n"}) == alone


def test_names_are_new() -> None:
    taken = {"i", "j", "n", "thread"}
    made = collapse_block(nest(), taken)
    assert isinstance(made, For) and made.var == "thread_2" and "thread_2" in taken
