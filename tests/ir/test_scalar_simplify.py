"""What ``simplify`` makes of expressions; that values stay is tested with normal forms."""

from __future__ import annotations

import pytest

from weft.ir import dtypes, scalar_simplify
from weft.ir.scalar_expr import Expr, Load, Var, apply, literal, select, walk
from weft.ir.scalar_simplify import simplify

i, j, k, n = (Var(name) for name in "ijkn")


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ((i * 32 + j) // 32, i),
        ((i * 32 + j) % 32, j),
        ((i * 64 + j * 32 + 5) // 32, i * 2 + j),
        ((i * 32 + j + 32) // 64, (i + 1) // 2),
        ((i // 4) // 8, i // 32),
        ((i * 6 + 4) // 4, (i * 3) // 2 + 1),
        (i - (i // 1), literal(0)),
        ((-j - 1) // 32, literal(-1)),
        (select(j < 32, i, k), i),
        (apply("min", j, literal(31)), j),
        (apply("max", j, n + 1), apply("max", j, n + 1)),
    ],
)
def test_what_ranges_prove(expr, expected):
    assert simplify(expr, {"j": (0, 31)}) == expected


def test_parts_inside_other_dtypes_are_simplified():
    load = Load("x", ((i * 32 + j) // 32, j + 0), dtypes.float32)
    simple = simplify(load * load, {"j": (0, 31)})
    assert simple == Load("x", (i, j), dtypes.float32) * Load("x", (i, j), dtypes.float32)


def test_long_sums_of_elements_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No part of what has no normal form is asked for one again for each operator around it."""
    whole: list[Expr] = []
    monkeypatch.setattr(scalar_simplify, "to_affine", lambda e, *_: whole.append(e))
    i = Var("i")
    total: Expr = Load("A", (i,), dtypes.int64)
    for k in range(3000):
        total = total + Load("A", (i + k - k,), dtypes.int64) * (i * 0 + k)
    made = simplify(total)
    assert len(whole) < 10
    assert sum(isinstance(node, Load) for node in walk(made)) > 2990
