"""One point at a time gives what many at once give, bit for bit."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from weft.ir.dtypes import as_dtype
from weft.ir.scalar_expr import (
    Expr,
    Load,
    Var,
    apply,
    bitcast,
    cast,
    literal,
    select,
)
from weft.ir.scalar_interpreter import evaluate
from weft.ir.scalar_ops import OPS
from weft.ir.scalar_point import PointEvaluator, function_of

TYPES = ("bool", "int8", "uint8", "int4", "int32", "int64", "float16", "bfloat16", "float32",
         "float64", "float8_e4m3fn")  # fmt: skip
NASTY = (0, 1, -1, 7, -8, 255, 1 << 40, -(1 << 63), (1 << 63) - 1)
FLOATS = (0.0, -0.0, 1.5, -2.25, 1e30, -1e-30, float("inf"), float("-inf"), float("nan"))


def random_expr(random: Random, dtype: str, depth: int) -> Expr:
    """An expression of ``dtype`` over variables and loads named after their types."""
    if depth == 0 or random.random() < 0.1:
        value = random.choice(FLOATS if as_dtype(dtype).is_float else NASTY)
        leaves = (literal(value, dtype), Var(f"v_{dtype}", as_dtype(dtype)),
                  Load(dtype, (Var("v_int64") % 4,), as_dtype(dtype)))  # fmt: skip
        return random.choice(leaves)

    def inner(of: str) -> Expr:
        return random_expr(random, of, depth - 1)

    kind = random.random()
    if kind < 0.15:
        return select(inner("bool"), inner(dtype), inner(dtype))
    if kind < 0.3:
        return cast(inner(random.choice(TYPES)), as_dtype(dtype))
    if kind < 0.35:
        alike = [t for t in TYPES if as_dtype(t).bits == as_dtype(dtype).bits and t != "bool"]
        return bitcast(inner(random.choice(alike)), as_dtype(dtype)) if dtype != "bool" else (
            inner("bool"))  # fmt: skip
    if dtype == "bool" and kind < 0.7:
        of = random.choice(TYPES)
        names = [n for n, row in OPS.items() if row.gives_bool and as_dtype(of).kind in row.kinds]
        name = random.choice(names)
        return apply(name, *(inner(of) for _ in range(OPS[name].arity)))
    names = [
        n for n, row in OPS.items() if as_dtype(dtype).kind in row.kinds and not row.gives_bool
    ]
    name = random.choice(names)
    return apply(name, *(inner(dtype) for _ in range(OPS[name].arity)))


def some(random: Random, dtype: str) -> np.generic:
    value = random.choice(FLOATS if as_dtype(dtype).is_float else NASTY)
    return evaluate(literal(value, dtype), {})[()]


@pytest.mark.parametrize("seed", range(300))
def test_as_many_points_at_once(seed: int) -> None:
    random = Random(seed)
    dtype = random.choice(TYPES)
    expr = random_expr(random, dtype, 4)
    names = {f"v_{t}": some(random, t) for t in TYPES}
    memory = {t: [some(random, t) for _ in range(4)] for t in TYPES}

    def one(source: object, indices: tuple[int, ...]) -> object:
        return memory[str(source)][int(indices[0])]

    def many(source: object, indices: tuple[np.ndarray, ...]) -> np.ndarray:
        data = np.array(memory[str(source)], as_dtype(str(source)).numpy)
        return np.asarray(data[indices])

    wanted = evaluate(expr, names, many)
    with np.errstate(all="ignore"):
        found = PointEvaluator().value(expr, names, one)
    found = np.asarray(found).astype(as_dtype(dtype).numpy)
    same = found.tobytes() == wanted.astype(as_dtype(dtype).numpy).tobytes()
    assert same or (np.isnan(found.astype(float)) and np.isnan(wanted.astype(float)))


def test_a_branch_that_is_not_taken_loads_nothing() -> None:
    def load(source: object, indices: tuple[int, ...]) -> float:
        raise AssertionError("not to be performed")

    i = Var("i")
    expr = select(i < 0, Load("x", (i,), as_dtype("float32")), literal(2.0, "float32"))
    assert PointEvaluator().value(expr, {"i": 3}, load) == 2.0


def test_deep_and_shared_expressions_take_the_other_way() -> None:
    chain: Expr = Var("x", as_dtype("float32"))
    for _ in range(3000):
        chain = chain + 1.0
    assert function_of(chain) is None
    assert PointEvaluator().value(chain, {"x": np.float32(0)}) == 3000.0
    doubled: Expr = Var("i")
    for _ in range(60):
        doubled = doubled + doubled
    assert function_of(doubled) is None
    assert PointEvaluator().value(doubled, {"i": 1}) == 1 << 60
