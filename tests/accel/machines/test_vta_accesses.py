"""What instructions touch, against what they are seen to change and to depend on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from weft.accel.machines.vta import Config, micro_op, vta
from weft.accel.memory_accesses import memory_accesses
from weft.offload.accelerators import kernel_of

CONFIG = Config(log_batch=1, log_block=3, log_wgt_buff_size=14)
VTA = vta(CONFIG)
Array = np.ndarray[Any, Any]


def found(name: str, contents: Mapping[str, Array], **fields: int) -> dict[tuple[str, bool], Array]:
    """(argument, whether written) -> all addresses, each once."""
    scop = kernel_of(VTA, VTA.operation(name)).scop
    every = {each.name: 0 for each in VTA.operation(name).encoding.fields}
    parts: dict[tuple[str, bool], list[Array]] = {}
    for touch in memory_accesses(scop, {**every, **fields}, contents):
        parts.setdefault((touch.tensor, touch.writes), []).append(touch.addresses)
    return {key: np.unique(np.concatenate(each)) for key, each in parts.items()}


def same(one: Mapping[tuple[str, bool], Array], other: Mapping[tuple[str, bool], Any]) -> None:
    assert one.keys() == other.keys()
    for key, addresses in one.items():
        assert addresses.tolist() == sorted(other[key]), key


def test_a_padded_load() -> None:
    fields = {"sram_base": 9, "dram_base": 7, "y_size": 3, "x_size": 5, "x_stride": 20,
              "y_pad_0": 2, "y_pad_1": 1, "x_pad_0": 1, "x_pad_1": 3}  # fmt: skip
    rows = [7 + 20 * y + x for y in range(3) for x in range(5)]
    same(found("load_inp", {}, **fields), {("dram", False): rows, ("sram", True): range(9, 63)})


def test_nothing_is_touched_by_what_does_nothing() -> None:
    for name in ("load_inp", "load_uop", "store"):
        assert all(not each.size for each in found(name, {}).values())
    for name in ("gemm", "reset", "add", "max_imm"):
        assert all(not a.size for a in found(name, {"uop": np.zeros(4, np.uint32)}).values())


@pytest.mark.parametrize("name", ["gemm", "reset", "add", "shr_imm"])
def test_micro_operations_are_looked_up(name: str) -> None:
    ops = [{"dst": 3, "src": 40, "wgt": 5}, {"dst": 9, "src": 2, "wgt": 0}]
    words = [int.from_bytes(micro_op(CONFIG).encode(op), "little") for op in ops]
    contents = {"uop": np.array([0, *words, 0], np.uint32)}
    factors = {"dst_factor_out": 30, "dst_factor_in": 1, "src_factor_out": 7, "src_factor_in": 11,
               "wgt_factor_out": 2, "wgt_factor_in": 9}  # fmt: skip
    fields = {"uop_bgn": 1, "uop_end": 3, "iter_out": 2, "iter_in": 3}
    if name in ("reset", "shr_imm"):
        factors = {n: f for n, f in factors.items() if n.startswith("dst")}
    if name == "add":
        factors = {n: f for n, f in factors.items() if not n.startswith("wgt")}

    def at(operand: str) -> set[int]:
        out, inner = factors[f"{operand}_factor_out"], factors[f"{operand}_factor_in"]
        return {op[operand] + out * y + inner * x for op in ops for y in range(2) for x in range(3)}

    expected: dict[tuple[str, bool], Any] = {("uop", False): {1, 2}, ("acc", True): at("dst")}
    if name != "reset":
        expected |= {("acc", False): at("dst"), ("out", True): at("dst")}
    if name == "add":
        expected["acc", False] = at("dst") | at("src")
    if name == "gemm":
        expected |= {("inp", False): at("src"), ("wgt", False): at("wgt")}
    same(found(name, contents, **fields, **factors), expected)
