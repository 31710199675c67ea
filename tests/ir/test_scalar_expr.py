"""Scalar expressions: rewriting them means what it says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.ir import dtypes
from weft.ir.scalar_expr import Expr, Load, Var, apply, literal, rewrite, select, substitute
from weft.ir.scalar_interpreter import evaluate

i, j = Var("i"), Var("j")
NEW = (i, j, literal(0), literal(1), literal(-3), i + j, j * 2 + 1)


@st.composite
def indices(draw: st.DrawFn, depth: int = 3) -> Expr:
    if not depth or draw(st.booleans()):
        return draw(st.sampled_from([i, j, literal(draw(st.integers(-2, 2)))]))
    left, right = draw(indices(depth=depth - 1)), draw(indices(depth=depth - 1))
    if draw(st.booleans()):
        return select(left < right, right, left)
    return apply(draw(st.sampled_from(["add", "sub", "mul"])), left, right)


def value(expr: Expr, at: dict[str, int]) -> int:
    return int(evaluate(expr, {name: np.asarray(number) for name, number in at.items()}))


@settings(max_examples=300)
@given(indices(), st.sampled_from(NEW), st.sampled_from(NEW))
def test_variables_are_replaced_at_once(expr: Expr, first: Expr, second: Expr) -> None:
    """Also where folding leaves nothing but what one of them was replaced by."""
    replaced = substitute(expr, {"i": first, "j": second})
    for point in ({"i": 5, "j": -7}, {"i": 0, "j": 3}):
        there = {"i": value(first, point), "j": value(second, point)}
        assert value(replaced, point) == value(expr, there)


@pytest.mark.parametrize("expr", [i + j, j + i, i - j, select((i + 1 > j), i + j, j)])
def test_swapped_names(expr: Expr) -> None:
    assert substitute(expr, {"i": j, "j": literal(0)}) == substitute(
        substitute(expr, {"j": literal(0)}), {"i": j}
    )


def test_a_node_goes_through_once() -> None:
    def shifted(node: Expr) -> Expr | None:
        return Load("a", (node.indices[0] + 1,), node.dtype) if isinstance(node, Load) else None

    found = rewrite(Load("a", (i,), dtypes.int64) + substitute(j, {"j": literal(0)}), shifted)
    assert found == Load("a", (i + 1,), dtypes.int64)
    lazy = select(Var("c", dtypes.bool_), Load("a", (i,), dtypes.int64), literal(2))
    known = rewrite(
        lazy,
        lambda n: (
            literal(True, dtypes.bool_) if isinstance(n, Var) and n.name == "c" else shifted(n)
        ),
    )
    assert known == Load("a", (i + 1,), dtypes.int64)
