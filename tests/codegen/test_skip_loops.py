"""Loops that data say do nothing are skipped; the kernel does the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.kernel_runner import Compiled, assert_same
from weft.codegen.unswitch import skipped, unswitch
from weft.ir import build, dtypes
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import Block, Buffer, Check, For, If, Kernel, Stmt, Store, Update, walk
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Expr, Load, Var, literal, select
from weft.ir.scalar_expr import walk as walk_expr

i, j, n = Var("i"), Var("j"), Var("n")
SIDE = 12


def at(name: str, *indices: Expr) -> Load:
    return Load(name, indices, dtypes.int64)


def fold(name: str, value: Expr) -> Update:
    return Update((("x", (i, j)),), build.monoid(name, dtypes.int64), (value,))


def kernel(body: Stmt, overlapping: bool = False) -> Kernel:
    shape, strides = (literal(SIDE), literal(SIDE)), (literal(SIDE), literal(1))
    aliases = ("x",) if overlapping else ()
    buffers = [Buffer("x", dtypes.int64, shape, strides)]
    buffers.append(Buffer("g", dtypes.int64, shape, strides, aliases=aliases))
    nest = For("i", literal(0), n, "serial", For("j", literal(1), n, "serial", body))
    return Kernel("k", ("n",), tuple(buffers), nest, ())


def check_same(original: Kernel, changed: Kernel) -> None:
    verify_kernel(changed)
    for size in (0, 1, 2, 5, SIDE - 1):
        rng = np.random.default_rng(size)
        arrays = {b.name: rng.integers(-1, 2, SIDE * SIDE) for b in original.buffers}
        expected = {name: a.copy() for name, a in arrays.items()}
        interpret(original, {"n": size}, expected)
        actual = {name: a.copy() for name, a in arrays.items()}
        interpret(changed, {"n": size}, actual)
        native, _ = Compiled(changed)({"n": size}, arrays)
        for name, values in expected.items():
            assert_same(actual[name], values, 0.0, name)
            assert_same(native[name], values, 0.0, name)


def asked_in_loops(stmt: Stmt) -> int:
    """Selections by data that innermost loops are left with."""
    inner = [s for s in walk(stmt) if isinstance(s, For) and s.var == "j"]
    return sum("select" in repr(s).lower() for s in inner)


GUARD = at("g", i, literal(0)) > 0
SKIPPED = {
    "kept": Store("x", (i, j), select(GUARD, j * 3, at("x", i, j))),
    "kept otherwise": Store("x", (i, j), select(GUARD, at("x", i, j), j * 3)),
    "sums": fold("add", select(GUARD, j, literal(0))),
    "maxima": fold("max", select(GUARD, j, literal(-(2**63)))),
    "several": Block(
        (
            Store("x", (i, j), select(GUARD, j * 3, at("x", i, j))),
            fold("mul", select(GUARD, at("g", i, j), literal(1))),
        )
    ),
}


@pytest.mark.parametrize("name", SKIPPED)
def test_a_loop_without_effect_is_skipped(name: str) -> None:
    before = kernel(SKIPPED[name])
    after = unswitch(before)
    check_same(before, after)
    assert asked_in_loops(after.body) == 0


CHANGED = {
    "moves": Store("x", (i, j), select(at("g", i, j) > 0, j, at("x", i, j))),
    "written": Store("x", (i, j), select(at("x", i, literal(0)) > 0, j, at("x", i, j))),
    "does something": Store("x", (i, j), select(GUARD, j, i)),
    "another element": Store("x", (i, j), select(GUARD, j, at("x", i, j - 1))),
    "not neutral": fold("add", select(GUARD, j, literal(1))),
    "one of two": Block((SKIPPED["kept"], fold("add", j))),
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_has_effects_or_changes_stays(name: str) -> None:
    before = kernel(CHANGED[name])
    after = unswitch(before)
    check_same(before, after)
    assert asked_in_loops(after.body) > 0


def test_buffers_that_overlap_may_change() -> None:
    before = kernel(SKIPPED["kept"], overlapping=True)
    assert asked_in_loops(unswitch(before).body) > 0


def test_nests_are_skipped_as_a_whole() -> None:
    there = at("g", literal(0), literal(0)) > 0
    before = kernel(Store("x", (i, j), select(there, j * 3, at("x", i, j))))
    after = unswitch(before)
    check_same(before, after)
    outer = next(s for s in walk(after.body) if isinstance(s, For))
    conditions = [s.condition for s in walk(after.body) if isinstance(s, If)]
    assert any(isinstance(e, Load) for c in conditions for e in walk_expr(c))
    assert not any(isinstance(s, If) for s in walk(outer))


def test_checks_of_what_stays_are_done_once() -> None:
    inside = (at("g", i, literal(0)) >= 0) & (at("g", i, literal(0)) < SIDE)
    check = Check(inside, 1, (i, n))
    before = kernel(Block((check, If(inside, Store("x", (at("g", i, literal(0)), j), j)))))
    before = replace(before, messages=("outside",))
    after = unswitch(before)
    check_same(before, after)
    inner = next(s for s in walk(after.body) if isinstance(s, For) and s.var == "j")
    assert not any(isinstance(s, Check | If) for s in walk(inner))


def test_parallel_loops_are_left_alone() -> None:
    body = Store("x", (i, j), select(GUARD, j, at("x", i, j)))
    assert skipped(For("j", literal(0), n, "parallel", body)) is None
