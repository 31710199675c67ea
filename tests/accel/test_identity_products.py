"""Products with multiples of the identity: sums of tensors, beside integers in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.accel.dot_machine import dot_machine
from tests.accel.each_way import Arrays, check_each_way
from tests.accel.targets import SMALL, compute, target
from weft.accel.capabilities import Capabilities
from weft.accel.identity_products import identity_products
from weft.accel.machines.vta import Config
from weft.accel.mapping import Mapping
from weft.accel.rank_tilings import candidates
from weft.accel.refusal import Refusal
from weft.accel.timing import timing
from weft.frontend.operators.conv import convolve, kernel_window
from weft.frontend.operators.pool import max_pool
from weft.ir import build
from weft.ir.build import maximum, minimum, placeholder
from weft.ir.dtypes import i8, i32, u8
from weft.ir.errors import StreamError
from weft.ir.scalar_expr import Expr, Load, cast, literal, rewrite
from weft.ir.scalar_interpreter import evaluate
from weft.ir.tensor_expr import Program
from weft.offload.offload import Target, offload, ways
from weft.offload.simulator import check_stream
from weft.polyhedral.from_tensor_expr import lower

CONFIGS = (Config(), SMALL, Config(log_block=5, log_wgt_buff_size=19))


def has_products(mapping: Mapping) -> bool:
    return any(view.diagonal is not None for view in mapping.reads.values())


def check(program: Program, data: Arrays, machine: Config | Target, want: np.ndarray) -> None:
    """Of the ways, one has such products."""
    assert any(map(has_products, check_each_way(program, data, machine, want)))


def swapped() -> Capabilities:
    """VTA's GEMM with the weights as its first operand."""
    gemm = compute("gemm")

    def other(node: Expr) -> Expr | None:
        return Load(1 - node.source, (), node.dtype) if isinstance(node, Load) else None  # type: ignore[operator]

    body = replace(gemm.step.body, results=(rewrite(gemm.step.body.results[0], other),))
    step = replace(gemm.step, reads=gemm.step.reads[::-1], body=body)
    return Capabilities((), (replace(gemm, step=step, operands=gemm.operands[::-1]),), {})


@pytest.mark.parametrize("given", (target().capabilities, swapped()))
def test_values_are_those_of_the_product(given: Capabilities) -> None:
    (found,) = identity_products(given)
    assert {found.added, found.identity} == {1, 2} and found.source == "inp"
    random = np.random.default_rng(0)
    acc = random.integers(-(2**31), 2**31, (1, 16)).astype(np.int32)
    inp = np.vstack([random.integers(-128, 128, (6, 16)), np.full((1, 16), -128)]).astype(np.int8)
    factors = []
    for factor, value in found.values((0, 1, 3, 6, 7, -5, 127, 128)):
        factors.append(factor)
        wgt = np.diag(np.full(16, factor)).astype(np.int8)
        assert (np.diag(wgt) == factor).all(), "it has 8 bits"
        with np.errstate(over="ignore"):
            want = acc + inp.astype(np.int32) @ wgt.T.astype(np.int32)
            places = {0: np.broadcast_to(acc, inp.shape), found.added: inp}
            np.testing.assert_array_equal(evaluate(value, {}, lambda n, _: places[n]), want)  # noqa: B023
    assert sorted({*factors}) == [-128, -64, -8, -5, -2, -1, 1, 2, 3, 6, 7, 8, 64, 127]


def test_what_is_no_such_product() -> None:
    """ALU operations, and sums that a product begins anew."""
    others = [c for c in target().capabilities.computes if c.operation.name != "gemm"]
    assert others
    assert not identity_products(Capabilities((), tuple(others), {}))
    anew = replace(compute("gemm"), first=literal(0, i32))
    assert not identity_products(Capabilities((), (anew,), {}))


def test_factors_of_unsigned_numbers() -> None:
    """There is no -1 among them, and 255 is not it."""
    to = Target.of(dot_machine(u8))
    (found,) = identity_products(to.capabilities)
    factors = [factor for factor, _ in found.values((-5, 1, 7, 8, 200, 256))]
    assert factors == [1, 2, 128, 7, 8, 200]
    a, b = (placeholder((5, 7), u8, name=n) for n in "ab")
    random = np.random.default_rng(1)
    data = {n: random.integers(0, 256, (5, 7)).astype(np.uint8) for n in "ab"}
    wide = {n: array.astype(np.int32) for n, array in data.items()}

    def program(sign: int) -> Program:
        def body(*i: Any) -> Expr:
            return cast(a[i], i32) * literal(3, i32) + cast(b[i], i32) * literal(sign * 200, i32)

        return Program("p", (a, b), (build.compute((5, 7), body, name="y"),))

    check(program(1), data, to, 3 * wide["a"] + 200 * wide["b"])
    with pytest.raises(Refusal, match="nothing does what becomes of its results"):
        ways(lower(program(-1), "p"), to)


@pytest.mark.parametrize(
    ("name", "field"), (("load_wgt", "x_size"), ("load_inp", "x_size"), ("reset", "iter_out"))
)
def test_what_the_checker_refuses(name: str, field: str) -> None:
    """A sum without its identity, without what is added, and into accumulators as they were: the
    instruction that makes these has no iterations, and gives and takes its tokens."""
    a, b = (placeholder((3, 17), i8, name=n) for n in "ab")

    def body(*i: Any) -> Expr:
        total = cast(a[i], i32) + cast(b[i], i32)
        return cast(minimum(maximum(total, literal(0, i32)), literal(127, i32)), i8)

    program = Program("sum", (a, b), (build.compute((3, 17), body, name="y"),))
    artifact = offload(lower(program, "p"), target(), {}).artifact
    check_stream(artifact, target().semantics)
    issues = list(artifact.stream.issues)
    number = next(n for n, issue in enumerate(issues) if issue.operation == name)
    issues[number] = replace(issues[number], fields={**issues[number].fields, field: 0})
    broken = replace(artifact, stream=replace(artifact.stream, issues=tuple(issues)))
    with pytest.raises(StreamError, match="WEFT-E1044"):
        check_stream(broken, target().semantics)


