"""The common subset of VTA's implementations: rules beyond their semantics.

Its hardware, in two languages, and its simulators differ in what is stored after a LOAD, in shifts,
in the source of an immediate, and in results that are updated again while in the pipeline. Streams
that follow these rules have one meaning. Queues and tokens are the checker's; MUL has no encoding
here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.ir.accelerator import Rule, Watch
from weft.ir.bit_fields import Encoding
from weft.ir.errors import StreamError

PIPELINE = 3  # micro-operations in flight: the next two do not see a result
MOST = 15  # greatest shift

MOVING = ("load_uop", "load_acc", "load_wgt", "load_inp", "store")
PADS = ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")


def rules(depth: int, micro_op: Encoding) -> tuple[Rule, ...]:
    """``depth``: of the accumulators."""
    return ends, stores_results(depth), shifts, immediates(micro_op), results_apart, transfers


def ends(issues: Sequence[Any]) -> Watch:
    """The stream ends with FINISH, and only there."""
    if not issues or issues[-1].operation != "finish":
        raise StreamError("WEFT-E1045", "the stream does not end with FINISH")

    def watch(number: int, _: Sequence[Any] | None, __: Mapping[str, Any]) -> str:
        early = issues[number].operation == "finish" and number < len(issues) - 1
        return "FINISH is not the last instruction" if early else ""

    return watch


def stores_results(depth: int) -> Rule:
    """STORE takes the last results of GEMM or ALU, not of LOAD or a resetting GEMM."""

    def rule(issues: Sequence[Any]) -> Watch:
        computed = np.zeros(depth, np.bool_)

        def watch(number: int, touched: Sequence[Any] | None, _: Mapping[str, Any]) -> str:
            if touched is None:
                computed[:] = True
                return ""
            writes = {each.memory for each in touched if each.writes}
            for each in touched:
                at = each.pattern.at(each.base)
                if each.memory == "acc" and each.writes:
                    computed[at] = "out" in writes
                elif each.memory == "out" and not each.writes and not computed[at].all():
                    first = np.arange(depth)[at][~computed[at]][0]
                    return (
                        f"stores element {first}, which LOAD or a GEMM that resets wrote last:"
                        " an ALU operation or a GEMM has to come between"
                    )
            return ""

        return watch

    return rule


def shifts(issues: Sequence[Any]) -> Watch:
    """By 15 at most; not by tensors, which may be negative."""

    def watch(number: int, _: Sequence[Any] | None, __: Mapping[str, Any]) -> str:
        issue = issues[number]
        if issue.operation == "shr_imm" and abs(issue.fields.get("imm", 0)) > MOST:
            return f"shifts by {issue.fields['imm']}, where {MOST} either way are possible"
        if issue.operation == "shr":
            return "shifts by what is in memory, which may be negative: shift by a number"
        return ""

    return watch


def immediates(micro_op: Encoding) -> Rule:
    """With an immediate, the source address equals the target's."""
    masks = {f.name: (1 << f.width) - 1 for f in micro_op.fields}

    def operand(words: Any, name: str) -> Any:
        return words >> micro_op.places[name] & masks[name]

    def rule(issues: Sequence[Any]) -> Watch:
        right: set[bytes] = set()  # micro-operations

        def watch(number: int, touched: Sequence[Any] | None, contents: Mapping[str, Any]) -> str:
            issue = issues[number]
            if not issue.operation.endswith("_imm") or touched == ():
                return ""
            get = issue.fields.get
            for loop in ("out", "in"):
                dst, src = get(f"dst_factor_{loop}", 0), get(f"src_factor_{loop}", 0)
                if dst != src:
                    return f"dst_factor_{loop} is {dst}, src_factor_{loop} {src}, with a number"
            if touched is None:
                return ""
            first = get("uop_bgn", 0)
            words = contents["uop"][first : get("uop_end", 0)]
            if words.tobytes() in right:
                return ""
            apart = operand(words, "dst") != operand(words, "src")
            if apart.any():
                return f"micro-operation {first + int(apart.argmax())} has src and dst apart"
            right.add(words.tobytes())
            return ""

        return watch

    return rule


def results_apart(issues: Sequence[Any]) -> Watch:
    """The target of a micro-operation differs from those of the two before it."""

    def watch(number: int, touched: Sequence[Any] | None, _: Mapping[str, Any]) -> str:
        found = touched or ()
        if not any(each.memory == "uop" and not each.writes for each in found):
            return ""
        for each in found:
            if each.memory == "acc" and each.writes and 0 < each.pattern.gap < PIPELINE:
                return (
                    f"a micro-operation writes what one {each.pattern.gap} before it wrote:"
                    f" {PIPELINE} are under way at once"
                )
        return ""

    return watch


def transfers(issues: Sequence[Any]) -> Watch:
    """Only inputs and accumulators are padded, and only around loaded rows. Transfers have rows, of
    micro-operations one: implementations differ in how they treat none or several."""

    def watch(number: int, _: Sequence[Any] | None, __: Mapping[str, Any]) -> str:
        issue = issues[number]
        padded = [name for name in PADS if issue.fields.get(name)]
        if padded and issue.operation not in ("load_inp", "load_acc"):
            return f"{padded[0]} = {issue.fields[padded[0]]}: inputs and accumulators are padded"
        if padded and not issue.fields.get("x_size"):
            return "x_size is 0, where nothing is done, and there is padding"
        rows = issue.fields.get("y_size", 0)
        if not issue.fields.get("x_size") or issue.operation not in MOVING:
            return ""
        if issue.operation == "load_uop" and rows != 1:
            return f"y_size is {rows}, and micro-operations are loaded as one row"
        return "" if rows else "y_size is 0, and some implementations never end: one row at least"

    return watch
