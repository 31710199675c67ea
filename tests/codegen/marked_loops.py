"""Kernels of two loops over marks that show what runs, how often and in which order."""

from __future__ import annotations

import numpy as np

from weft.ir import dtypes
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_ir import Buffer, For, If, Kernel, Kind, Stmt, Store, walk
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Expr, Load, Var, literal

i, j, n, m = map(Var, "ijnm")
SIDE = 48
SIZES = [(a, b) for a in (0, 1, 2, 7, 13) for b in (0, 1, 5, 8, 20)]


def mark(number: int, *at: Expr) -> Stmt:
    """A step that cannot be left out, done twice or moved unseen: 3·x + number."""
    place = (at[0] + 8, at[1] + 8)
    return Store("x", place, Load("x", place, dtypes.int64) * 3 + number)


def kernel(body: Stmt) -> Kernel:
    buffer = Buffer("x", dtypes.int64, (literal(SIDE),) * 2, (literal(SIDE), literal(1)))
    return Kernel("k", ("n", "m"), (buffer,), body, ())


def same(one: Kernel, two: Kernel) -> None:
    verify_kernel(two)
    for a, b in SIZES:
        first, second = np.ones((2, SIDE * SIDE), np.int64)
        interpret(one, {"n": a, "m": b}, {"x": first})
        interpret(two, {"n": a, "m": b}, {"x": second})
        np.testing.assert_array_equal(second, first, err_msg=f"n={a} m={b}")


def nest(body: Stmt, kind: Kind = "vector") -> Kernel:
    return kernel(For("i", literal(0), n, "serial", For("j", literal(0), m, kind, body)))


def innermost(of: Kernel) -> list[For]:
    loops = [s for s in walk(of.body) if isinstance(s, For)]
    return [s for s in loops if not any(isinstance(x, For) for x in walk(s.body))]


def free(loop: For) -> bool:
    return not any(isinstance(s, If) for s in walk(loop.body))
