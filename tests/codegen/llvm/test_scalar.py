"""Every scalar operator and conversion of every type on nasty values, against the interpreter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.kernel_runner import Compiled, assert_same
from weft.codegen.llvm.target import LlvmTarget, host_target
from weft.codegen.math_functions import FUNCTIONS
from weft.ir import dtypes
from weft.ir.dtypes import DType
from weft.ir.loop_ir import Block, Buffer, For, Kernel, Store
from weft.ir.scalar_expr import Expr, Load, Var, apply, bitcast, cast, literal
from weft.ir.scalar_interpreter import evaluate
from weft.ir.scalar_ops import OPS

EXACT = [op for op in OPS if op not in FUNCTIONS or op in ("rem", "mod", "pow")]


def nasty(dtype: DType) -> np.ndarray:
    """Values of ``dtype`` where things go wrong."""
    if dtype.kind == "bool":
        return np.array([False, True])
    if dtype.is_integer:
        low, high = int(dtype.lowest), int(dtype.highest)
        around = [
            low,
            low + 1,
            -7,
            -3,
            -2,
            -1,
            0,
            1,
            2,
            3,
            5,
            7,
            8,
            31,
            63,
            64,
            high // 2,
            high - 1,
            high,
        ]
        return np.array(sorted({v for v in around if low <= v <= high}), dtype=object).astype(
            dtype.numpy
        )
    if dtype.bits <= 8:
        codes = np.arange(1 << dtype.bits, dtype=np.uint8)
        return codes.view(dtype.numpy)[:: 1 if dtype.bits < 8 else 3]
    values = [
        0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, 7.0, -7.0, 0.1, 1 / 3, 255.5, 256.5,
        2.0**15, 65504.0, 65520.0, 2.0**24 + 1, 2.0**31, 2.0**53 + 1, 2.0**63, 2.0**64,
        -(2.0**63), 1e30, 1e300, 6e-8, 6.1e-5, 1e-40, 1e-44, 2.0**-126, float("inf"),
        float("-inf"), float("nan"),
    ]  # fmt: skip
    with np.errstate(over="ignore"):
        return np.array(values).astype(dtype.numpy)


def compare(
    inputs: list[np.ndarray],
    values: list[Expr],
    kind: str,
    target: LlvmTarget | None = None,
    *,
    contract: bool = False,
) -> None:
    """Each value as a kernel's output, from loads of ``inputs``, and by the interpreter."""
    count, i = inputs[0].size, Var("i")
    buffers, arrays, stores = [], {}, []
    for k, array in enumerate(inputs):
        dtype = dtypes.as_dtype(array.dtype)
        buffers.append(Buffer(f"x{k}", dtype, (literal(count),), (literal(1),), writable=False))
        arrays[f"x{k}"] = array
    for k, value in enumerate(values):
        buffers.append(Buffer(f"y{k}", value.dtype, (literal(count),), (literal(1),)))
        arrays[f"y{k}"] = np.zeros(count, value.dtype.numpy)
        stores.append(Store(f"y{k}", (i,), value))
    loop = For("i", literal(0), Var("n"), kind, Block(tuple(stores)))  # type: ignore[arg-type]
    kernel = Kernel("k", ("n",), tuple(buffers), loop)
    compiled = Compiled(kernel, target or host_target(), contract)
    actual, _ = compiled({"n": count}, arrays)
    index = {"i": np.arange(count)}
    for k, value in enumerate(values):
        expected = evaluate(value, index, lambda name, at: arrays[str(name)][at[0]])
        assert_same(actual[f"y{k}"], np.broadcast_to(expected, (count,)), 0.0, f"{k}: {value}")


def operands(dtype: DType) -> list[np.ndarray]:
    values = nasty(dtype)
    a, b = np.meshgrid(values, values)
    return [a.ravel(), b.ravel()]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["vector", "serial"])
