"""Patterns of scalar expressions and what they are matched with."""

from __future__ import annotations

from weft.ir import dtypes
from weft.ir.scalar_expr import Expr, Literal, Load, Var, cast, literal, select
from weft.ir.scalar_match import filled, matches

i8, i32, f32 = dtypes.int8, dtypes.int32, dtypes.float32
a, b = Load(0, (), i8), Load(1, (), i8)
x, y = Load(7, (), i8), Load(8, (), i8)
DOT = cast(a, i32) * cast(b, i32)


def found(pattern: Expr, expr: Expr) -> list[dict[int, Expr]]:
    return [dict(m) for m in matches(pattern, expr)]


def test_products_commute() -> None:
    value = cast(x, i32) * cast(y, i32)
    assert found(DOT, value) == [{0: x, 1: y}, {0: y, 1: x}]
    assert all(filled(DOT, m) in (value, cast(y, i32) * cast(x, i32)) for m in matches(DOT, value))


def test_what_differs() -> None:
    assert not found(DOT, cast(x, i32) + cast(y, i32))
    assert not found(DOT, cast(Load(7, (), dtypes.uint8), i32) * cast(y, i32))
    assert not found(DOT, cast(x, i32))
    assert not found(cast(a, i32) * literal(3, i32), cast(x, i32) * literal(4, i32))
    assert found(cast(a, i32) * literal(3, i32), literal(3, i32) * cast(x, i32)) == [{0: x}]


def test_a_load_that_stands_twice_means_one_thing() -> None:
    square = a * a
    assert found(square, x * x) == [{0: x}]
    assert not found(square, x * y)


def test_differences_do_not_commute() -> None:
    assert found(a - b, x - y) == [{0: x, 1: y}]


def test_negative_products_of_floats_are_products() -> None:
    p, q = Load(0, (), f32), Load(1, (), f32)
    assert {0: -Load(7, (), f32), 1: Load(8, (), f32)} in found(
        p * q, -(Load(7, (), f32) * Load(8, (), f32))
    )


def test_choices_match_part_by_part() -> None:
    where = Var("i") >= literal(0)
    pattern = select(Load(0, (), dtypes.bool_), a, literal(0, i8))
    (m,) = found(
        select(Load(0, (), dtypes.bool_), b, literal(0, i8)), select(where, x, literal(0, i8))
    )
    assert m == {0: where, 1: x}
    assert not found(pattern, select(where, x, Literal(1, i8)))
