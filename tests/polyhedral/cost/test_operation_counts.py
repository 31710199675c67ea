"""Arithmetic of one instance: what computes on data, products that sums take up as one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.scops import Var, at, box, statement
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.scalar_expr import Expr, Load, apply, cast, literal, select
from weft.ir.scop import Body, Statement, Update
from weft.polyhedral.cost.operation_counts import flops, operation_counts

a, b, c = (Load(k, (), dtypes.float64) for k in range(3))
i = Var("i")


def _of(result: Expr, *lets: tuple[str, Expr], update: str = "") -> dict[str, int]:
    s: Statement = statement("s", box(i=8), at("Y", i), tuple(at(t, i) for t in "ABC"))
    folds = Update(monoid(update, dtypes.float64), ("i",)) if update else None
    return operation_counts(replace(s, body=Body(lets, (result,)), update=folds))


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (a, {}),
        (a + b - c, {"add": 2}),
        (a * b + c, {"fma": 1}),
        (c - a * b, {"fma": 1}),
        (a * b + b * c, {"fma": 1, "mul": 1}),
        (a * b * c + a, {"fma": 1, "mul": 1}),
        (a / b, {"div": 1}),
        (-a, {}),
        (apply("sqrt", a) + b, {"add": 1, "sqrt": 1}),
        (apply("exp", a), {"function": 1}),
        (apply("max", a, b), {"compare": 1}),
        (select(a < b, a, b), {"compare": 1, "other": 1}),
        (select(i < 4, a, b), {"other": 1}),
        (cast(i * 2 + 1, dtypes.float64) * a, {"mul": 1}),
        (literal(2.0, dtypes.float64) * a, {"mul": 1}),
    ],
)
def test_bodies(result: Expr, expected: dict[str, int]) -> None:
    assert _of(result) == expected


def test_updates_combine() -> None:
    assert _of(a * b, update="add") == {"fma": 1}
    assert _of(-(a * b), update="add") == {"fma": 1}
    assert _of(a * b * c, update="add") == {"fma": 1, "mul": 1}
    assert _of(a + b, update="add") == {"add": 2}
    assert _of(a * b + c, update="add") == {"fma": 1, "add": 1}
    assert _of(a + b, update="min") == {"add": 1, "compare": 1}


def test_names_of_earlier_values_are_data() -> None:
    x = Var("x", dtypes.float64)
    assert _of(x * x, ("x", a + b)) == {"add": 1, "mul": 1}


def test_flops() -> None:
    assert flops({"fma": 3, "add": 2, "div": 1}) == 9
