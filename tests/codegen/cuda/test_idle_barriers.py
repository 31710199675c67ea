"""Barriers go where the proof can do without, one by one, and no others."""

from __future__ import annotations

import pytest

from weft.codegen.cuda.idle_barriers import without_idle_barriers
from weft.ir.dtypes import int64
from weft.ir.errors import IllegalScheduleError
from weft.ir.loop_ir import Allocate, Barrier, Block, Buffer, For, Kernel, Stmt, Store, walk
from weft.ir.loop_printer import print_stmt
from weft.ir.scalar_expr import Expr, Load, Var, literal
from weft.polyhedral.launches.idle_barriers import idle_barriers
from weft.polyhedral.proof.gpu import check_races

b, c, n = map(Var, ("b", "c", "n"))
ZERO, ONE = literal(0), literal(1)
P = Buffer("p", int64, (literal(256),), (ONE,), "shared")


def loop(var: str, value: Expr) -> Stmt:
    return For(var, ZERO, literal(256), "block", Store("p", (Var(var),), value))


def load(*indices: Expr) -> Load:
    return Load("p", indices, int64)


def kernel(*steps: Stmt) -> Kernel:
    body = For("b", ZERO, n, "grid", Allocate(P, Block(steps)))
    return Kernel("f", ("n",), (), body)


def test_threads_with_their_own_elements_need_none() -> None:
    own = kernel(loop("c", ZERO), Barrier(), loop("d", load(Var("d")) + 1))
    made = without_idle_barriers(own, idle_barriers(own))
    assert print_stmt(made.body) == (
        "for b in 0 .. n grid:\n"
        "  allocate p: int64[256] shared\n"
        "  for c in 0 .. 256 block:\n"
        "    p[c] = 0\n"
        "  for d in 0 .. 256 block:\n"
        "    p[d] = p[d] + 1"
    )


def test_others_stay() -> None:
    steps = (loop("c", ZERO), Barrier(), loop("d", load(Var("d")) + 1), Barrier())
    mixed = kernel(*steps, Barrier(), loop("e", load(literal(255) - Var("e"))))
    made = without_idle_barriers(mixed, idle_barriers(mixed))
    # The last loop reads what others write in itself: nothing helps, and nothing goes.
    assert made == mixed
    with pytest.raises(IllegalScheduleError):
        check_races(mixed)
    spare = kernel(
        *steps, Barrier(), For("e", ZERO, literal(1), "block", Store("p", (ONE,), load(ONE)))
    )
    made = without_idle_barriers(spare, idle_barriers(spare))
    assert sum(isinstance(stmt, Barrier) for stmt in walk(made.body)) == 1
