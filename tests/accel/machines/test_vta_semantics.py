"""VTA's instructions as loop kernels do what the published text says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weft.accel.machines.vta import Config, micro_op, vta
from weft.ir.accelerator import Accelerator
from weft.offload.accelerators import kernel_of

CONFIGS = {
    "default": Config(),
    "batch 2, block 8": Config(log_batch=1, log_block=3, log_wgt_buff_size=14),
    "block 32": Config(log_block=5, log_inp_buff_size=13),
}
Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module", params=CONFIGS.values(), ids=CONFIGS)
def machine(request: pytest.FixtureRequest) -> tuple[Config, Accelerator]:
    return request.param, vta(request.param)


def memory(machine: Accelerator, name: str, elements: int, seed: int = 0) -> Array:
    found = machine.memory(name)
    info = np.iinfo(found.dtype.numpy)
    shape = (found.depth or elements, *found.shape)
    random = np.random.default_rng(seed)
    return random.integers(info.min, info.max, shape, found.dtype.numpy, endpoint=True)


def run(machine: Accelerator, name: str, arrays: dict[str, Array], **fields: int) -> None:
    """The instruction ``name`` on ``arrays``, fields that are not given 0."""
    operation = machine.operation(name)
    kernel = kernel_of(machine, operation)
    back = {memory: argument for argument, memory in operation.memories.items()}
    given: dict[str, Any] = {back.get(n, n): a for n, a in arrays.items()}
    for argument in kernel.lowered.arguments:
        if argument.kind == "parameter":
            given[argument.name] = fields.get(argument.name, 0)
    kernel(**given)


@pytest.mark.parametrize("name", ["inp", "wgt", "acc"])
def test_load_pads_rows_and_steps_over_main_memory(
    machine: tuple[Config, Accelerator], name: str
) -> None:
    _, target = machine
    sram, dram = memory(target, name, 0), memory(target, f"dram_{name}", 100, 1)
    tile = dram[7 + np.arange(3)[:, None] * 20 + np.arange(5)]
    padded = np.pad(tile, ((2, 1), (1, 3), (0, 0), (0, 0)))
    expected = sram.copy()
    expected[9 : 9 + 54] = padded.reshape(54, *tile.shape[2:])
    run(target, f"load_{name}", {name: sram, f"dram_{name}": dram}, sram_base=9, dram_base=7,
        y_size=3, x_size=5, x_stride=20, y_pad_0=2, y_pad_1=1, x_pad_0=1, x_pad_1=3)  # fmt: skip
    np.testing.assert_array_equal(sram, expected)


@pytest.mark.parametrize("rows", [0, 1])
def test_micro_operations_are_loaded_in_one_row(
    machine: tuple[Config, Accelerator], rows: int
) -> None:
    """No row is nothing."""
    _, target = machine
    sram, dram = memory(target, "uop", 0), memory(target, "dram_uop", 50, 1)
    expected = sram.copy()
    expected[3 : 3 + 10 * rows] = dram[30 : 30 + 10 * rows]
    run(target, "load_uop", {"uop": sram, "dram_uop": dram}, sram_base=3, dram_base=30, x_size=10,
        y_size=rows)  # fmt: skip
    np.testing.assert_array_equal(sram, expected)


def test_store(machine: tuple[Config, Accelerator]) -> None:
    _, target = machine
    sram, dram = memory(target, "out", 0), memory(target, "dram_out", 100, 1)
    expected = dram.copy()
    for y in range(4):
        expected[11 + 20 * y : 16 + 20 * y] = sram[2 + 5 * y : 7 + 5 * y]
    run(target, "store", {"out": sram, "dram_out": dram}, sram_base=2, dram_base=11,
        y_size=4, x_size=5, x_stride=20)  # fmt: skip
    np.testing.assert_array_equal(dram, expected)


NEST = {"uop_bgn": 2, "uop_end": 5, "iter_out": 2, "iter_in": 3, "dst_factor_out": 9,
        "dst_factor_in": 3, "src_factor_out": 1, "src_factor_in": 5, "wgt_factor_out": 2,
        "wgt_factor_in": 1}  # fmt: skip


def kernel_of_micro_ops(config: Config, uop: Array) -> list[dict[str, int]]:
    """Those that ``NEST`` steps through, some of them in one place."""
    places = [{"dst": 0, "src": 4, "wgt": 1}, {"dst": 1, "src": 20, "wgt": 0},
              {"dst": 1, "src": 31, "wgt": 3}]  # fmt: skip
    for number, values in enumerate(places):
        uop[2 + number] = int.from_bytes(micro_op(config).encode(values), "little")
    return places


def turns(config: Config, uop: Array) -> list[tuple[int, int, int]]:
    """(dst, src, wgt) of every micro-operation in every turn."""
    return [
        (op["dst"] + 9 * y + 3 * x, op["src"] + y + 5 * x, op["wgt"] + 2 * y + x)
        for y in range(2) for x in range(3) for op in kernel_of_micro_ops(config, uop)
    ]  # fmt: skip


def low_bits(values: Array) -> Array:
    return values.astype(np.int8)


def test_gemm(machine: tuple[Config, Accelerator]) -> None:
    config, target = machine
    arrays = {name: memory(target, name, 0) for name in ("acc", "out", "inp", "wgt", "uop")}
    acc, out = arrays["acc"].copy(), arrays["out"].copy()
    for d, s, w in turns(config, arrays["uop"]):
        products = arrays["inp"][s].astype(np.int32) @ arrays["wgt"][w].astype(np.int32).T
        acc[d] += products  # wraps
        out[d] = low_bits(acc[d])
    run(target, "gemm", arrays, **NEST)
    np.testing.assert_array_equal(arrays["acc"], acc)
    np.testing.assert_array_equal(arrays["out"], out)


def test_reset_leaves_what_is_stored(machine: tuple[Config, Accelerator]) -> None:
    config, target = machine
    arrays = {name: memory(target, name, 0) for name in ("acc", "uop")}
    acc = arrays["acc"].copy()
    for d, _, _ in turns(config, arrays["uop"]):
        acc[d] = 0
    run(target, "reset", arrays, **NEST)
    np.testing.assert_array_equal(arrays["acc"], acc)


def shifted(value: Array, by: Array) -> Array:
    return np.where(by >= 0, value >> np.maximum(by, 0), value << np.maximum(-by, 0))


ORACLES = {"min": np.minimum, "max": np.maximum, "add": np.add, "shr": shifted}


@pytest.mark.long
@pytest.mark.parametrize("imm", [None, -32768, -7, 0, 15, 32767])
@pytest.mark.parametrize("name", ORACLES)
def test_arithmetic(machine: tuple[Config, Accelerator], name: str, imm: int | None) -> None:
    config, target = machine
    if name == "shr" and imm is not None and abs(imm) > 15:
        pytest.skip("the hardware's sources disagree")
    arrays = {each: memory(target, each, 0) for each in ("acc", "out", "uop")}
    if name == "shr":
        arrays["acc"] %= 16  # shifts of tensors are shifts by no more than that
    acc, out = arrays["acc"].copy(), arrays["out"].copy()
    with np.errstate(over="ignore"):
        for d, s, _ in turns(config, arrays["uop"]):
            other = acc[s] if imm is None else np.int32(imm)
            acc[d] = ORACLES[name](acc[d], other)
            out[d] = low_bits(acc[d])
    fields = NEST if imm is None else {**NEST, "imm": imm}
    run(target, name if imm is None else f"{name}_imm", arrays, **fields)
    np.testing.assert_array_equal(arrays["acc"], acc)
    np.testing.assert_array_equal(arrays["out"], out)
