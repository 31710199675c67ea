"""Index expressions from text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.ir.index_reader import parse_constraint, parse_index
from weft.ir.scalar_affine import Affine, FloorDiv, to_affine
from weft.ir.scalar_expr import Var, literal
from weft.ir.scop import Constraint

i, n = Var("i"), Var("n")
names = st.sampled_from(["i", "j", "n"])
flat = st.lists(st.tuples(names, st.integers(-9, 9)), max_size=3)


def total(terms: list[tuple[str, int]], constant: int) -> Affine:
    form = Affine((), constant)
    for name, c in terms:
        form = form + Affine(((name, 1),)).scaled(c)
    return form


def floor(form: Affine, divisor: int, factor: int) -> Affine:
    return Affine(((FloorDiv(form, divisor), 1),)).scaled(factor)


factors = st.sampled_from([-3, -1, 1, 3])


@given(flat, st.integers(-1, 1), flat, st.integers(-1, 1), st.integers(2, 40), factors, factors)
def test_what_is_printed_is_read(terms, constant, inner, below, divisor, one, two) -> None:
    form = total(terms, constant) + floor(total(inner, below), divisor, one)
    form = form + floor(floor(total(inner, below), divisor, one), 3, two)
    normal = to_affine(parse_index(str(form)))
    assert normal is not None
    for values in ({"i": -7, "j": 4, "n": 100}, {"i": 13, "j": 0, "n": 1}):
        assert normal.value(values) == form.value(values)


def test_examples() -> None:
    assert to_affine(parse_index(" 2*i - n // 4 + 3 ")) == to_affine(i * 2 - n // 4 + 3)
    assert to_affine(parse_index("-i % 8")) == to_affine((literal(0) - i) % 8)
    assert parse_constraint("i < n") == Constraint(n - i - 1)
    assert parse_constraint("i <= n") == Constraint(n - i)
    assert parse_constraint("i > n") == Constraint(i - n - 1)
    assert parse_constraint("i >= 0") == Constraint(i)
    assert parse_constraint("i == n") == Constraint(i - n, equality=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "i +",
        "f(i)",
        "i / 2",
        "1.5",
        "True",
        "i ** 2",
        "a.b",
        "i < n",
        "x" * 3000,
        "-" * 1000 + "i",
    ],
)
def test_what_is_no_index(text: str) -> None:
    with pytest.raises(ValueError):
        parse_index(text)


@pytest.mark.parametrize("text", ["i", "i < n < 3", "i != n", "i in n", "i < 'n'", "(i < n) < 2"])
def test_what_is_no_constraint(text: str) -> None:
    with pytest.raises(ValueError):
        parse_constraint(text)