Sum = Callable[[Any, Any], Any]
SUMS: dict[str, Sum] = {
    "a + b": lambda a, b: a + b,
    "a - b": lambda a, b: a - b,
    "a + 2 b": lambda a, b: a + (b << 1),
    "64 a - 8 b": lambda a, b: (a << 6) - (b << 3),
    "3 a - 7 b": lambda a, b: a * 3 + b * -7,
    "rounded": lambda a, b: ((a << 1) + b + 2) >> 2,
    "twice": lambda a, b: (a + b) + (a << 2),
    "128 a": lambda a, b: (a << 7) + b,  # no factor of 8 bits
}


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("name", SUMS)
def test_sums_of_tensors(name: str, config: Config) -> None:
    for shape in ((1, 1, 1, 1), (3, 17, 5, 2)):
        a, b = (placeholder(shape, i8, name=n) for n in "ab")
        low, high = literal(-128, i32), literal(127, i32)

        def body(*i: Any) -> Expr:
            value = SUMS[name](cast(a[i], i32), cast(b[i], i32))  # noqa: B023
            return cast(minimum(maximum(value, low), high), i8)  # noqa: B023

        program = Program("sum", (a, b), (build.compute(shape, body, name="y"),))
        random = np.random.default_rng(3)
        data = {n: random.integers(-128, 128, shape).astype(np.int8) for n in "ab"}
        whole = SUMS[name](data["a"].astype(np.int64), data["b"].astype(np.int64))
        check(program, data, config, np.clip(whole, -128, 127).astype(np.int8))


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize(
    ("channels", "filters", "size", "kernel", "stride"),
    ((16, 16, 5, 3, 1), (32, 48, 7, 3, 2), (17, 33, 4, 1, 1), (3, 5, 1, 3, 1)),
)
def test_residual_convolutions(
    channels: int, filters: int, size: int, kernel: int, stride: int, config: Config
) -> None:
    pad = kernel // 2
    x = placeholder((1, channels, size, size), i8, name="x")
    w = placeholder((filters, channels, kernel, kernel), i8, name="w")
    bias = placeholder((filters,), i32, name="bias")
    sums = convolve(x, w, kernel_window(x, w, (stride, stride), (pad,) * 4, None), 1)
    other = placeholder(sums.shape, i8, name="other")
    low, high = literal(-127, i32), literal(127, i32)

    def body(*i: Any) -> Expr:
        own = cast(minimum(maximum((sums[i] + bias[i[1]]) >> 7, low), high), i8)
        total = (cast(own, i32) + (cast(other[i], i32) << 1) + literal(1, i32)) >> 1
        return cast(minimum(maximum(total, literal(0, i32)), high), i8)

    y = build.compute(sums.shape, body, name="y")
    random = np.random.default_rng(5)
    outputs = (size + 2 * pad - kernel) // stride + 1
    data = {
        "x": random.integers(-128, 128, (1, channels, size, size)).astype(np.int8),
        "w": random.integers(-128, 128, (filters, channels, kernel, kernel)).astype(np.int8),
        "bias": random.integers(-999, 999, filters).astype(np.int32),
        "other": random.integers(-128, 128, (1, filters, outputs, outputs)).astype(np.int8),
    }
    around = np.pad(data["x"].astype(int), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(around, (kernel, kernel), (2, 3))
    sums_data = np.einsum("nchwrs,ocrs->nohw", windows[:, :, ::stride, ::stride], data["w"])
    own = np.clip((sums_data + data["bias"][:, None, None]) >> 7, -127, 127)
    want = np.clip((own + 2 * data["other"].astype(int) + 1) >> 1, 0, 127)
    check(Program("p", (x, w, bias, other), (y,)), data, config, want.astype(np.int8))


@pytest.mark.parametrize("config", CONFIGS)
def test_maxima_of_windows(config: Config) -> None:
    """Operands are copied to accumulators by products; around the image there is -128."""
    x = placeholder((1, 33, 9, 7), i8, name="x")
    y = max_pool(x, kernel=(3, 3), strides=(2, 2), pads=(1,) * 4)
    data = np.random.default_rng(0).integers(-128, -100, (1, 33, 9, 7)).astype(np.int8)
    around = np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-128)
    windows = np.lib.stride_tricks.sliding_window_view(around, (3, 3), (2, 3))
    want = windows[:, :, ::2, ::2].max((4, 5))
    check(Program("p", (x,), (y,)), {"x": data}, config, want)


def test_the_cheaper_way_is_taken() -> None:
    """What closed forms say of both ways is what the simulated streams take, within 3%."""
    shape = (1, 64, 28, 28)
    a, b = (placeholder(shape, i8, name=n) for n in "ab")

    def body(*i: Any) -> Expr:
        total = cast(a[i], i32) + cast(b[i], i32)
        return cast(minimum(maximum(total, literal(0, i32)), literal(127, i32)), i8)

    scop = lower(Program("sum", (a, b), (build.compute(shape, body, name="y"),)), "sum")
    loaded, products = ways(scop, target())
    assert not has_products(loaded) and has_products(products)
    prices = [candidates(way, target().plain, 1)[0].cycles for way in (loaded, products)]
    assert prices[1] < 0.3 * prices[0]
    made = offload(scop, target(), {})
    assert made.tiling.mapped is products
    assert abs(timing(made.artifact.stream).cycles / prices[1] - 1) < 0.03
