"""Models on an accelerator and the processor: the integers of the processor alone, exactly."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import weft
from tests.weft.integer_models import (
    SIDE,
    conv_net,
    qdq_conv,
    qlinear_conv,
    residual_net,
    softmax_net,
)
from weft.accel.execution_order import ORDERS
from weft.accel.machines.vta import Config, vta
from weft.ir.build import compute, maximum, minimum, placeholder
from weft.ir.dtypes import i8, i32
from weft.ir.errors import CallError, CompileError
from weft.ir.scalar_expr import cast, literal
from weft.offload.accelerated import Accelerated
from weft.offload.quantization import Quantized

Arrays = dict[str, np.ndarray]
SMALL = Config(log_batch=1, log_block=3, log_uop_buff_size=10, log_inp_buff_size=12,
               log_wgt_buff_size=13, log_acc_buff_size=13)  # fmt: skip


def image(seed: int) -> Arrays:
    random = np.random.default_rng(seed)
    return {"input": random.standard_normal((1, 3, SIDE, SIDE)).astype(np.float32)}


@cache
def quantised() -> Quantized:
    return weft.quantize(residual_net(), [image(seed) for seed in range(4)])


@cache
def accelerated(config: Config = Config()) -> Accelerated:  # noqa: B008  # it is frozen
    made = weft.compile(quantised(), target=vta(config))
    assert isinstance(made, Accelerated)
    return made


@cache
def host() -> weft.Executable:
    return weft.compile(quantised())


@pytest.mark.long
@pytest.mark.parametrize("config", (Config(), SMALL))
def test_results_are_those_of_the_processor(config: Config) -> None:
    made = accelerated(config)
    for seed in (10, 11):
        want = host().run(image(seed))["output"]
        assert want.std() > 0
        for order in (*ORDERS, 3):
            found = made.simulate(image(seed), order)["output"]
            np.testing.assert_array_equal(found, want)
    made.check()


def test_what_is_offloaded() -> None:
    """Both convolutions with all that follows them, the residual too; softmax is not."""
    made = accelerated()
    operators = [layer.operators for layer in made.layers]
    assert sum("conv" in each for each in operators) == 2
    assert not any("softmax" in each for each in operators)
    for layer in made.layers:
        assert layer.cycles > 0 and layer.bytes > 0 and layer.instructions > 2
        assert 0 <= layer.utilisation <= 1
    assert made.stats["offloaded"] == len(made.layers) == len(made.offloads)
    assert made.stats["cycles"] == sum(layer.cycles for layer in made.layers)
    assert list(made.artifacts) == [layer.name for layer in made.layers]


def test_ways() -> None:
    """The first convolution has 3 channels: its loops are merged. The second adds a residual."""
    made = accelerated()
    merged, residual = (each for each in made.layers if "conv" in each.operators)
    assert merged.way.startswith("im2col of ") and residual.way == "products with the identity"
    assert all(2 * layer.ways[layer.way] > layer.cycles for layer in made.layers)
    assert all(layer.ways["as it is"] > layer.ways[layer.way] for layer in (merged, residual))
    told = made.explain().splitlines()
    assert len(told) == sum(len(layer.ways) > 1 for layer in made.layers)
    price, other = residual.ways[residual.way], residual.ways["as it is"]
    assert told[-1] == (
        f"{residual.name}: products with the identity, {price:,} cycles estimated"
        f" ({other:,} as it is)"
    )


def test_calls() -> None:
    made, given = accelerated(), image(12)
    want = made.run(given)["output"]
    np.testing.assert_array_equal(made(given["input"]), want)
    np.testing.assert_array_equal(made(input=given["input"]), want)


@pytest.mark.parametrize(
    ("given", "message"),
    (
        ({}, "WEFT-E0601: missing: 'input'"),
        ({"input": np.zeros((1, 3, SIDE, SIDE + 1), np.float32)}, "WEFT-E0605: input 'input' has"),
        ({"input": np.zeros((3, SIDE, SIDE), np.float32)}, "WEFT-E0604"),
        ({"input": np.zeros((1, 3, SIDE, SIDE))}, "WEFT-E0603: .* has dtype float64, not float32"),
        ({"input": "no array"}, "WEFT-E0602"),
        ({**image(0), "other": np.zeros(3)}, "WEFT-E0601: .*'other'"),
    ),
)
def test_inputs_that_do_not_fit(given: Arrays, message: str) -> None:
    with pytest.raises(CallError, match=message):
        accelerated().run(given)


def test_too_many_arrays() -> None:
    array = image(0)["input"]
    with pytest.raises(CallError, match="WEFT-E0600: 2 arguments for 1 inputs"):
        accelerated()(array, array)


def test_the_same_input_twice() -> None:
    array = image(0)["input"]
    with pytest.raises(CallError, match="WEFT-E0601"):
        accelerated()(array, input=array)


@pytest.mark.long
def test_integers_as_they_are() -> None:
    """Models that say themselves what is quantised, without ``weft.quantize``."""
    random = np.random.default_rng(5)
    integers = random.integers(-128, 128, (1, 16, SIDE, SIDE)).astype(np.int8)
    floats = random.standard_normal(integers.shape).astype(np.float32)
    for model, x in ((qlinear_conv(), integers), (qdq_conv(), floats)):
        made = weft.compile(model, target="vta")
        assert any("conv" in layer.operators for layer in made.layers)
        want = weft.compile(model)(x)
        assert len(np.unique(want)) > 9
        np.testing.assert_array_equal(made(x), want)


def test_a_number_is_an_input() -> None:
    """An array without dimensions, or a plain number, as on the processor."""
    x, s = placeholder((16, 16), i32, name="x"), placeholder((), i32, name="s")
    low, high = literal(-128, i32), literal(127, i32)
    total = compute(
        (16, 16), lambda *i: cast(minimum(maximum(x[i] + s[()], low), high), i8), name="y"
    )
    made = weft.compile(total, target="vta")
    given = np.arange(-128, 128, dtype=np.int32).reshape(16, 16)
    for number in (7, np.array(7, np.int32)):
        np.testing.assert_array_equal(made(given, number), np.minimum(given + 7, 127))


def test_nothing_for_the_accelerator() -> None:
    with pytest.raises(CompileError, match="WEFT-E1033: vta can compute nothing of") as found:
        weft.compile(softmax_net(), target="vta")
    assert "weft.quantize" in found.value.hint


def test_floating_point_is_not_for_it() -> None:
    with pytest.raises(CompileError, match="WEFT-E1033"):
        weft.compile(conv_net(), target="vta")


def test_memories_that_are_too_small() -> None:
    """What is needed, what there is, and the entry of the configuration that would do."""
    a, b, c = (placeholder((5, 9), i32, name=name) for name in "abc")
    low, high = literal(-128, i32), literal(127, i32)
    total = compute(
        (5, 9),
        lambda *i: cast(minimum(maximum((a[i] + b[i] + c[i]) >> 2, low), high), i8),
        name="y",
    )
    small = Config(log_acc_buff_size=7)
    with pytest.raises(CompileError, match="WEFT-E1033") as found:
        weft.compile(total, target=vta(small))
    assert "3 elements of acc, 192 bytes, where there are 2, 128 bytes" in found.value.why
    assert "log_acc_buff_size = 8 would do" in found.value.why


def test_products_need_one_accumulator() -> None:
    """Three int8 tensors are added where accumulators have no room for each of them."""
    names = "abc"
    given = [placeholder((5, 9), i8, name=name) for name in names]
    low, high = literal(-128, i32), literal(127, i32)

    def body(*i: Any) -> Any:
        a, b, c = (cast(each[i], i32) for each in given)
        return cast(minimum(maximum((a + b + c) >> 2, low), high), i8)

    made = weft.compile(compute((5, 9), body, name="y"), target=vta(Config(log_acc_buff_size=7)))
    random = np.random.default_rng(0)
    data = {name: random.integers(-128, 128, (5, 9)).astype(np.int8) for name in names}
    want = np.clip(sum(array.astype(int) for array in data.values()) >> 2, -128, 127)
    np.testing.assert_array_equal(made(**data), want)


def test_kernels_are_not_for_it() -> None:
    @weft.kernel
    def doubled(a: weft.i32[4]) -> None:
        for i in range(4):
            a[i] = a[i] * 2

    with pytest.raises(CompileError, match="WEFT-E0017"):
        weft.compile(doubled, target="vta")


def test_the_same_every_time() -> None:
    again = weft.compile(quantised(), target="vta")
    for one, other in zip(accelerated().artifacts.values(), again.artifacts.values(), strict=True):
        assert one.stream.encode() == other.stream.encode()
        np.testing.assert_array_equal(one.image, other.image)
