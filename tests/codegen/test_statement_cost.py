from __future__ import annotations

import pytest

from weft.codegen.statement_cost import OPERATION, Around, outside, statement_cost
from weft.ir.build import monoid
from weft.ir.dtypes import float32, int64
from weft.ir.loop_ir import (
    Allocate,
    Block,
    Buffer,
    Check,
    For,
    Kernel,
    Let,
    Stmt,
    Store,
    Update,
)
from weft.ir.scalar_expr import Expr, Load, Var, apply, literal

i, j, k = Var("i"), Var("j"), Var("k")
ZERO = literal(0)


def x(*indices: Expr) -> Load:
    return Load("x", indices, float32)


def around(*loops: tuple[str, str, int | None]) -> Around:
    """Loops from 0, outermost first: variable, kind, turns (None: as sizes have it)."""
    found = outside(Kernel("k", ("n",), (), Block(())))
    for var, kind, turns in loops:
        upper = Var("n") if turns is None else literal(turns)
        found = found.inside(For(var, ZERO, upper, kind, Block(())))  # type: ignore[arg-type]
    return found


def cost(stmt: Stmt, where: Around) -> float:
    return statement_cost(stmt, where) / OPERATION


ROW = around(("i", "serial", None))
ADD = Update((("y", (i,)),), monoid("add", float32), (x(i) * x(i + 1),))


def test_loads_operations_and_stores() -> None:
    element = x(i)
    assert cost(Store("y", (i,), element + element), ROW) == 3  # the two loads are one node
    assert cost(Store("y", (i,), apply("exp", x(i))), ROW) == 12
    assert cost(Check(x(i) < 3.0, 1, (i, i)), ROW) == 2
    assert cost(Update((("y", (i,)),), monoid("min", float32), (element * element,)), ROW) == 5
    assert cost(Store("y", (i * 3 + 1,), literal(0.0, float32)), ROW) == 1  # no data in addresses
    assert cost(Store("y", (Load("p", (i,), int64),), literal(0.0, float32)), ROW) == 2


def test_what_stays_in_the_innermost_loop_is_free_there() -> None:
    inner = around(("i", "serial", None), ("j", "serial", None))
    assert cost(Store("y", (j,), x(j) * (x(i) + 1.0)), inner) == 3
    total = Update((("y", (i,)),), monoid("add", float32), (x(i, j),))
    assert cost(total, inner) == 2  # the sum stays in a register


def test_copies_share_what_they_have_in_common() -> None:
    """A register tile of 8 rows by 3 vectors: of 24 multiply-adds, 3 loads of lanes, 8 of rows."""
    tile = around(("k", "serial", None), ("i", "unrolled", 8), ("j", "vector", 24))
    step = Update((("t", (i, j)),), monoid("add", float32), (x(k, j) * Load("a", (i, k), float32),))
    registers = Around(tile.innermost, tile.lanes, tile.copies, tile.follows, frozenset("t"))
    assert cost(step, registers) == pytest.approx(2 + 1 / 8 + 1 / 3, abs=0.03)


def test_elements_that_are_no_neighbours_are_loaded_one_by_one() -> None:
    lanes = around(("j", "serial", None), ("i", "vector", None))
    assert cost(Store("y", (i,), x(j, i)), lanes) == 2
    assert cost(Store("y", (i,), x(i, j)), lanes) == 1 + 8


def test_names_stand_for_what_they_are_made_of() -> None:
    let = Let("a", i + 1, Block(()))
    inner = ROW.inside(For("j", ZERO, Var("n"), "serial", Block(())))
    assert cost(Store("y", (j,), x(Var("a"))), inner.given(let)) == 1
    assert cost(Store("y", (j,), x(Var("a"))), inner.given(Let("a", j + 1, Block(())))) == 2


def test_registers_are_free() -> None:
    buffer = Buffer("r", float32, (literal(4),), (literal(1),), scope="register")
    kernel = Kernel("k", (), (), Allocate(buffer, Block(())))
    assert cost(Store("r", (ZERO,), Load("r", (ZERO,), float32)), outside(kernel)) == 0
    assert cost(ADD, ROW) == 2 + 2 + 2  # each of two factors, the two operations, load and store


def test_entering_a_loop_costs_unless_it_is_written_out() -> None:
    known = [("serial", 4, 8), ("vector", None, 8), ("vector", 24, 0), ("unrolled", 4, 0)]
    for kind, turns, entered in known:
        upper = Var("n") if turns is None else literal(turns)
        assert cost(For("j", ZERO, upper, kind, Block(())), ROW) == entered  # type: ignore[arg-type]
