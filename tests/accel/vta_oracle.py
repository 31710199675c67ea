"""VTA in NumPy, slow and obvious, from the published text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.accel.machines.vta import Config, micro_op
from weft.ir.instruction_stream import Issue

Array = np.ndarray[Any, Any]


def interpret(config: Config, issues: Sequence[Issue], image: Array) -> Array:
    """Main memory after ``issues``, in program order. What was never written is 0."""
    batch, block = config.batch, config.block
    dram = image.copy()
    shapes = {"uop": (), "wgt": (block, block), "inp": (batch, block), "acc": (batch, block)}
    types = {"uop": np.uint32, "wgt": np.int8, "inp": np.int8, "acc": np.int32}
    held = {n: np.zeros((config.depth(n), *s), types[n]) for n, s in shapes.items()}
    out = np.zeros((config.depth("acc"), batch, block), np.int8)

    def view(name: str) -> Array:
        size = config.element_bytes(name)
        return dram[: len(dram) // size * size].view(types[name]).reshape(-1, *shapes[name])

    for issue in issues:
        f = dict.fromkeys(FIELDS, 0) | dict(issue.fields)
        kind = issue.operation
        if kind.startswith("load_"):
            name = kind.removeprefix("load_")
            if f["x_size"]:
                load(held[name], view(name), f, one_row=name == "uop")
        elif kind == "store":
            size = config.element_bytes("out")
            main = dram[: len(dram) // size * size].view(np.int8).reshape(-1, batch, block)
            for y in range(f["y_size"]):
                for x in range(f["x_size"]):
                    at = f["dram_base"] + y * f["x_stride"] + x
                    main[at] = out[f["sram_base"] + y * f["x_size"] + x]
        elif kind != "finish":
            for d, s, w in turns(config, held["uop"], f):
                compute(kind, held, out, d, s, w, f["imm"])
    return dram


FIELDS = (
    "sram_base", "dram_base", "y_size", "x_size", "x_stride", "y_pad_0", "y_pad_1", "x_pad_0",
    "x_pad_1", "uop_bgn", "uop_end", "iter_out", "iter_in", "dst_factor_out", "dst_factor_in",
    "src_factor_out", "src_factor_in", "wgt_factor_out", "wgt_factor_in", "imm",
)  # fmt: skip


def load(sram: Array, dram: Array, f: dict[str, int], *, one_row: bool) -> None:
    at = f["sram_base"]
    if one_row:
        sram[at : at + f["x_size"]] = dram[f["dram_base"] : f["dram_base"] + f["x_size"]]
        return
    width = f["x_pad_0"] + f["x_size"] + f["x_pad_1"]
    for y in range(-f["y_pad_0"], f["y_size"] + f["y_pad_1"]):
        row = np.zeros((width, *sram.shape[1:]), sram.dtype)
        if 0 <= y < f["y_size"]:
            first = f["dram_base"] + y * f["x_stride"]
            row[f["x_pad_0"] : f["x_pad_0"] + f["x_size"]] = dram[first : first + f["x_size"]]
        sram[at : at + width] = row
        at += width


def turns(config: Config, uop: Array, f: dict[str, int]) -> list[tuple[int, int, int]]:
    encoding = micro_op(config)
    found = []
    for y in range(f["iter_out"]):
        for x in range(f["iter_in"]):
            for word in uop[f["uop_bgn"] : f["uop_end"]]:
                op = encoding.decode(int(word).to_bytes(4, "little"))
                d, s, w = (
                    op[n] + y * f[f"{n}_factor_out"] + x * f[f"{n}_factor_in"]
                    for n in ("dst", "src", "wgt")
                )
                found.append((d, s, w))
    return found


def compute(
    kind: str, held: dict[str, Array], out: Array, d: int, s: int, w: int, imm: int
) -> None:
    acc = held["acc"]
    if kind == "reset":
        acc[d] = 0
        return
    if kind == "gemm":
        acc[d] += held["inp"][s].astype(np.int32) @ held["wgt"][w].astype(np.int32).T
    else:
        other = np.int32(imm) if kind.endswith("_imm") else acc[s]
        match kind.removesuffix("_imm"):
            case "min":
                acc[d] = np.minimum(acc[d], other)
            case "max":
                acc[d] = np.maximum(acc[d], other)
            case "add":
                acc[d] = acc[d] + other
            case "shr":
                acc[d] = np.where(other >= 0, acc[d] >> np.maximum(other, 0),
                                  acc[d] << np.maximum(-other, 0))  # fmt: skip
    out[d] = acc[d].astype(np.int8)
