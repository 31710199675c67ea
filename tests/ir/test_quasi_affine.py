"""The normal form means what the expression means, and equal meanings written twice are equal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.polyhedral.scops import evaluate
from weft.ir import dtypes
from weft.ir.errors import CompileError
from weft.ir.quasi_affine import affine
from weft.ir.scalar_affine import to_expr
from weft.ir.scalar_expr import Expr, Literal, Load, Var, binary, literal, select

i, j = Var("i"), Var("j")

constants = st.integers(-20, 20)
divisors = st.integers(1, 12)
leaves: st.SearchStrategy[Expr] = st.one_of(
    st.sampled_from([i, j]), constants.map(lambda c: literal(c))
)


def _grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.one_of(
        st.builds(lambda op, a, b: binary(op, a, b), st.sampled_from(["add", "sub"]), inner, inner),
        st.builds(lambda a, c: a * c, inner, constants),
        st.builds(lambda a: -a, inner),
        st.builds(lambda a, d: a // d, inner, divisors),
        st.builds(lambda a, d: a % d, inner, divisors),
    )


expressions = st.recursive(leaves, _grow, max_leaves=8)


@given(expressions, st.integers(-50, 50), st.integers(-50, 50))
def test_normal_form_keeps_the_value(expr: Expr, a: int, b: int) -> None:
    env = {"i": a, "j": b}
    assert evaluate(to_expr(affine(expr)), env) == evaluate(expr, env)


@given(expressions)
def test_normal_form_is_stable(expr: Expr) -> None:
    assert affine(to_expr(affine(expr))) == affine(expr)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((i + 1) * 2, 2 * i + 2),
        (i % 4, i - 4 * (i // 4)),
        ((8 * i + j) // 8, i + j // 8),
        (i // 4 // 8, i // 32),
        ((i // 4 + 3) // 8, (i + 12) // 32),
        ((2 * i + 1) // 4, i // 2),
        (i + j - i, j),
        ((i - 32) // 32, i // 32 - 1),
    ],
)
def test_two_ways_of_writing_one_value(left: Expr, right: Expr) -> None:
    assert affine(left) == affine(right)


def test_text_reads_like_source() -> None:
    assert str(affine(3 - 2 * i + 32 * (j // 8))) == "32*(j // 8) - 2*i + 3"
    assert str(affine((i + j) // 2 - 1)) == "(i + j) // 2 - 1"
    assert str(affine(i - i)) == "0"
    assert str(affine(-i)) == "-i"


@pytest.mark.parametrize(
    "expr",
    [
        i * j,
        i // j,
        Load("A", (i,), dtypes.int64),
        select(i > 0, i, j),
        Var("x", dtypes.int32),
        Literal(1.5, dtypes.float32),
    ],
)
def test_what_is_not_quasi_affine_is_refused(expr: Expr) -> None:
    with pytest.raises(CompileError) as caught:
        affine(expr)
    assert caught.value.code == "WEFT-E0401"


def test_a_long_chain_needs_no_recursion() -> None:
    expr: Expr = i
    for _ in range(5000):
        expr = expr + j
    assert affine(expr).coefficient("j") == 5000
