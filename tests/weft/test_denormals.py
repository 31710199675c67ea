"""Denormals count as zeros of their sign in arithmetic, unless ``strict``, whatever mode the caller
has, in every thread; and the caller's mode stays, however a call ends."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

import weft
from tests.codegen.float_mode import DOWN, FLUSHING, STANDARD, mode, needs_mxcsr, set_mode
from tests.weft.c_program import c_program, needs_c
from weft.driver import program_code
from weft.ir import dtypes
from weft.ir.build import compute, placeholder, sum
from weft.ir.errors import ExecutionError
from weft.ir.scalar_expr import cast
from weft.ir.tensor_expr import Tensor

pytestmark = needs_mxcsr
COUNT = 5000
THREADS = [1, 2]


@pytest.fixture(autouse=True)
def threads_share_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = functools.partial(program_code.emit_program, grain=1)
    monkeypatch.setattr(program_code, "emit_program", shared)


@pytest.fixture
def standard() -> Iterator[None]:
    before = mode()
    set_mode(STANDARD)
    yield
    set_mode(before)


def compiled(*outputs: Tensor, strict: bool, threads: int = 1) -> weft.Executable:
    return weft.compile(outputs, options=weft.Options(strict=strict, threads=threads, cache=False))


def flushed(values: np.ndarray) -> np.ndarray:
    """Denormals are zeros of their sign."""
    tiny = np.abs(values.astype(np.float64)) < float(np.finfo(values.dtype).tiny)
    return np.where(tiny, np.copysign(np.zeros_like(values), values), values)


def around_the_least(dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """Factors that are denormal, or whose product is."""
    rng = np.random.default_rng(0)
    low = int(np.finfo(dtype).minexp)
    exponents = rng.integers(low - np.finfo(dtype).nmant, 0, COUNT), rng.integers(low, 40, COUNT)
    x, y = (np.ldexp(rng.uniform(-2, 2, COUNT), e).astype(dtype) for e in exponents)
    return x, y


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products(dtype: type, strict: bool, threads: int, standard: None) -> None:
    a, b = (placeholder((COUNT,), np.dtype(dtype).name, name=name) for name in "ab")
    run = compiled(
        compute((COUNT,), lambda i: a[i] * b[i], name="y"), strict=strict, threads=threads
    )
    x, y = around_the_least(dtype)
    expected = x * y if strict else flushed(flushed(x) * flushed(y))
    assert strict or (expected != x * y).any()
    for callers in (STANDARD, STANDARD | FLUSHING | DOWN):
        set_mode(callers)
        actual = run(x, y)
        found = mode()
        set_mode(STANDARD)
        assert found == callers
        np.testing.assert_array_equal(actual, expected)
        np.testing.assert_array_equal(np.signbit(actual), np.signbit(expected))


@pytest.mark.parametrize("threads", THREADS)
def test_the_mode_stays_where_a_call_ends_early(threads: int, standard: None) -> None:
    a, at = placeholder((COUNT,), name="a"), placeholder((COUNT,), "int64", name="at")
    run = compiled(
        compute((COUNT,), lambda i: a[at[i]] * 2.0, name="y"), strict=False, threads=threads
    )
    indices = np.arange(COUNT)
    indices[COUNT // 3] = COUNT
    callers = STANDARD | DOWN
    set_mode(callers)
    with pytest.raises(ExecutionError):
        run(np.ones(COUNT, np.float32), indices)
    assert mode() == callers


def test_what_is_moved_keeps_its_bits(standard: None) -> None:
    a = placeholder((7, 11), name="a")
    run = compiled(compute((11, 7), lambda i, j: a[j, i], name="y"), strict=False)
    bits = np.arange(77, dtype=np.int32).reshape(7, 11) - 38
    np.testing.assert_array_equal(run(bits.view(np.float32)).view(np.int32), bits.T)


@pytest.mark.long
@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
@pytest.mark.parametrize(
    "dtype", ["float16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"]
)
def test_denormals_of_small_types_are_numbers(dtype: str, target: str, standard: None) -> None:
    """They are normal in float32, where all of it is computed."""
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    codes = np.arange(1 << 8 * kind.itemsize).astype(f"uint{8 * kind.itemsize}").view(kind)
    a = placeholder((codes.size,), dtype, name="a")
    wide = compute((codes.size,), lambda i: cast(a[i], dtypes.float32), name="wide")
    doubled = compute((codes.size,), lambda i: a[i] + a[i], name="twice")
    options = weft.Options(threads=1, cache=False, target=target)
    singles, twice = weft.compile((wide, doubled), options=options)(codes)
    np.testing.assert_array_equal(singles, codes.astype(np.float32))
    finite = np.abs(singles) < 1
    with np.errstate(over="ignore"):
        expected = (2 * singles).astype(kind)
    np.testing.assert_array_equal(
        twice[finite].astype(np.float32), expected[finite].astype(np.float32)
    )


def test_those_of_bfloat16_are_those_of_float32(standard: None) -> None:
    codes = np.arange(1 << 16).astype(np.uint16).view(ml_dtypes.bfloat16)
    singles = codes.astype(np.float32)
    codes, singles = codes[np.isfinite(singles)], singles[np.isfinite(singles)]
    a = placeholder((codes.size,), "bfloat16", name="a")
    half = compiled(compute((codes.size,), lambda i: a[i] * 0.5, name="y"), strict=False)(codes)
    expected = flushed(flushed(singles) * np.float32(0.5)).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(half.view(np.uint16), expected.view(np.uint16))


@pytest.mark.parametrize("strict", [False, True])
def test_constants_are_computed_as_compiled_code_would(strict: bool, standard: None) -> None:
    onnx = pytest.importorskip("onnx")
    helper, numpy_helper = onnx.helper, onnx.numpy_helper

    def model(constant: bool):
        first = np.full(64, 1e-20, np.float32)
        given = [helper.make_tensor_value_info("x", 1, [64])]
        held = [numpy_helper.from_array(first, "c")]
        nodes = [
            helper.make_node("Mul", ["c" if constant else "x", "low"], ["t"]),
            helper.make_node("Mul", ["t", "high"], ["u"]),
            helper.make_node("Add", ["u", "x"], ["y"]),
        ]
        held += [numpy_helper.from_array(np.full(64, v, np.float32), n)
                 for n, v in (("low", 1e-20), ("high", 1e30))]  # fmt: skip
        result = [helper.make_tensor_value_info("y", 1, [64])]
        graph = helper.make_graph(nodes, "g", given, result, held)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)

    x = np.full(64, 1e-20, np.float32)
    answers = [
        weft.compile(model(constant), options=weft.Options(strict=strict, cache=False))(x)
        for constant in (False, True)
    ]
    np.testing.assert_array_equal(*answers)
    product = x * np.float32(1e-20)
    product = product if strict else flushed(product)
    np.testing.assert_array_equal(answers[0], product * np.float32(1e30) + x)


@needs_c
@pytest.mark.parametrize("strict", [False, True])
def test_in_a_library(strict: bool, tmp_path, standard: None) -> None:
    a, b = (placeholder((COUNT,), name=name) for name in "ab")
    run = compiled(compute((COUNT,), lambda i: a[i] * b[i], name="y"), strict=strict, threads=2)
    x, y = around_the_least(np.float32)
    ran = c_program(run.compiled, tmp_path).run({"a": x, "b": y}, threads=2)
    expected = x * y if strict else flushed(flushed(x) * flushed(y))
    np.testing.assert_array_equal(ran.arrays["y"], expected)


def test_a_sum_is_off_by_less_than_one_least_normal_number_a_step(standard: None) -> None:
    """What is promised of chains: each operation loses at most what the least number is worth."""
    rng = np.random.default_rng(1)
    x, y = around_the_least(np.float32)
    y = rng.uniform(-1, 1, COUNT).astype(np.float32)
    a, b = (placeholder((COUNT,), name=name) for name in "ab")
    t = weft.reduce_axis((0, COUNT), name="t")
    run = compiled(compute((1,), lambda _: sum(a[t] * b[t], t), name="y"), strict=False)
    exact = float(np.sum(x.astype(np.float64) * y.astype(np.float64)))
    least, eps = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).eps)
    magnitude = float(np.sum(np.abs(x.astype(np.float64) * y)))
    assert abs(float(run(x, y)[0]) - exact) <= 3 * COUNT * least + COUNT * eps * magnitude
