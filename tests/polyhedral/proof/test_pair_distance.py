"""Distances of loops as sums of distances of what is below floors, against numbers."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from tests.polyhedral.scops import Var, at, box, loop, statement
from weft.ir.scalar_affine import Affine, FloorDiv, variable
from weft.ir.scalar_expr import Expr
from weft.polyhedral.proof.loop_distances import LoopDistances, Part, parts

i, t, n = Var("i"), Var("t"), Var("n")
S = statement("s", box(t=8, i=8), at("A", i), dims=("t", "i"))
T = statement("u", box(i=8), at("A", i), dims=("i",))


def _distance(source: Expr, sink: Expr) -> Affine:
    return LoopDistances().of(loop("l", s=source, u=sink), S, T)


def test_dims_of_the_two_ends_are_told_apart_and_parameters_cancel() -> None:
    assert str(_distance(t + i + n, 2 * i + n + 3)) == "2*1 i - 0 i - 0 t + 3"


def test_the_same_loop_is_worked_out_once() -> None:
    found = LoopDistances()
    one = loop("l", s=t // 4, u=i // 4)
    assert found.of(one, S, T) is found.of(one, S, T)


@pytest.mark.parametrize(
    ("source", "sink"),
    [
        (t, i),
        (t // 4, i // 4),
        (t // 4 + (t + i) // 8, i // 4 + (2 * i) // 8),
        (3 * (t // 4) + i, 3 * (i // 4) - 1),
        (t // 4 - i // 4, i // 4),
    ],
)
def test_parts_add_up(source: Expr, sink: Expr) -> None:
    """Up to positive factors: wherever all parts have one sign, so has the distance."""
    distance = _distance(source, sink)
    pieces = parts(distance)
    if pieces is None:
        assert sum(isinstance(x, FloorDiv) for x, _ in distance.terms) % 2
        return
    for point in product(range(9), repeat=3):
        env = dict(zip(("0 t", "0 i", "1 i"), point, strict=True))
        values = [_value(piece, env) for piece in pieces]
        if all(v == 0 for v in values):
            assert distance.value(env) == 0
        elif all(v >= 0 for v in values):
            assert distance.value(env) > 0


def _value(part: Part, env: dict[str, int]) -> int:
    if part.left is None or part.right is None:
        return part.distance.value(env)
    left, right = part.left.numerator.value(env), part.right.numerator.value(env)
    assert part.distance.value(env) == left - right
    return left // part.divisor - right // part.divisor


def test_a_floor_without_a_partner_makes_no_parts() -> None:
    assert parts(_distance(t // 4, i // 8)) is None
    assert parts(_distance(t, i // 8)) is None
    assert parts(Affine()) == ()


def test_signs_follow_from_what_is_below_floors() -> None:
    random = Random(1)
    for _ in range(200):
        a, b, divisor = random.randint(-99, 99), random.randint(-99, 99), random.randint(2, 9)
        if a - b >= 0:
            assert a // divisor - b // divisor >= 0
    [part] = parts(_distance(t // 4, i // 4)) or ()
    assert part.distance == variable("1 i") - variable("0 t") and part.divisor == 4
