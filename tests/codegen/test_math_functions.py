"""Every mathematical function within its stated bound, against higher precision."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest

from tests.codegen.float_mode import (
    DENORMAL_OPERAND,
    STANDARD,
    UNDERFLOW,
    mode,
    needs_mxcsr,
    set_mode,
)
from tests.codegen.kernel_runner import Compiled
from weft.codegen import fit_polynomials, math_coefficients
from weft.codegen.llvm.target import LlvmTarget, host_target, llvm_target
from weft.codegen.math_functions import BOUNDS
from weft.ir.dtypes import as_dtype
from weft.ir.loop_ir import Buffer, For, Kernel, Store
from weft.ir.scalar_expr import Load, Var, apply, literal
from weft.ir.scalar_ops import OPS

REFERENCE = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh", "atan2": "arctan2", "pow": "power", "rem": "fmod",
}  # fmt: skip


def kernel(op: str, dtype: type, kind: str) -> Kernel:
    i, n, type_ = Var("i"), Var("n"), as_dtype(np.dtype(dtype))
    names = [f"x{k}" for k in range(OPS[op].arity)]
    inputs = [Buffer(name, type_, (n,), (literal(1),), writable=False) for name in names]
    output = Buffer("y", type_, (n,), (literal(1),))
    value = apply(op, *(Load(name, (i,), type_) for name in names))
    loop = For("i", literal(0), n, kind, Store("y", (i,), value))  # type: ignore[arg-type]
    return Kernel("k", ("n",), (*inputs, output), loop)


def run(op: str, kind: str, *xs: np.ndarray, target: LlvmTarget | None = None) -> np.ndarray:
    buffers = {f"x{k}": x for k, x in enumerate(xs)} | {"y": np.zeros_like(xs[0])}
    compiled = Compiled(kernel(op, xs[0].dtype.type, kind), target or host_target(), contract=True)
    return compiled({"n": xs[0].size}, buffers)[0]["y"]


def samples(dtype: type, count: int, seed: int) -> np.ndarray:
    """All magnitudes, the usual ranges, the neighbourhood of 1, and the notorious values."""
    rng = np.random.default_rng(seed)
    integer = np.uint32 if dtype is np.float32 else np.uint64
    any_bits = rng.integers(0, np.iinfo(integer).max, count, integer, endpoint=True).view(dtype)
    spans = [rng.uniform(-a, a, count).astype(dtype) for a in (1e-3, 1, 2, 10, 100, 750, 1e5)]
    near = (1 + rng.uniform(-1e-2, 1e-2, count)).astype(dtype)
    f = np.finfo(dtype)
    special = [
        0, np.inf, np.nan, 0.5, 1, 1.5, 2, 3, np.pi / 4, np.pi / 2, np.pi, 4, 6, 10, 22, 1e22,
        88.7, 89, 103.9, 104, 126, 127, 128, 149, 150, 709.7, 709.8, 745.1, 745.2, 1022, 1023,
        1024, 1074, 1075, f.max, f.tiny, f.smallest_subnormal, f.eps, f.eps / 2, 2.0**24, 2.0**53,
        6381956970095103.0 * 2.0**797,  # the double closest to a multiple of pi / 2
    ]  # fmt: skip
    with np.errstate(over="ignore"):
        notorious = np.array(special).astype(dtype)
    return np.concatenate([any_bits, *spans, near, -near, notorious, -notorious])


def pairs(dtype: type, count: int) -> list[np.ndarray]:
    a, b = samples(dtype, count, 1), samples(dtype, count, 2)
    special = a[-84:]
    grid = np.array(np.meshgrid(special, special)).reshape(2, -1)
    np.random.default_rng(3).shuffle(b)
    return [np.concatenate([a, grid[0]]), np.concatenate([b, grid[1]])]


def erf_precisely(x: float) -> np.longdouble:
    if not abs(x) < 6.5 or abs(x) < 1e-150:
        return np.longdouble(math.erf(x)) if not 0 < abs(x) < 1 else np.longdouble(x) * TWO_ROOT_PI
    d = Decimal(x)
    value = (
        d * fit_polynomials._erf_over_x(d * d) if abs(x) < 1 else 1 - fit_polynomials.erfc(abs(d))
    )
    head = float(value)
    precise = np.longdouble(head) + np.longdouble(float(value - Decimal(head)))
    return precise if abs(x) < 1 else np.copysign(precise, np.longdouble(x))


TWO_ROOT_PI = np.longdouble("1.12837916709551257389615890312154517")


def reference(op: str, *xs: np.ndarray) -> np.ndarray:
    wide = [x.astype(np.longdouble) for x in xs]
    if op == "erf":
        return np.array([erf_precisely(float(x)) for x in xs[0]], np.longdouble)
    return getattr(np, REFERENCE.get(op, op))(*wide)


def ulps(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Distance in units in the last place of the expected result; inf if one is not finite."""
    info = np.finfo(actual.dtype)
    with np.errstate(all="ignore"):
        exponent = np.frexp(np.abs(expected))[1] - 1
        exponent = np.where(expected == 0, info.minexp, np.maximum(exponent, info.minexp))
        unit = np.ldexp(np.longdouble(1), (exponent - info.nmant).astype(np.int64))
        distance = np.abs(actual.astype(np.longdouble) - expected) / unit
        rounded = expected.astype(actual.dtype)
    same = (actual == rounded) | (np.isnan(actual) & np.isnan(rounded))
    # At the overflow threshold the largest number and infinity are one ulp apart.
    edge = (np.abs(actual) >= info.max) & (np.abs(expected) >= info.max * np.longdouble(1 - 1e-15))
    finite = np.isfinite(actual) & np.isfinite(rounded)
    return np.where(
        same & ~finite | edge & ~np.isnan(expected), 0, np.where(finite, distance, np.inf)
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", BOUNDS)
def test_within_its_bound(op: str, dtype: type) -> None:
    check_bound(op, dtype, None)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", ["exp", "erf", "tanh"])
def test_without_tables_in_registers(op: str, dtype: type) -> None:
    host = host_target()
    narrow = {name for name in host.enabled if not name.startswith("avx512")}
    check_bound(op, dtype, llvm_target(host.triple, "", narrow))


def check_bound(op: str, dtype: type, target: LlvmTarget | None) -> None:
    count = 100 if op == "erf" else 2000
    xs = [samples(dtype, count, 0)] if OPS[op].arity == 1 else pairs(dtype, count)
    actual, expected = run(op, "vector", *xs, target=target), reference(op, *xs)
    errors = ulps(actual, expected)
    worst = int(np.argmax(errors))
    bound = BOUNDS[op][0 if dtype is np.float32 else 1]
    at = [x[worst] for x in xs]
    assert errors[worst] <= bound, f"{op}{at} = {actual[worst]}, not {expected[worst]}"
    zeros = (actual == 0) & (expected == 0)
    np.testing.assert_array_equal(np.signbit(actual[zeros]), np.signbit(expected[zeros]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", ["erf", "tanh"])
def test_far_from_zero_is_exactly_one(op: str, dtype: type) -> None:
    """An ulp less, times a large argument, is what GELU would give where 0 is right."""
    far = np.array([20, 300, 1e6, 1e19, 1e38, np.inf], dtype)
    np.testing.assert_array_equal(run(op, "vector", far), np.ones_like(far))
    np.testing.assert_array_equal(run(op, "vector", -far), -np.ones_like(far))


@needs_mxcsr
@pytest.mark.parametrize("widest", ["avx512", "avx2"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", ["exp", "exp2", "expm1", "sinh", "cosh", "tanh", "erf", "pow"])
def test_far_below_its_range_no_denormal_is_met(op: str, dtype: type, widest: str) -> None:
    """As the processor's flags have it; where masks put -1e9, some take 100 cycles a denormal."""
    far = np.array([-1100, -1e4, -1e9, np.finfo(dtype).min, -np.inf] * 10, dtype)
    xs = [np.full_like(far, 2), far] if op == "pow" else [far]
    host = host_target()
    some = {name for name in host.enabled if widest == "avx512" or not name.startswith("avx512")}
    target = llvm_target(host.triple, "", some)
    run(op, "vector", *xs, target=target)  # compiled before flags are looked at
    before = mode()
    try:
        set_mode(STANDARD)
        actual = run(op, "vector", *xs, target=target)
        flags = mode()
    finally:
        set_mode(before)
    assert flags & (DENORMAL_OPERAND | UNDERFLOW) == 0
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(actual, reference(op, *xs).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", ["exp", "sin", "pow", "log1p", "rem", "tanh", "erf"])
def test_scalar_code_gives_the_same_bits(op: str, dtype: type) -> None:
    xs = [samples(dtype, 50, 0)] if OPS[op].arity == 1 else pairs(dtype, 50)
    np.testing.assert_array_equal(run(op, "vector", *xs), run(op, "serial", *xs))


def test_the_coefficients_are_what_the_fit_gives() -> None:
    for name, single, double in fit_polynomials.tables():
        assert math_coefficients.FLOAT.get(name, ()) == single
        assert math_coefficients.DOUBLE.get(name, ()) == double
    assert int(math_coefficients.TWO_OVER_PI, 16) == fit_polynomials.two_over_pi(1280)
