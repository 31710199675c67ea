"""Scalar expressions mean what the page of ``scalar_expr`` says; the oracle is Python's numbers."""

from __future__ import annotations

import math
import warnings

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.ir import dtypes
from weft.ir.scalar_expr import (
    Apply,
    Load,
    Var,
    apply,
    bitcast,
    cast,
    literal,
    select,
)
from weft.ir.scalar_interpreter import evaluate


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def binary(op, dtype, a, b):
    dtype = dtypes.as_dtype(dtype)
    expr = apply(op, Var("a", dtype), Var("b", dtype))
    values = {
        "a": np.asarray(a).astype(dtype.numpy),
        "b": np.asarray(b).astype(dtype.numpy),
    }
    return evaluate(expr, values)


def wrap(value, dtype):
    value &= (1 << dtype.bits) - 1
    if dtype.kind == "int" and value >> (dtype.bits - 1):
        value -= 1 << dtype.bits
    return value


def truncdiv(a, b):
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def power(a, b):
    if b >= 0:
        return a**b
    return int(1 / a**-b) if a and abs(a) == 1 else 0


ORACLE = {
    "add": lambda a, b, d: a + b,
    "sub": lambda a, b, d: a - b,
    "mul": lambda a, b, d: a * b,
    "floordiv": lambda a, b, d: a // b if b else 0,
    "mod": lambda a, b, d: a % b if b else 0,
    "truncdiv": lambda a, b, d: truncdiv(a, b),
    "rem": lambda a, b, d: a - truncdiv(a, b) * b if b else 0,
    "min": lambda a, b, d: min(a, b),
    "max": lambda a, b, d: max(a, b),
    "and": lambda a, b, d: a & b,
    "or": lambda a, b, d: a | b,
    "xor": lambda a, b, d: a ^ b,
    "shl": lambda a, b, d: a << b if 0 <= b < d.bits else 0,
    "shr": lambda a, b, d: a >> b if 0 <= b < d.bits else (-1 if a < 0 else 0),
    "pow": lambda a, b, d: power(a, b),
    "lt": lambda a, b, d: a < b,
    "ge": lambda a, b, d: a >= b,
    "eq": lambda a, b, d: a == b,
}
INTEGERS = [d for d in dtypes.ALL if d.is_integer]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("op", ORACLE)
def test_integers_follow_python_modulo_their_range(op, dtype):
    low, high = int(dtype.lowest), int(dtype.highest)
    some = sorted({low, low + 1, -7, -2, -1, 0, 1, 2, 3, 7, 8, high // 2, high - 1, high})
    some = [v for v in some if low <= v <= high]
    a = [x for x in some for _ in some]
    b = [y for _ in some for y in some]
    if op == "pow":
        a, b = zip(*[(x, y) for x, y in zip(a, b, strict=True) if y < 100], strict=True)
    result = binary(op, dtype, np.array(a, object), np.array(b, object))
    expected = [ORACLE[op](x, y, dtype) for x, y in zip(a, b, strict=True)]
    if result.dtype != np.bool_:
        expected = [wrap(v, dtype) for v in expected]
    assert [int(v) for v in result] == [int(v) for v in expected]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_unary_integer_operators(dtype):
    low, high = int(dtype.lowest), int(dtype.highest)
    some = sorted({low, low + 1, max(low, -1), 0, 1, high})
    x = Var("x", dtype)
    values = {"x": np.array(some, object).astype(dtype.numpy)}
    for op, oracle in {
        "neg": lambda v: wrap(-v, dtype),
        "abs": lambda v: wrap(abs(v), dtype),
        "sign": lambda v: (v > 0) - (v < 0),
        "not": lambda v: wrap(~v, dtype),
        "popcount": lambda v: wrap((v & ((1 << dtype.bits) - 1)).bit_count(), dtype),
    }.items():
        assert [int(v) for v in evaluate(apply(op, x), values)] == [oracle(v) for v in some], op


def test_scalars_behave_as_arrays():
    assert binary("shl", "int8", 3, 7) == -128
    assert binary("add", "int8", 127, 1) == -128
    assert binary("floordiv", "int64", -(2**63), -1) == -(2**63)
    assert evaluate(apply("popcount", Var("x", dtypes.int32)), {"x": -1}) == 32


def test_float_division_floors_and_mod_takes_the_sign_of_the_divisor():
    a = np.array([7.0, -7.0, 7.0, -7.0, 1.0, np.inf], np.float32)
    b = np.array([2.0, 2.0, -2.0, -2.0, 0.0, 2.0], np.float32)
    np.testing.assert_array_equal(
        binary("floordiv", "float32", a, b), np.floor([3.5, -3.5, -3.5, 3.5, np.inf, np.inf])
    )
    np.testing.assert_array_equal(binary("mod", "float32", a, b), [1, 1, -1, -1, np.nan, np.nan])
    np.testing.assert_array_equal(binary("rem", "float32", a, b), [1, -1, 1, -1, np.nan, np.nan])


def test_min_and_max_return_nan_and_comparisons_do_not():
    a, b = np.float32([np.nan, 1, np.nan]), np.float32([1, np.nan, np.nan])
    assert np.isnan(binary("min", "float32", a, b)).all()
    assert np.isnan(binary("max", "float32", a, b)).all()
    assert not binary("le", "float32", a, b).any()
    assert binary("ne", "float32", a, b).all()


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_small_floats_compute_in_float32_and_round_each_time(name):
    dtype = dtypes.as_dtype(name)
    a, b, c = (Var(n, dtype) for n in "abc")
    rng = np.random.default_rng(0)
    v = {n: rng.normal(size=200).astype(np.float32).astype(dtype.numpy) for n in "abc"}
    once = (v["a"].astype(np.float32) * v["b"].astype(np.float32)).astype(dtype.numpy)
    twice = (once.astype(np.float32) + v["c"].astype(np.float32)).astype(dtype.numpy)
    result = evaluate(a * b + c, v)
    assert result.dtype == dtype.numpy
    np.testing.assert_array_equal(result.astype(np.float32), twice.astype(np.float32))
    precise = evaluate(a * b + c, v, precise=True)
    wide = {n: x.astype(np.float64) for n, x in v.items()}
    np.testing.assert_array_equal(precise, wide["a"] * wide["b"] + wide["c"])


def test_mathematical_functions_agree_with_pythons():
    x = Var("x", dtypes.float64)
    values = np.array([0.1, 0.5, 0.9])
    for op in ("exp", "log", "sin", "tanh", "erf", "acos", "asinh", "atanh", "expm1", "log1p"):
        expected = [getattr(math, op)(v) for v in values]
        np.testing.assert_allclose(evaluate(apply(op, x), {"x": values}), expected, rtol=1e-14)
    halves = np.array([-2.5, -0.5, 0.5, 1.5])
    np.testing.assert_array_equal(evaluate(apply("round", x), {"x": halves}), [-2, -0.0, 0, 2])


def convert(value, source, target, **kw):
    source, target = dtypes.as_dtype(source), dtypes.as_dtype(target)
    return evaluate(cast(Var("x", source), target, **kw), {"x": np.asarray(value)})


def test_casts_from_float_truncate_saturate_and_map_nan_to_zero():
    x = np.array([-1e30, -129, -1.9, -0.5, np.nan, 1.9, 127.9, 1e30, np.inf])
    assert convert(x, "float64", "int8").tolist() == [-128, -128, -1, 0, 0, 1, 127, 127, 127]
    top = 2**63 - 1
    assert convert(x, "float64", "int64").tolist()[-3:] == [127, top, top]
    assert convert(x, "float64", "uint64").tolist()[:3] == [0, 0, 0]
    assert convert(x, "float64", "uint64").tolist()[-1] == 2**64 - 1
    assert [int(v) for v in convert(x, "float64", "int4")] == [-8, -8, -1, 0, 0, 1, 7, 7, 7]
    assert convert(x, "float64", "bool").tolist() == [True] * 9


def test_casts_between_integers_wrap():
    assert [int(v) for v in convert([-9, 8, 300], "int64", "int4")] == [7, -8, -4]
    assert convert([-1, 300], "int32", "uint8").tolist() == [255, 44]
    assert convert([True, False], "bool", "float32").tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    "name", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"]
)
def test_casts_to_8_bit_floats_saturate_on_demand(name):
    dtype = dtypes.as_dtype(name)
    largest = float(ml_dtypes.finfo(dtype.numpy).max)
    x = np.float32([1e9, -1e9, np.inf, np.nan, 0.3])
    inside = convert(x, "float32", name).astype(np.float64)
    assert inside[:3].tolist() == [largest, -largest, largest] and np.isnan(inside[3])
    assert inside[4] == np.float64(np.float32(0.3).astype(dtype.numpy))
    outside = convert(x, "float32", name, saturate=False).astype(np.float64)
    assert not np.isfinite(outside[:3]).any()


def test_literals_round_on_use_and_casts_of_literals_keep_that():
    third = literal(1 / 3, "bfloat16")
    expected = np.float32(np.float32(1 / 3).astype(ml_dtypes.bfloat16))
    assert evaluate(cast(third, dtypes.float32), {}) == expected
    assert evaluate(cast(literal(1 / 3, "float32"), dtypes.float64), {}) == np.float64(
        np.float32(1 / 3)
    )


def test_bitcast_keeps_the_bits():
    def bits(value, source, target):
        source, target = dtypes.as_dtype(source), dtypes.as_dtype(target)
        value = np.asarray(value).astype(source.numpy)
        return evaluate(bitcast(Var("x", source), target), {"x": value})

    assert bits([1.0, -0.0], "float32", "int32").tolist() == [0x3F800000, -(2**31)]
    assert bits(0x3F80, "uint16", "bfloat16") == 1.0
    assert [int(v) for v in bits([-1, 7, -8], "int4", "uint4")] == [15, 7, 8]
    assert [int(v) for v in bits([15, 7, 8], "uint4", "int4")] == [-1, 7, -8]


def loads(*tensors):
    def load(source, indices):
        for index, size in zip(indices, tensors[source].shape, strict=True):
            assert (index >= 0).all() and (index < size).all(), "an index that is not taken"
        return tensors[source][indices]

    return load


def test_select_does_not_load_in_the_branch_that_is_not_taken():
    i, j = Var("i"), Var("j")
    data = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    inside = (i >= 0) & (i < 3) & (j >= 0) & (j < 4)
    expr = select(inside, Load(0, (i, j), dtypes.float32) * 2.0, -1.0)
    grid = {"i": np.arange(-1, 5)[:, None], "j": np.arange(-2, 6)[None, :]}
    expected = np.full((6, 8), -1.0)
    expected[1:4, 2:6] = 2 * data
    np.testing.assert_array_equal(evaluate(expr, grid, loads(data)), expected)
    nowhere = {"i": np.arange(5, 9)[:, None], "j": grid["j"]}
    assert (evaluate(expr, nowhere, loads(data)) == -1).all()
    assert evaluate(expr, {"i": np.zeros((0, 1), int), "j": grid["j"]}, loads(data)).size == 0


def test_nested_selects_and_values_shared_between_branches():
    i = Var("i")
    data = np.array([3.0, -1.0, 4.0, -1.0, 5.0], np.float32)
    x = Load(0, (i,), dtypes.float32)
    shared = select(x > 0.0, x * x, x - 1.0)
    expr = select(i < 5, select(shared > 10.0, shared, Load(0, (4 - i,), dtypes.float32)), 0.0)
    result = evaluate(select(i < 5, expr, 7.0), {"i": np.arange(8)}, loads(data))
    np.testing.assert_array_equal(result, [5, -1, 16, -1, 25, 7, 7, 7])


def test_deep_expressions_neither_recurse_nor_explode():
    i, x = Var("i"), Load(0, (Var("i"),), dtypes.float32)
    total, chain = x, x
    for k in range(3000):
        total = total + 1.0
        chain = select(i.equal(k), x * float(k), chain)
    grid = {"i": np.arange(5)}
    data = np.ones(5, np.float32)
    assert evaluate(total, grid, loads(data)).tolist() == [3001.0] * 5
    assert evaluate(chain, grid, loads(data)).tolist() == [0, 1, 2, 3, 4]
    calls = []

    def counting(source, indices):
        calls.append(indices[0].size)
        return data[indices]

    twice = x
    for _ in range(60):
        twice = select(twice > 0.0, twice * 0.5, x) + twice
    evaluate(twice, grid, counting)
    assert sum(calls) <= 10


@settings(max_examples=60)
@given(st.data())
def test_lazy_selects_agree_with_strict_ones(data):
    i = Var("i")
    table = np.arange(1.0, 8.0, dtype=np.float32)

    def expression(depth):
        if depth == 0:
            return Load(0, ((i + data.draw(st.integers(0, 6))) % 7,), dtypes.float32)
        if data.draw(st.booleans()):
            condition = expression(depth - 1) > float(data.draw(st.integers(0, 8)))
            return select(condition, expression(depth - 1), expression(depth - 1))
        return Apply("sub", (expression(depth - 1), expression(depth - 1)))

    expr = expression(3)
    together = evaluate(expr, {"i": np.arange(7)}, loads(table))
    one_by_one = [evaluate(expr, {"i": k}, loads(table)) for k in range(7)]
    np.testing.assert_array_equal(np.broadcast_to(together, 7), one_by_one)
