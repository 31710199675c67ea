"""Neighbours under one condition on data are asked about together; the kernel does the same."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.kernel_runner import Compiled, assert_same
from tests.codegen.random_kernels import Generator
from weft.codegen.group_guards import group_guards
from weft.ir import dtypes
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import Block, Buffer, Check, For, If, Kernel, Kind, Stmt, Store, walk
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Expr, Load, Select, Var, literal, select
from weft.ir.scalar_expr import walk as walk_expr

i, n = Var("i"), Var("n")
SIDE = 12


def at(name: str, index: Expr) -> Load:
    return Load(name, (index,), dtypes.int64)


def kept(name: str, condition: Expr, value: Expr, index: Expr = i) -> Store:
    return Store(name, (index,), select(condition, value, at(name, index)))


def kernel(body: Stmt, kind: Kind = "serial") -> Kernel:
    buffers = [Buffer(b, dtypes.int64, (literal(SIDE),), (literal(1),)) for b in "xyg"]
    loop = For("i", literal(0), n, kind, body)
    return Kernel("k", ("n",), tuple(buffers), loop, ("outside",))


def grouped(body: Stmt) -> int:
    """How many conditions are asked once for several; the kernel still does the same."""
    original = kernel(body)
    changed = group_guards(original)
    verify_kernel(changed)
    for size in (0, 1, 2, 5, SIDE):
        rng = np.random.default_rng(size)
        arrays = {b.name: rng.integers(-2, 3, SIDE) for b in original.buffers}
        expected = {name: a.copy() for name, a in arrays.items()}
        actual = {name: a.copy() for name, a in arrays.items()}
        parameters = {"n": size}
        assert interpret(original, parameters, expected) == interpret(changed, parameters, actual)
        native, _ = Compiled(changed)(parameters, arrays)
        for name, values in expected.items():
            assert_same(actual[name], values, 0.0, name)
            assert_same(native[name], values, 0.0, name)
    return sum(isinstance(s, If) for s in walk(changed.body))


GUARD = at("g", i) > 0
TAKEN = select(GUARD, at("g", i), literal(0))
INSIDE = (at("g", i) >= 0) & (at("g", i) < SIDE)


@pytest.mark.parametrize(
    ("body", "conditions"),
    [
        (Block((kept("x", GUARD, i * 3), kept("y", GUARD, at("x", i) + 1))), 1),
        (Block((kept("x", ~GUARD, i * 3), kept("y", ~GUARD, at("x", i) + 1))), 1),
        (Block((kept("x", GUARD, i), kept("y", GUARD, i), Store("y", (literal(0),), i))), 1),
        (
            Block(
                (
                    Check(select(GUARD, INSIDE, literal(True, dtypes.bool_)), 1, (i, n)),
                    kept("x", GUARD, i * 3, TAKEN),
                    kept("y", GUARD, i * 5),
                )
            ),
            1,
        ),
        (Block((kept("x", GUARD, i), kept("g", GUARD, -i), kept("y", GUARD, i))), 1),
        (kept("x", GUARD, i * 3), 0),  # one alone
        (Block((kept("g", GUARD, -i), kept("y", GUARD, i))), 0),  # it has changed
        (Block((kept("x", GUARD, i), kept("y", at("g", i) > 1, i))), 0),
        (Block((kept("x", GUARD, i), Store("y", (i,), select(GUARD, i, n)))), 0),
    ],
)
def test_neighbours(body: Stmt, conditions: int) -> None:
    assert grouped(body) == conditions


def test_checks_are_done_once() -> None:
    check = Check(INSIDE, 1, (i, n))
    body = Block((check, Store("x", (i,), i), check, Store("g", (i,), i), check))
    changed = group_guards(kernel(body))
    assert grouped(body) == 0
    assert sum(isinstance(s, Check) for s in walk(changed.body)) == 2


def test_vectors_keep_their_selections() -> None:
    body = Block((kept("x", GUARD, i * 3), kept("y", GUARD, i)))
    changed = group_guards(kernel(body, "vector"))
    stores = [s for s in walk(changed.body) if isinstance(s, Store)]
    assert all(any(isinstance(e, Select) for e in walk_expr(s.value)) for s in stores)


@pytest.mark.parametrize("seed", range(30))
def test_random_kernels_do_the_same(seed: int) -> None:
    original, parameters, arrays = Generator(seed).kernel()
    changed = group_guards(original)
    verify_kernel(changed)
    expected = {name: a.copy() for name, a in arrays.items()}
    actual = {name: a.copy() for name, a in arrays.items()}
    assert interpret(original, parameters, expected) == interpret(changed, parameters, actual)
    for name, values in expected.items():
        assert_same(actual[name], values, 0.0, name)
