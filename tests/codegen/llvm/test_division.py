"""Division by literals without a division: bit for bit that of NumPy, or left as it is."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from tests.codegen.kernel_runner import Compiled, assert_same
from tests.codegen.llvm.test_scalar import compare, nasty
from weft.codegen.llvm.division import reciprocal
from weft.codegen.llvm.target import host_target
from weft.ir import dtypes
from weft.ir.dtypes import DType
from weft.ir.loop_ir import Block, Buffer, For, Kernel, Store
from weft.ir.scalar_expr import Load, Var, cast, literal

DIVISORS = [3.0, 5.0, -7.0, 9.0, 0.1, 1.001, -1e-3, 2.0 / 3.0, 1e30, 255.0, 6.0, 16.0, -1.0, 0.0,
            math.inf, math.nan, 1e-300, 1e300, 5e-324, 0.99, math.pi]  # fmt: skip


@pytest.mark.parametrize("kind", ["vector", "serial"])
@pytest.mark.parametrize("dtype", [dtypes.float64, dtypes.float32, dtypes.float16], ids=str)
def test_quotients_are_those_of_a_division(dtype: DType, kind: str) -> None:
    x = Load("x0", (Var("i"),), dtype)
    least = float(np.finfo(dtype.numpy).tiny) * 2.0**64
    special = [v for v in nasty(dtype) if dtype == dtypes.float16 or not 0 < abs(v) < least]
    rng = np.random.default_rng(5)
    numbers = rng.uniform(1, 2, 500) * 2.0 ** rng.integers(-9, 9, 500)
    values = np.concatenate([special, numbers, -numbers]).astype(dtype.numpy)
    most = float(np.finfo(dtype.numpy).max)
    divisors = [c for c in DIVISORS if not most < abs(c) < math.inf]
    compare([values], [x / literal(c, dtype) for c in divisors], kind, contract=True)


@pytest.mark.parametrize("dtype", [dtypes.float64, dtypes.float32], ids=str)
def test_strict_programs_divide_small_numbers_too(dtype: DType) -> None:
    x, rng = Load("x0", (Var("i"),), dtype), np.random.default_rng(6)
    small = rng.uniform(1, 2, 500) * np.finfo(dtype.numpy).tiny * 2.0 ** rng.integers(-9, 64, 500)
    values = np.concatenate([small, -small]).astype(dtype.numpy)
    compare([values], [x / literal(c, dtype) for c in (3.0, 0.1, 1.001, -9.0)], "vector")
    seven = cast(Load("x1", (literal(0),), dtypes.int64), dtype)
    compare([values, np.full(values.size, 7, np.int64)], [x / seven], "vector")


def _floats(divisor: float, dtype: DType) -> list[float]:
    """Those x whose quotients by ``divisor`` are nearest to the middle between two floats."""
    bits = np.finfo(dtype.numpy).nmant + 1
    odd = Fraction(divisor).numerator
    odd //= odd & -odd
    found = []
    for shift in (odd.bit_length() - 1, odd.bit_length()):
        for n in (-3, -1, 1, 3):
            first = n * pow(2 ** (shift + 1), -1, odd) % odd
            start = 2 ** (bits - 1)
            found += range(start + (first - start) % odd, 2**bits, odd)[:20]
    return [float(x) for x in found]


@pytest.mark.parametrize("dtype", [dtypes.float64, dtypes.float32], ids=str)
def test_quotients_near_the_middle_between_two_floats_round_as_they_should(dtype: DType) -> None:
    random.seed(7)
    x = Load("x0", (Var("i"),), dtype)
    found = 0
    for _ in range(40):
        divisor = float(dtype.numpy.type(random.uniform(1, 2)))
        values = np.array(_floats(divisor, dtype), dtype.numpy)
        if values.size:
            found += 1
            compare([values], [x / literal(divisor, dtype)], "vector", contract=True)
    assert found > 20


@pytest.mark.parametrize("dtype", [dtypes.float64, dtypes.float32], ids=str)
def test_quotients_by_whole_numbers_known_at_run_time_are_those_of_a_division(dtype: DType) -> None:
    bits = int(np.finfo(dtype.numpy).nmant) + 1
    limit = 1 << (bits - 5)
    whole = [0, 1, 2, 3, 7, 9, 10, 64, 1000, 999_983, limit - 1, limit, limit + 1, 2**bits - 1,
             2**bits + 1, 2**62 + 1]  # fmt: skip
    whole = sorted({sign * n for n in whole for sign in (1, -1)})
    least = float(np.finfo(dtype.numpy).tiny) * 2.0 ** (bits + 64 if bits > 24 else 40)
    special = [v for v in nasty(dtype) if not 0 < abs(v) < least]
    rng = np.random.default_rng(9)
    near = [n * m + k for n in whole if 0 < n < limit for m in (1, 3, 1023) for k in (-1, 0, 1)]
    values = np.array(
        [*special, *rng.uniform(1, 2, 60), *near, *_middles(whole, bits)], dtype.numpy
    )
    x = Load("x0", (Var("i"),), dtype)
    numbers = np.zeros(values.size, np.int64)
    numbers[: len(whole)] = whole
    divisors = [cast(Load("x1", (literal(k),), dtypes.int64), dtype) for k in range(len(whole))]
    compare([values, numbers], [x / divisor for divisor in divisors], "vector", contract=True)


@pytest.mark.parametrize("dtype", [dtypes.float64, dtypes.float32], ids=str)
def test_quotients_by_a_number_that_a_loop_shares_are_those_of_a_division(dtype: DType) -> None:
    """But for one in two million, none of which is here."""
    info, rng = np.finfo(dtype.numpy), np.random.default_rng(10)
    least = float(info.tiny) * 2.0**64
    special = [v for v in nasty(dtype) if not 0 < abs(v) < least]
    values = np.array([*special, *rng.uniform(1, 2, 3000)], dtype.numpy)
    inside = [c for c in DIVISORS if not float(info.max) < abs(c) < math.inf]
    numbers = np.resize(np.array([*inside, info.tiny, -info.max], dtype.numpy), 32)
    x, shared = Load("x0", (Var("i"),), dtype), np.resize(numbers, values.size)
    for k in range(0, 32, 8):
        divisors = [Load("x1", (literal(k + n),), dtype) for n in range(8)]
        compare([values, shared], [x / divisor for divisor in divisors], "vector", contract=True)


@pytest.mark.parametrize("dtype", [dtypes.float64, dtypes.float32], ids=str)
@pytest.mark.parametrize("width", [1, 5, 16, 37, 64, 150])
def test_quotients_by_a_row_that_a_loop_keeps_are_those_of_a_division(
    dtype: DType, width: int
) -> None:
    """But for one in two million, none of which is here."""
    info, rng = np.finfo(dtype.numpy), np.random.default_rng(11)
    least = float(info.tiny) * 2.0**64
    special = [v for v in nasty(dtype) if not 0 < abs(v) < least]
    inside = [c for c in DIVISORS if not float(info.max) < abs(c) < math.inf]
    uniform = rng.uniform(1, 2, width)
    for row in (uniform, np.resize([*inside, info.tiny, -info.max], width)):
        values = np.resize([*special, *rng.uniform(1, 2, 500)], (40, width))
        _rows_divided(values.astype(dtype.numpy), row.astype(dtype.numpy), dtype)


def _rows_divided(values: np.ndarray, row: np.ndarray, dtype: DType) -> None:
    """y[j, i] = x[j, i] / s[i], and divisors that change after all: z[j, i] = x[j, i] / t[i]."""
    rows, width = values.shape
    i, j = Var("i"), Var("j")

    def buffer(name: str, *shape: int) -> Buffer:
        strides = (shape[-1], 1)[-len(shape) :]
        return Buffer(name, dtype, tuple(map(literal, shape)), tuple(map(literal, strides)))

    load, s, t = Load("x", (j, i), dtype), Load("s", (i,), dtype), Load("t", (i,), dtype)
    body = (Store("y", (j, i), load / s), Store("z", (j, i), load / t), Store("t", (i,), load))
    lanes = For("i", literal(0), literal(width), "vector", Block(body))
    loop = For("j", literal(0), literal(rows), "serial", lanes)
    both, one = [buffer(n, rows, width) for n in "xyz"], [buffer(n, width) for n in "st"]
    x, y, z = (array.ravel() for array in (values, np.zeros_like(values), np.zeros_like(values)))
    arrays = {"x": x, "y": y, "z": z, "s": row, "t": row}
    compiled = Compiled(Kernel("k", (), (*both, *one), loop), host_target(), contract=True)
    actual, _ = compiled({}, arrays)
    with np.errstate(all="ignore"):
        assert_same(actual["y"], (values / row).ravel(), 0.0, "y")
        quotients = values / np.vstack([row, values[:-1]])
        assert_same(actual["z"], quotients.ravel(), 0.0, "z")


def _middles(whole: list[int], bits: int) -> list[float]:
    """Floats whose quotients by one of ``whole`` are nearest to the middle between two."""
    odd = [n for n in whole if n > 2 and n % 2]
    return [x for n in odd if n < 2**bits for x in _floats(float(n), _WIDE[bits])[:12]]


_WIDE = {53: dtypes.float64, 24: dtypes.float32}


def test_both_parts_together_are_the_reciprocal_and_have_its_sign() -> None:
    for divisor in (3.0, -9.0, 1.001, 1e-3):
        parts = reciprocal(divisor, "double")
        assert parts is not None
        high, low = parts
        exact = 1 / Fraction(divisor)
        assert abs(Fraction(high) + Fraction(low) - exact) <= abs(exact) / 2**104
        assert high * divisor > 0
        assert low * divisor > 0


def test_divisors_without_two_such_parts_are_left_alone() -> None:
    for divisor in (0.0, -0.0, 1.0, -2.0, 0.25, math.inf, -math.inf, math.nan, 1e-300, 3e200):
        assert reciprocal(divisor, "double") is None
    random.seed(1)
    left = sum(reciprocal(random.uniform(1, 2), "double") is None for _ in range(200))
    assert 0 < left < 40  # some x would round another way