@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_operators(dtype: DType, kind: str) -> None:
    i = Var("i")
    x, y = Load("x0", (i,), dtype), Load("x1", (i,), dtype)
    ops = [
        op for op in EXACT if dtype.kind in OPS[op].kinds and not (op == "pow" and dtype.is_float)
    ]
    values = [apply(op, x, y) if OPS[op].arity == 2 else apply(op, x) for op in ops]
    compare(operands(dtype), values, kind)


@pytest.mark.parametrize("kind", ["vector", "serial"])
@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if d.is_integer], ids=str)
def test_division_and_shifts_by_constants(dtype: DType, kind: str) -> None:
    x = Load("x0", (Var("i"),), dtype)
    constants = [c for c in (1, 2, 3, 4, 7, 0, -1, -3, -4) if dtype.lowest <= c <= dtype.highest]
    ops = ("floordiv", "mod", "truncdiv", "rem", "shl", "shr", "pow")
    values = [apply(op, x, literal(c, dtype)) for op in ops for c in constants]
    compare([nasty(dtype)], values, kind)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["vector", "serial"])
@pytest.mark.parametrize("source", dtypes.ALL, ids=str)
def test_casts(source: DType, kind: str) -> None:
    x = Load("x0", (Var("i"),), source)
    values = [
        cast(x, target, saturate=saturate)
        for target in dtypes.ALL
        for saturate in ((True, False) if target.is_float and target.bits <= 8 else (True,))
    ]
    compare([nasty(source)], values, kind)


@pytest.mark.parametrize("target", [dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint4], ids=str)
def test_vectors_are_not_taken_apart(target: DType) -> None:
    """As LLVM does to its own saturating conversions to fewer bits than 32."""
    x = Load("x0", (Var("i"),), dtypes.float32)
    count = (literal(64),)
    buffers = (
        Buffer("x0", dtypes.float32, count, (literal(1),), writable=False),
        Buffer("y", target, count, (literal(1),)),
    )
    loop = For("i", literal(0), literal(64), "vector", Store("y", (Var("i"),), cast(x, target)))
    text = Compiled(Kernel("k", (), buffers, loop)).emitted.text
    assert "fptosi <" in text and ".sat" not in text


def test_an_old_processor() -> None:
    """16-byte vectors, and float16 converted by arithmetic."""
    if not host_target().triple.startswith("x86_64"):
        pytest.skip("written for x86-64")
    old = replace(host_target(), cpu="x86-64-v2", features="", vector_bytes=16, half=False)
    for source in (dtypes.float16, dtypes.float32, dtypes.float64, dtypes.int64):
        x = Load("x0", (Var("i"),), source)
        compare([nasty(source)], [cast(x, t) for t in dtypes.ALL], "vector", old)
    x, y = (Load(name, (Var("i"),), dtypes.float16) for name in ("x0", "x1"))
    values = [apply(op, x, y) for op in ("add", "sub", "mul", "div", "min", "max")]
    compare(operands(dtypes.float16), values, "vector", old)


@pytest.mark.parametrize("source", dtypes.ALL, ids=str)
def test_bitcasts(source: DType) -> None:
    x = Load("x0", (Var("i"),), source)
    targets = [
        t for t in dtypes.ALL if t.bits == source.bits and "bool" not in (t.kind, source.kind)
    ]
    finite = nasty(source)
    if source.is_float:  # which NaN an operation gives is open
        finite = finite[~np.isnan(finite.astype(np.float64))]
    compare([finite], [bitcast(x, t) for t in targets] or [x], "vector")


