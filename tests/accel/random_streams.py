"""Random streams of VTA, on few elements, so that they meet; and long ones that make sense."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np

from weft.accel.artifact import Artifact
from weft.accel.machines.vta import Config, micro_op, vta
from weft.ir.instruction_stream import Issue, Stream

# By (queue that is waited for, queue that waits): the flags of one and of the other.
FLAGS = {
    ("load", "compute"): ("push_next", "pop_prev"),
    ("compute", "load"): ("push_prev", "pop_next"),
    ("compute", "store"): ("push_next", "pop_prev"),
    ("store", "compute"): ("push_prev", "pop_next"),
}
NOP = Issue("load_uop", {})
TOKENS = ("pop_prev", "pop_next", "push_prev", "push_next")


def random_artifact(config: Config, seed: int, length: int, kept: float) -> Artifact:
    """``length`` instructions; of the tokens that put one after the other, a share ``kept``."""
    pick = random.Random(seed)
    machine = vta(config)
    memory = np.random.default_rng(seed).integers(0, 256, 1 << 15, np.uint8)
    words = [micro_op(config).encode({"dst": k, "src": k, "wgt": k}) for k in range(4)]
    memory[:16] = np.frombuffer(b"".join(words), np.uint8)
    start = [
        Issue("load_uop", {"x_size": 4, "y_size": 1}),
        Issue("load_inp", {"x_size": 16, "y_size": 1, "dram_base": 7}),
        Issue("load_wgt", {"x_size": 8, "y_size": 1, "dram_base": 3}),
        Issue("load_acc", {"x_size": 16, "y_size": 1, "dram_base": 5}),
        alu("add_imm", 0, 16, 0),
    ]
    own = [issue for _ in range(length) for issue in random_issue(config, pick)]
    issues = serialised(machine, [*start, *own, Issue("finish", {})], pick, kept, len(start) + 2)
    return Artifact(Stream(machine, tuple(issues)), memory, ())


def alu(kind: str, first: int, count: int, imm: int) -> Issue:
    fields = {"uop_bgn": first % 4, "uop_end": first % 4 + 1, "iter_out": 1, "iter_in": count,
              "dst_factor_in": 1, "src_factor_in": 1, "imm": imm}  # fmt: skip
    return Issue(kind, fields)


def random_issue(config: Config, pick: random.Random) -> list[Issue]:
    at, size = pick.randint(0, 10), pick.randint(0, 5)
    main = pick.randint(40, 60)
    match pick.choice(("inp", "inp", "wgt", "acc", "gemm", "gemm", "reset", "alu", "add", "store")):
        case "inp":
            pads = (
                {n: pick.randint(0, 1) for n in ("x_pad_0", "x_pad_1", "y_pad_0")} if size else {}
            )
            size = min(size, 2)
            rows = {"y_size": pick.randint(1, 2), "x_stride": pick.randint(0, 3)}
            at = min(at, 6)
            pads = pads if size else {}
            return [
                Issue(
                    "load_inp", {"sram_base": at, "dram_base": main, "x_size": size} | rows | pads
                )
            ]
        case "wgt":
            return [Issue("load_wgt", {"sram_base": at % 5, "dram_base": main // 8,
                                       "x_size": size % 4, "y_size": 1})]  # fmt: skip
        case "acc":
            fields = {"sram_base": at % 4, "dram_base": main, "x_size": size + 1, "y_size": 1}
            return [
                Issue("load_acc", fields),
                alu("max_imm", at % 4, size + 1, pick.randint(-99, 99)),
            ]
        case "gemm":
            turns = {"uop_bgn": 1, "uop_end": pick.choice((1, 3, 4)), "iter_in": 2,
                     "iter_out": pick.randint(1, 2)}  # fmt: skip
            fields = turns | {"dst_factor_in": 4, "src_factor_in": 3, "src_factor_out": 5,
                              "wgt_factor_out": 2}  # fmt: skip
            return [Issue("gemm", fields)]
        case "reset":
            return [replace(alu("reset", at, size, 0), fields={
                n: v for n, v in alu("reset", at, size, 0).fields.items() if n != "imm"
            }), alu("add_imm", at, size, 3)]  # fmt: skip
        case "alu":
            kind = pick.choice(("min_imm", "max_imm", "add_imm", "shr_imm"))
            return [alu(kind, at, size, pick.randint(-15, 15))]
        case "add":
            fields = {**alu("add", at, size, 0).fields, "src_factor_in": 2}
            return [Issue(pick.choice(("add", "max")), fields)]
    width, to = 1 + size % 3, pick.choice((main, 1000 + main))
    fields = {"sram_base": at, "dram_base": to, "x_size": width, "y_size": 1 + size % 2}
    return [Issue("store", fields | {"x_stride": width + 1})]


def serialised(
    machine: Any, issues: list[Issue], pick: random.Random, kept: float, certain: int
) -> list[Issue]:
    """Each after the one before it, by a token where another queue runs it; the first ``certain``
    of them for sure, others by chance."""
    queue = lambda issue: machine.operation(issue.operation).queue  # noqa: E731
    found: list[Issue] = []
    for issue in issues:
        if found and {queue(found[-1]), queue(issue)} == {"load", "store"}:
            found.append(NOP)
        found.append(issue)
    fields = [dict(issue.fields) for issue in found]
    for number in range(1, len(found)):
        flags = FLAGS.get((queue(found[number - 1]), queue(found[number])))
        if flags and (number <= certain or pick.random() < kept):
            fields[number - 1][flags[0]] = 1
            fields[number][flags[1]] = 1
    return [Issue(i.operation, f) for i, f in zip(found, fields, strict=True)]


def without(artifact: Artifact, number: int, flag: str) -> Artifact:
    """``artifact`` whose instruction ``number`` has no such token."""
    issues = list(artifact.stream.issues)
    fields = {n: v for n, v in issues[number].fields.items() if n != flag}
    issues[number] = Issue(issues[number].operation, fields)
    return replace(artifact, stream=replace(artifact.stream, issues=tuple(issues)))


def flags_of(artifact: Artifact) -> list[tuple[int, str]]:
    """(instruction, flag) of every token that is given or taken."""
    issues = enumerate(artifact.stream.issues)
    return [(n, flag) for n, issue in issues for flag in TOKENS if issue.fields.get(flag)]


def pipelined(config: Config, tiles: int, rows: int = 14) -> Artifact:
    """``tiles`` convolutions 3x3 of ``rows`` x ``rows`` results, through two halves of each memory:
    one is loaded while the other is computed with."""
    width, half = rows + 2, {n: config.depth(n) // 2 for n in ("inp", "wgt", "acc")}
    words = [
        micro_op(config).encode({
            "dst": part * half["acc"] + y * rows + x,
            "src": part * half["inp"] + y * width + x,
            "wgt": part * half["wgt"],
        })
        for part in range(2) for y in range(rows) for x in range(rows)
    ]  # fmt: skip
    words += [
        micro_op(config).encode({"dst": p * half["acc"], "src": p * half["acc"]}) for p in (0, 1)
    ]
    image = np.random.default_rng(0).integers(0, 256, 1 << 20, np.uint8)
    image[: 4 * len(words)] = np.frombuffer(b"".join(words), np.uint8)
    found = [Issue("load_uop", {"x_size": len(words), "y_size": 1})]
    for tile in range(tiles):
        found += _tile(config, tile, tiles, rows, half)
    if tiles > 1:
        found.append(Issue("load_uop", {"pop_next": 1}))
    found.append(Issue("finish", {"pop_next": 1} if tiles else {}))
    return Artifact(Stream(vta(config), tuple(found)), image, ())


def _tile(config: Config, tile: int, tiles: int, rows: int, half: dict[str, int]) -> list[Issue]:
    part, width, count = tile % 2, rows + 2, rows * rows
    again = {"pop_next": int(tile >= 2)}
    nest = {"uop_bgn": part * count, "uop_end": (part + 1) * count}
    once = {"uop_bgn": 2 * count + part, "uop_end": 2 * count + part + 1, "iter_out": 1,
            "iter_in": count, "dst_factor_in": 1}  # fmt: skip
    own = once | {"src_factor_in": 1}
    size = config.element_bytes("inp")
    return [
        Issue("load_inp", {
            "sram_base": part * half["inp"], "dram_base": (1 << 12) // size * 4 + 7 * (tile % 99),
            "y_size": rows + 1, "x_size": rows, "x_stride": rows + tile % 3, "y_pad_0": 1,
            "x_pad_0": 1, "x_pad_1": 1, **again,
        }),
        Issue("load_wgt", {"sram_base": part * half["wgt"], "dram_base": 20 + tile % 50,
                           "y_size": 1, "x_size": 9, "push_next": 1}),
        Issue("reset", {**once, "pop_prev": 1, **again}),
        Issue("gemm", {
            **nest, "iter_out": 3, "iter_in": 3, "src_factor_out": width, "src_factor_in": 1,
            "wgt_factor_out": 3, "wgt_factor_in": 1, "push_prev": int(tile < tiles - 2),
        }),
        *(Issue(kind, {**own, "imm": imm}) for kind, imm in (
            ("add_imm", tile % 20), ("shr_imm", 4), ("max_imm", 0))),
        Issue("min_imm", {**own, "imm": 127, "push_next": 1}),
        Issue("store", {
            "sram_base": part * half["acc"], "dram_base": (1 << 19) // size + count * (tile % 90),
            "y_size": 1, "x_size": count, "x_stride": count, "pop_prev": 1, "push_prev": 1,
        }),
    ]  # fmt: skip
