"""Invariant conditions leave innermost loops, and everything is still done."""

from __future__ import annotations

import numpy as np
import pytest

from weft import dtypes
from weft.codegen.loop_interpreter import interpret
from weft.codegen.loop_ir import Block, Buffer, For, If, Kernel, Stmt, Update, walk
from weft.codegen.loop_verifier import verify_kernel
from weft.codegen.unswitch import CONDITIONS, unswitch
from weft.frontend.build import monoid
from weft.frontend.scalar_expr import Apply, Expr, Load, Var, literal

i, j, n, m = map(Var, "ijnm")
SIZE = 8


def count(number: int) -> Stmt:
    """Counts visits of (i, j) by statement ``number``."""
    one = literal(1, dtypes.int64)
    return Update((("x", (literal(number), i, j)),), monoid("add", dtypes.int64), (one,))


def kernel(body: Stmt) -> Kernel:
    shape = (literal(4), literal(SIZE), literal(SIZE))
    strides = (literal(SIZE * SIZE), literal(SIZE), literal(1))
    buffer = Buffer("x", dtypes.int64, shape, strides)
    inner = For("j", literal(0), n, "vector", body)
    return Kernel("k", ("n", "m"), (buffer,), For("i", literal(0), n, "serial", inner), ())


def both(a: Expr, b: Expr) -> Expr:
    return Apply("and", (a, b))


CASES = {  # conditions of the loop's iterations, and how many Ifs stay in it
    "of sizes": ([n >= m], 0),
    "of an outer loop": ([i >= m], 0),
    "with one of the loop": ([both(i >= m, j >= m)], 1),
    "two": ([i >= m, n >= m], 0),
    "the same twice": ([i >= m, i >= m], 0),
    "more than there is room for": ([i >= m, i >= 3, i <= 5], 1),
    "of the loop": ([j >= m], 1),
    "of data": ([Load("x", (literal(0), i, i), dtypes.int64) >= 1], 1),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("otherwise", [False, True])
def test_same_visits(name: str, otherwise: bool) -> None:
    conditions, stay = CASES[name]
    other = count(3) if otherwise else Block(())
    body = Block((*(If(c, count(k), other) for k, c in enumerate(conditions)), count(3)))
    original = kernel(body)
    changed = unswitch(original)
    verify_kernel(changed)
    for parameters in ({"n": n_, "m": m_} for n_ in (0, 1, 7) for m_ in (-1, 0, 4, 9)):
        expected, found = np.zeros((2, 4 * SIZE * SIZE), np.int64)
        interpret(original, parameters, {"x": expected})
        interpret(changed, parameters, {"x": found})
        np.testing.assert_array_equal(found, expected)
    inner = [s for s in walk(changed.body) if isinstance(s, For) and s.var == "j"]
    most = max(sum(isinstance(s, If) for s in walk(loop.body)) for loop in inner)
    assert most == stay
    assert len(inner) <= 2**CONDITIONS
