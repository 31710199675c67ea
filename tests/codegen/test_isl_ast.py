"""Loops that isl makes visit the instances that there are."""

from __future__ import annotations

import numpy as np
import pytest

from weft.codegen.from_schedule import build_kernel
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.index_reader import parse_index
from weft.ir.loop_interpreter import interpret
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Var, literal
from weft.ir.schedule_tree import Band, Leaf, Loop
from weft.ir.scop import Access, Body, Constraint, Scop, Statement, Tensor, Update

i, j, n = map(Var, "ijn")


@pytest.mark.parametrize("size", range(4))
def test_a_condition_that_isl_knows_to_hold(size: int) -> None:
    """isl writes ``if (n == 3 && c0 == 0 || 1)`` inside of these loops."""
    limits = (i + 1, 2 - i, j - i, n - 1 - j)
    domain = (*map(Constraint, limits), Constraint((j + 1) % 3, equality=True))
    s = Statement(
        "S",
        ("i", "j"),
        domain,
        (0, "i", 0, "j", 0),
        (Access("C", (i + 1, j + 1)),),
        (),
        Body((), (literal(1),)),
        Update(monoid("add", dtypes.int64), ()),
    )
    visits = Tensor("C", (literal(4), literal(8)), dtypes.int64, "inout")
    scop = Scop("holes", ("n",), (Constraint(n), Constraint(3 - n)), (visits,), (s,))
    values = {
        "a": "i // 3 + 2*(j // 6)",
        "b": "j // 6",
        "c": "i - 3*(i // 3)",
        "d": "(j - 2*(j // 2)) // 4",
    }
    loops = (Loop(name, {"S": parse_index(value)}) for name, value in values.items())
    tree = Band(tuple(loops), Leaf("S"))
    kernel = build_kernel(scop, tree, "holes")
    verify_kernel(kernel)
    found = np.zeros((4, 8), np.int64)
    interpret(kernel, {"n": size}, {"C": found.ravel()})
    expected = np.zeros_like(found)
    for a in range(-1, 3):
        for b in range(a, size):
            expected[a + 1, b + 1] += (b + 1) % 3 == 0
    np.testing.assert_array_equal(found, expected)
