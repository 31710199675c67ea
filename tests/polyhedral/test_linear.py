"""Strides, boxes and alignments read off expressions."""

from __future__ import annotations

from random import Random

import pytest

from tests.polyhedral.scops import Constraint, at, box, evaluate, statement
from weft.ir.scalar_expr import Expr, Var, literal
from weft.ir.scop import Statement
from weft.polyhedral.analysis import linear as subject
from weft.polyhedral.analysis.linear import Linear, extent, linear, mentions, stride

i, j, n = Var("i"), Var("j"), Var("n")


@pytest.mark.parametrize(
    "expr, dims, coefficients, rest",
    [
        (i, "ij", {"i": 1}, literal(0)),
        (i * 3 + j - 2, "ij", {"i": 3, "j": 1}, literal(-2)),
        (literal(4) * (i - j), "ij", {"i": 4, "j": -4}, literal(0)),
        (-(i + 1), "i", {"i": -1}, literal(-1)),
        (i + n, "i", {"i": 1}, n),
        (i - i + j, "ij", {"j": 1}, literal(0)),
        (n // 4 + i * 2, "i", {"i": 2}, n // 4),
        (n * 2, "i", {}, n * 2),
    ],
)
def test_linear(expr: Expr, dims: str, coefficients: dict[str, int], rest: Expr) -> None:
    split = linear(expr, tuple(dims))
    assert split is not None
    assert (dict(split.coefficients), split.rest) == (coefficients, rest)


@pytest.mark.parametrize("expr", [i // 2, i % 4, i * j, i * n, (i + n) // 3])
def test_what_is_not_linear(expr: Expr) -> None:
    assert linear(expr, ("i", "j")) is None


def test_random_sums_keep_their_value() -> None:
    random = Random(0)
    for _ in range(200):
        expr: Expr = literal(random.randint(-3, 3))
        for _ in range(random.randint(0, 5)):
            term = random.choice((i, j, n, n // 3, n % 2)) * random.randint(-3, 3)
            expr = random.choice((expr + term, expr - term, -expr, expr * random.randint(-2, 2)))
        split = linear(expr, ("i", "j"))
        assert split is not None and not mentions(split.rest, ("i", "j"))
        env = {name: random.randint(-9, 9) for name in "ijn"}
        total = sum(c * env[d] for d, c in split.coefficients.items())
        assert total + evaluate(split.rest, env) == evaluate(expr, env)


def over(*domain: Constraint, dims: tuple[str, ...] = ("i", "j")) -> Statement:
    return statement("s", domain, at("A", 0), dims=dims)


def test_a_box() -> None:
    s = over(*box(i=(1, n), j=8))
    assert subject.box(s) == {"i": (literal(1), n), "j": (literal(0), literal(8))}


def test_the_tighter_bound_counts() -> None:
    s = over(*box(i=8, j=8), Constraint(literal(4) - i), Constraint(j - 2))
    assert subject.box(s) == {"i": (literal(0), literal(5)), "j": (literal(2), literal(8))}


def test_dims_that_are_tied_to_others_have_no_box() -> None:
    """A triangle, an equality, and a bound that is not linear."""
    assert set(subject.box(over(*box(i=8), *box(j=i + 1)))) == set()
    assert set(subject.box(over(*box(i=8, j=8), Constraint(i % 2, equality=True)))) == {"j"}
    assert set(subject.box(over(*box(i=8, j=8), Constraint(literal(3) - j // 2)))) == {"i"}


def test_extent() -> None:
    assert extent((literal(2), literal(9))) == 7
    assert extent((literal(2), literal(1))) == 0
    assert extent((literal(0), n)) == 256 and extent((literal(0), n), default=5) == 5


def test_typical_extents() -> None:
    """Of open sizes and of parts of them; of several sizes there is no part."""
    s = over(*box(i=n, j=(n + 31) // 32, k=8, m=(n + Var("h")) // 4), dims=("i", "j", "k", "m"))
    assert [subject.typical_extent(s, d) for d in "ijkm"] == [256, 8, 8, 256]
    assert [subject.part_extent(s, d) for d in "ijkm"] == [None, 8, None, None]
    assert subject.part_extent(s, "absent") is None is subject.typical_extent(s, "absent")


@pytest.mark.parametrize(
    "indices, shape, dim, expected",
    [
        ((i, j), (4, 8), "j", 1),
        ((i, j), (4, 8), "i", 8),
        ((j, i), (4, 8), "j", 8),
        ((i, i), (4, 8), "i", 9),
        ((i * 2, j), (8, 8), "i", 16),
        ((i, j), (4, 8), "k", 0),
        ((i // 2, j), (4, 8), "i", None),
        ((n - 1 - i,), (4,), "i", -1),
    ],
)
def test_stride(
    indices: tuple[Expr, ...], shape: tuple[int, ...], dim: str, expected: int | None
) -> None:
    assert stride(indices, tuple(map(literal, shape)), dim) == expected


def test_the_stride_along_an_outer_dim_of_symbolic_size() -> None:
    shape = (literal(4), n)
    assert stride((i, j), shape, "j") == 1
    assert stride((i, j), shape, "i") is None


def test_a_linear_form_is_a_value() -> None:
    assert linear(i + 1, ("i",)) == Linear({"i": 1}, literal(1))
