"""Forwarding keeps what kernels do, and turns chains through memory into chains of registers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.kernel_runner import Compiled, assert_same
from tests.codegen.random_kernels import Generator
from weft.codegen.scalar_replacement import scalar_replacement
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import Block, Buffer, For, If, Kernel, Let, Stmt, Store, Update, walk
from weft.ir.loop_printer import print_stmt
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Expr, Load, Var, literal, select

I64 = dtypes.int64
i, j, n = Var("i"), Var("j"), Var("n")
SIDE = 12
SIZES = (0, 1, 2, 3, 5, SIDE - 4)


def at(name: str, *indices: Expr) -> Load:
    return Load(name, indices, I64)


def put(name: str, indices: tuple[Expr, ...], value: Expr) -> Store:
    return Store(name, indices, value)


def loop(body: Stmt, low: int = 1, var: str = "j") -> For:
    return For(var, literal(low), n, "serial", body)


def kernel(body: Stmt, side: int = SIDE) -> Kernel:
    shape = (literal(side), literal(side))
    buffers = [Buffer(name, I64, shape, (literal(side), literal(1))) for name in "xyb"]
    return Kernel("k", ("n",), tuple(buffers), body, ())


def carries(body: Stmt, side: int = SIDE) -> int:
    """How many values of earlier turns the loops keep; the kernel still does the same."""
    original = kernel(body, side)
    changed = scalar_replacement(original)
    verify_kernel(changed)
    for size in SIZES:
        rng = np.random.default_rng(size)
        arrays = {b.name: rng.integers(-9, 9, side * side) for b in original.buffers}
        expected = {name: a.copy() for name, a in arrays.items()}
        interpret(original, {"n": size}, expected)
        actual = {name: a.copy() for name, a in arrays.items()}
        interpret(changed, {"n": size}, actual)
        native, _ = Compiled(changed)({"n": size}, arrays)
        for name, values in expected.items():
            assert_same(actual[name], values, 0.0, name)
            assert_same(native[name], values, 0.0, name)
    return print_stmt(changed.body).count("allocate carried")


THREE = literal(3)


def row(value: Expr, r: Expr = THREE) -> Store:
    return put("x", (r, j), value)


X1, X2 = at("x", literal(3), j - 1), at("x", literal(3), j - 2)
B = at("b", literal(3), j)


def test_one_turn_back() -> None:
    assert carries(loop(row(X1 * 2 + B))) == 1


def test_two_turns_back() -> None:
    assert carries(loop(row(X1 * 2 - X2 + B), 2)) == 2


def test_only_three_turns_back() -> None:
    assert carries(loop(row(at("x", literal(3), j - 3) + B), 3)) == 3


def test_read_after_it_is_stored_again() -> None:
    second = put("y", (literal(0), j), X1 + at("x", literal(3), j))
    assert carries(loop(Block((row(B * 3), second)))) == 1


def test_in_a_let() -> None:
    body = Let("t", X1 + B, row(Var("t") * 2))
    assert carries(loop(body)) == 1


def test_updates_carry_too() -> None:
    update = Update((("x", (literal(3), j)),), monoid("add", I64), (X1 * 2,))
    assert carries(loop(update)) == 1


def test_rows_side_by_side() -> None:
    body = row(at("x", i, j - 1) + at("b", i, j), i)
    assert carries(loop(For("i", literal(0), literal(3), "unrolled", body))) == 3


def test_lanes_each_have_their_own() -> None:
    body = loop(row(at("x", i, j - 1) + at("b", i, j), i))
    assert carries(For("i", literal(0), n, "vector", body)) == 1


def test_short_vectors_have_one_for_each_lane() -> None:
    body = row(at("x", i, j - 1) * 3 + at("x", i, j - 2) + at("b", i, j), i)
    assert carries(loop(For("i", literal(0), literal(3), "vector", body), low=2)) == 2


FIXED = at("x", i, literal(0))


@pytest.mark.parametrize(
    ("body", "behind"),
    [
        (put("x", (i, literal(0)), FIXED * 3 + at("b", i, j)), True),
        (Update((("x", (i, literal(0))),), monoid("add", I64), (at("b", i, j) * j,)), True),
        (Block((put("x", (i, literal(0)), at("b", i, j)), put("y", (i, j), j))), True),
        (put("x", (i, literal(0)), FIXED * 3 + at("x", i, literal(2))), True),
        (put("x", (i, literal(0)), FIXED * 3 + at("x", i, j + 1)), False),
        (put("x", (i, literal(0)), FIXED * 3 + at("x", i + 1, literal(0))), False),
    ],
)
def test_what_all_turns_store_at_one_place(body: Stmt, behind: bool) -> None:
    lanes = For("i", literal(0), literal(3), "vector", body)
    assert carries(loop(lanes)) == 1
    inner = [s for s in walk(scalar_replacement(kernel(loop(lanes))).body) if isinstance(s, For)]
    turns = next(s for s in inner if s.var == "j")
    assert any(isinstance(s, Store) and s.buffer == "x" for s in walk(turns)) is not behind


@pytest.mark.parametrize(
    "body",
    [
        row(at("x", i + 1, j - 1) + B, i),  # another lane's
        Block((put("x", (i, literal(0)), B), put("y", (i, j), FIXED))),  # read after it is stored
        Block((row(at("x", i, j - 1) + B, i), put("x", (literal(7), j), B))),
        Update((("x", (literal(3), j)),), monoid("add", I64), (X1 * 2,)),  # of all lanes
    ],
)
def test_short_vectors_without(body: Stmt) -> None:
    assert carries(loop(For("i", literal(0), literal(3), "vector", body))) == 0


def test_lanes_of_uneven_loops() -> None:
    body = put("x", (i, j), at("x", i, j - 1) * 3 + at("b", i, j))
    triangle = For("j", literal(1), i + 1, "serial", body)
    assert carries(For("i", literal(0), n, "vector", triangle)) == 1


@pytest.mark.parametrize(
    "body",
    [
        row(at("x", literal(3), j + 1) + B),  # stored later
        row(at("x", literal(2), j - 1) + B),  # another row
        row(at("x", literal(3), j) + B),  # this turn's
        row(at("x", j, literal(3)) + B),  # not always the same distance
        Block((row(X1 + B), put("x", (j, literal(3)), B))),  # may meet the row
        Block((row(X1 + B), put("x", (literal(3), literal(4)), B))),
        row(select(B > 0, X1, 7)),  # not always loaded
        put("x", (literal(3), literal(3)), at("x", literal(3), literal(3)) + B),
    ],
)
def test_nothing_to_carry(body: Stmt) -> None:
    assert carries(loop(body)) == 0


def test_conditions_stay_as_they_are() -> None:
    assert carries(loop(If(B > 0, row(X1 + B)))) == 0


def test_buffers_that_overlap_are_left_alone() -> None:
    original = kernel(loop(row(X1 + B)))
    x, y, b = original.buffers
    overlapping = Buffer("x", I64, x.shape, x.strides, aliases=("y",))
    again = Kernel("k", ("n",), (overlapping, y, b), original.body, ())
    assert scalar_replacement(again) is again


@pytest.mark.parametrize("seed", range(30))
def test_random_kernels_do_the_same(seed: int) -> None:
    original, parameters, arrays = Generator(seed).kernel()
    changed = scalar_replacement(original)
    verify_kernel(changed)
    expected = {name: a.copy() for name, a in arrays.items()}
    actual = {name: a.copy() for name, a in arrays.items()}
    assert interpret(original, parameters, expected) == interpret(changed, parameters, actual)
    for name, values in expected.items():
        assert_same(actual[name], values, 0.0, name)
    assert sum(1 for _ in walk(changed.body)) >= 1


@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 5, 7, 8, 9])
def test_lanes_take_what_lanes_before_have_stored(lanes: int) -> None:
    """``carries`` counts registers: one for each turn back, and one to lay lanes side by side."""

    def skewed(*reads: Expr) -> int:
        value = reads[0]
        for read in reads[1:]:
            value = value * 2 + read
        body = put("x", (i + 2, j + 9 - i), value + at("b", i, j))
        return carries(loop(For("i", literal(0), literal(lanes), "vector", body)), 20)

    assert skewed(at("x", i + 2, j + 8 - i)) == 1
    assert skewed(at("x", i + 1, j + 9 - i)) == 2
    assert skewed(at("x", i + 1, j + 9 - i), at("x", i + 1, j + 8 - i)) == 4
    assert skewed(at("x", i, j + 9 - i), at("x", i + 2, j + 8 - i)) == (3 if lanes > 1 else 1)
    assert skewed(at("x", i + 1, j + 11 - i)) == 0  # of a later turn
    assert skewed(at("x", i + 3, j + 8 - i)) == 0  # of the next lane, before that has stored it
