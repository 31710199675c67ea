"""Simplifying keeps what kernels do, and removes what tiling leaves behind."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.codegen.kernel_runner import assert_same
from tests.codegen.random_kernels import Generator
from weft.codegen.cut_points import cut_points
from weft.codegen.cut_ranges import cut_ranges
from weft.codegen.group_guards import group_guards
from weft.codegen.optimise_kernel import optimise_kernel
from weft.codegen.peel_first import peel_first
from weft.codegen.simplify import simplify_kernel
from weft.codegen.split_tails import split_tails
from weft.codegen.unswitch import unswitch
from weft.ir import dtypes
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import Block, Buffer, Check, For, If, Kernel, Let, Stmt, Store, walk
from weft.ir.loop_printer import print_stmt
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Expr, Load, Var, apply, literal

F = dtypes.float32
i, t, n = Var("i"), Var("t"), Var("n")


def kernel(body: Stmt, *parameters: str) -> Kernel:
    x = Buffer("x", F, (literal(100),), (literal(1),))
    return Kernel("k", parameters, (x,), body, ("a check",))


def store(index: Expr) -> Store:
    return Store("x", (index,), literal(0, F))


def simplified(body: Stmt, *parameters: str) -> str:
    return print_stmt(simplify_kernel(kernel(body, *parameters)).body)


@pytest.mark.parametrize("seed", range(40))
def test_random_kernels_do_the_same(seed: int) -> None:
    original, parameters, arrays = Generator(seed).kernel()
    expected = {name: array.copy() for name, array in arrays.items()}
    status = interpret(original, parameters, expected)
    for version in (simplify_kernel(original), optimise_kernel(original)):
        verify_kernel(version)
        actual = {name: array.copy() for name, array in arrays.items()}
        assert interpret(version, parameters, actual) == status
        for name, array in expected.items():
            assert_same(actual[name], array, 0.0, name)


def test_twice_is_once() -> None:
    for seed in range(20):
        once = simplify_kernel(Generator(seed).kernel()[0])
        assert simplify_kernel(once) == once


@pytest.mark.parametrize(
    "action", [cut_points, split_tails, unswitch, group_guards, cut_ranges, peel_first]
)
def test_what_a_pass_leaves_alone_stays_itself(action: Callable[[Kernel], Kernel]) -> None:
    alone = 0
    for seed in range(40):
        once = simplify_kernel(Generator(seed).kernel()[0])
        done = action(once)
        assert (done.body is once.body) == (done == once)
        alone += done.body is once.body
    assert alone


@pytest.mark.parametrize("name", ["t", "n"])
def test_a_tile_says_nothing_of_a_name_that_is_bound_again(name: str) -> None:
    """``i // 4`` is the outer ``t`` (``n``), which another one hides there."""
    again = Let(name, n * 2 + 3, Block((store(i // 4), store(Var(name) + 50))))
    point = For("i", Var(name) * 4, Var(name) * 4 + 4, "serial", again)
    original = kernel(For("t", literal(0), n, "serial", point), "n")
    for size in range(8):
        expected, actual = np.ones((2, 100), np.float32)
        interpret(original, {"n": size}, {"x": expected})
        interpret(simplify_kernel(original), {"n": size}, {"x": actual})
        np.testing.assert_array_equal(actual, expected, err_msg=str(size))


def test_tile_arithmetic_vanishes() -> None:
    point = For("i", literal(0), apply("min", literal(32), literal(64) - t * 32), "unrolled",
                store((t * 32 + i) % 32 + ((t * 32 + i) // 32) * 32))  # fmt: skip
    loop = For("t", literal(0), literal(2), "serial", point)
    assert simplified(loop) == (
        "for t in 0 .. 2 serial:\n  for i in 0 .. 32 unrolled:\n    x[i + t * 32] = 0.0"
    )


def test_loops_of_one_turn_and_of_none() -> None:
    inner = For("i", t, t + 1, "serial", store(i))
    assert simplified(For("t", literal(3), literal(4), "serial", inner)) == "x[3] = 0.0"
    assert simplified(For("t", literal(3), literal(3), "serial", inner)) == ""
    assert simplified(For("t", n, n - 1, "serial", inner), "n") == ""


def test_conditions_are_decided_by_ranges() -> None:
    body = If(i < 10, If(i < 12, store(i), store(i + 1)), If(i >= 5, store(i + 2)))
    assert simplified(For("i", literal(0), literal(20), "serial", body)) == (
        "for i in 0 .. 20 serial:\n  if i < 10:\n    x[i] = 0.0\n  else:\n    x[i + 2] = 0.0"
    )


def test_checks_that_hold_and_lets_of_nothing_go() -> None:
    body = Let("m", i, Block((Check(Var("m") < 20, 1, (i, i)), store(Var("m")))))
    assert simplified(For("i", literal(0), literal(20), "serial", body)) == (
        "for i in 0 .. 20 serial:\n  x[i] = 0.0"
    )


def test_long_chains_of_lets_cost_no_stack() -> None:
    stmt: Stmt = Store("x", (literal(0),), Var("t0", F))
    for position in range(3000):
        below = Var(f"t{position + 1}", F) if position < 2999 else Load("x", (literal(1),), F)
        stmt = Let(f"t{position}", below + 1.0, stmt)
    result = optimise_kernel(kernel(stmt))
    verify_kernel(result)
    assert sum(1 for s in walk(result.body) if isinstance(s, Let)) == 3000
    memory = {"x": np.zeros(100, np.float32)}
    interpret(result, {}, memory)
    assert memory["x"][0] == 3000


def test_unrolled_loops_in_vector_loops_are_written_out() -> None:
    """So that each copy of a sum is a sum of its own along the vector loop."""
    copies = For("t", literal(0), literal(3), "unrolled", store(t * 30 + i))
    shown = simplified(For("i", literal(0), n, "vector", copies), "n")
    assert "unrolled" not in shown
    assert [f"x[i{more}]" in shown for more in ("", " + 30", " + 60")] == [True] * 3
    outside = For(
        "t", literal(0), literal(3), "unrolled", For("i", literal(0), n, "vector", copies)
    )
    assert simplified(outside, "n").count("unrolled") == 1