def test_small_floats_round_half_to_even_everywhere() -> None:
    """Midpoints between neighbours of each small type, and one float32 to either side."""
    for dtype in (d for d in dtypes.ALL if d.is_float and d.bits < 32):
        codes = np.arange(1 << dtype.bits).astype(np.uint8 if dtype.bits <= 8 else np.uint16)
        with np.errstate(invalid="ignore"):  # signalling NaNs are among the codes
            values = codes.view(dtype.numpy).astype(np.float64)
        values = np.unique(values[np.isfinite(values)])
        if dtype == dtypes.float8_e8m0fnu:  # ml_dtypes rounds up what float32 has as a subnormal
            values = values[values >= 2.0**-126]
        middle = (values[1:] + values[:-1]) / 2
        singles = middle.astype(np.float32)
        points = [
            singles,
            np.nextafter(singles, np.float32(1e38)),
            np.nextafter(singles, np.float32(-1e38)),
        ]
        x = Load("x0", (Var("i"),), dtypes.float32)
        compare([np.concatenate(points)], [cast(x, dtype, saturate=False)], "vector")
        if dtype == dtypes.float8_e8m0fnu:  # its halves round up
            continue
        doubles = [middle, np.nextafter(middle, 1e300), np.nextafter(middle, -1e300)]
        x = Load("x0", (Var("i"),), dtypes.float64)
        compare([np.concatenate(doubles)], [cast(x, dtype)], "vector")


def test_powers_of_one_base_are_those_of_a_base_for_each_lane() -> None:
    values = np.array([*nasty(dtypes.float64), 0.3, 1.02, -1.5])
    bases = np.array([0.0, -0.0, 1.0, -1.5, 1.02, np.inf, -np.inf, np.nan])
    count, i = values.size, Var("i")
    buffers = [Buffer("x", dtypes.float64, (literal(count),), (literal(1),), writable=False)]
    arrays, stores = {"x": values}, []
    for k, base in enumerate(bases):
        for name in (f"one{k}", f"each{k}", f"y{k}", f"z{k}"):
            arrays[name] = np.full(count, base)
            buffers.append(Buffer(name, dtypes.float64, (literal(count),), (literal(1),)))
        one, each = (
            Load(f"one{k}", (literal(0),), dtypes.float64),
            Load(f"each{k}", (i,), dtypes.float64),
        )
        for name, operand in ((f"y{k}", one), (f"z{k}", each)):
            power = apply("pow", operand, Load("x", (i,), dtypes.float64))
            stores.append(Store(name, (i,), power))
    loop = For("i", literal(0), Var("n"), "vector", Block(tuple(stores)))
    found, _ = Compiled(Kernel("k", ("n",), tuple(buffers), loop))({"n": count}, arrays)
    for k, base in enumerate(bases):
        same, own = found[f"y{k}"], found[f"z{k}"]
        np.testing.assert_array_equal(same, own)
        np.testing.assert_array_equal(np.signbit(same), np.signbit(own))
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(same, base**values, rtol=1e-15)


@pytest.mark.parametrize("dtype", [d for d in dtypes.ALL if d.is_integer], ids=str)
def test_divisions_of_vectors_are_exact_next_to_multiples(dtype: DType) -> None:
    rng = np.random.default_rng(3)
    low, high = int(dtype.lowest), int(dtype.highest)
    for limit in (high, 1 << 52, 1 << 51, 1000):  # of 64 bits, those below 2**52 go another way
        most = min(limit, high)
        divisors = [
            1,
            2,
            3,
            7,
            most // 3 + 1,
            most - 1,
            *rng.integers(1, min(most, 1 << 30), 20, endpoint=True),
        ]
        found = []
        for b in (max(1, int(d)) for d in divisors):
            multiple = (most - 1) // b * b
            near = [a for n in (multiple, multiple // 2 // b * b, b) for a in (n - 1, n, n + 1)]
            found += [(s * a, t * b) for a in near for s in (1, -1) for t in (1, -1)]
        pairs = [(a, b) for a, b in found if low <= a <= min(high, limit) and low <= b <= high]
        left, right = (
            np.array(side, dtype=object).astype(dtype.numpy) for side in zip(*pairs, strict=True)
        )
        x, y = (Load(name, (Var("i"),), dtype) for name in ("x0", "x1"))
        ops = ("floordiv", "mod", "truncdiv", "rem")
        compare([left, right], [apply(op, x, y) for op in ops], "vector")
