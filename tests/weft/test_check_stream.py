"""Streams that might do what they should not are refused, by the instruction and the address."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests.accel.random_streams import flags_of, pipelined, random_artifact, without
from weft.accel.artifact import Artifact, Layout, Placed
from weft.accel.machines.vta import Config, vta
from weft.ir.dtypes import i8
from weft.ir.errors import StreamError
from weft.ir.instruction_stream import Issue, Stream
from weft.offload.accelerators import Semantics
from weft.offload.simulator import check_stream, simulate

VTA = vta()
SMALL = Config(log_batch=1, log_block=3, log_wgt_buff_size=14)
Given = tuple[str, dict[str, int]]


@cache
def semantics(config: Config) -> Semantics:
    return Semantics(vta(config))


def artifact(*issues: Given, size: int = 1 << 14, tensors: tuple[Placed, ...] = ()) -> Artifact:
    """These instructions, over micro-operations dst = src = wgt = 0, and FINISH."""
    found = [Issue(name, fields) for name, fields in issues]
    if not found or found[-1].operation != "finish":
        found.append(Issue("finish", {}))
    return Artifact(Stream(VTA, tuple(found)), np.zeros(size, np.uint8), tensors)


def refused(given: Artifact, message: str) -> None:
    with pytest.raises(StreamError, match=message):
        check_stream(given, semantics(Config()))


UOP: Given = ("load_uop", {"x_size": 4, "y_size": 1})
INP: Given = ("load_inp", {"x_size": 8, "y_size": 1})
WGT: Given = ("load_wgt", {"x_size": 8, "y_size": 1})
ACC: Given = ("load_acc", {"x_size": 8, "y_size": 1})
TURNS = {"uop_end": 1, "iter_out": 1, "iter_in": 8, "dst_factor_in": 1, "src_factor_in": 1}
GEMM: Given = ("gemm", TURNS)
ADD: Given = ("add_imm", TURNS)
STORE: Given = ("store", {"x_size": 8, "y_size": 1, "dram_base": 500})


def given(issue: Given, **fields: int) -> Given:
    return issue[0], {**issue[1], **fields}


def test_what_is_right() -> None:
    check_stream(
        artifact(
            UOP, INP, given(WGT, push_next=1), ACC, given(GEMM, pop_prev=1, push_next=1),
            given(STORE, pop_prev=1, push_prev=1), ("finish", {"pop_next": 1}),
        ),
        semantics(Config()),
    )  # fmt: skip


def test_a_read_before_its_write() -> None:
    refused(
        artifact(UOP, INP, WGT, ACC, GEMM),
        r"WEFT-E1041: instruction 4 \(gemm\): reads inp\[0\], which instruction 1 \(load_inp\)"
        r" writes\n.*no tokens lead from load to compute",
    )


def test_a_write_before_a_read_has_ended() -> None:
    again = given(INP, sram_base=4)
    refused(
        artifact(UOP, INP, given(WGT, push_next=1), ACC, given(GEMM, pop_prev=1), again),
        r"WEFT-E1041: instruction \d \(.*\): (reads|writes) inp\[\d\], which instruction \d",
    )
    check_stream(
        artifact(
            UOP, INP, given(WGT, push_next=1), ACC, given(GEMM, pop_prev=1, push_prev=1),
            given(again, pop_next=1),
        ),
        semantics(Config()),
    )  # fmt: skip


def test_main_memory_too() -> None:
    """What is stored is loaded again: through two views of the same bytes."""
    first = (UOP, ACC, given(ADD, push_next=1))
    store = given(STORE, pop_prev=1)
    refused(
        artifact(*first, store, given(INP, dram_base=493)),
        r"WEFT-E1041: instruction 3 \(store\): writes dram_out\[500\], which instruction 4"
        r" \(load_inp\) reads",
    )
    stored = given(store, push_prev=1), given(INP, dram_base=492), ("finish", {"pop_next": 1})
    check_stream(artifact(*first, *stored), semantics(Config()))
    again = given(ACC, dram_base=125, pop_next=1)
    check_stream(artifact(*first, given(store, push_prev=1), again), semantics(Config()))


def test_the_end_waits_for_what_is_stored() -> None:
    """The host reads results as soon as FINISH has run."""
    issues = UOP, ACC, given(ADD, push_next=1), given(STORE, pop_prev=1)
    refused(
        artifact(*issues),
        r"WEFT-E1041: instruction 4 \(finish\): says that all is over, and instruction 3"
        r" \(store\) may still write to main memory\n.*no tokens lead from store to compute",
    )
    check_stream(
        artifact(*issues[:3], given(STORE, pop_prev=1, push_prev=1), ("finish", {"pop_next": 1})),
        semantics(Config()),
    )


def test_what_is_stored_may_lie_with_the_accumulators() -> None:
    """Some implementations have no memory of its own for it."""
    first = (UOP, ACC, given(ADD, push_next=1))
    refused(
        artifact(*first, given(STORE, pop_prev=1), given(ACC, dram_base=9, x_size=1)),
        r"WEFT-E10(41|45): instruction \d \((store|load_acc)\)",
    )


def test_a_token_that_says_something_else() -> None:
    """It was given before the write."""
    refused(
        artifact(UOP, given(INP, push_next=1), WGT, ACC, given(GEMM, pop_prev=1)),
        r"WEFT-E1041: instruction 4 \(gemm\): reads wgt\[0\], which instruction 2 \(load_wgt\)",
    )


def test_what_was_never_written() -> None:
    some = (UOP, INP, given(WGT, push_next=1))
    refused(
        artifact(*some, given(ACC, x_size=7), given(GEMM, pop_prev=1)),
        r"WEFT-E1044: instruction 4 \(gemm\): reads acc\[7\], which nothing has written",
    )
    refused(artifact(ADD), r"WEFT-E1044: instruction 0 \(add_imm\): reads uop\[0\]")


def test_tokens_that_are_left_over() -> None:
    refused(
        artifact(given(INP, push_next=1), given(INP, push_next=1), ("finish", {"pop_prev": 1})),
        r"WEFT-E1042: 1 tokens from load to compute are left over\n"
        r".*the one that instruction 1 \(load_inp\) gives",
    )


def test_what_never_ends() -> None:
    refused(artifact(("finish", {"pop_next": 1})), "WEFT-E1005: the stream never ends")
    many = [given(UOP, pop_prev=1), *[UOP] * 511, ("load_inp", {"push_next": 1})]
    check_stream(artifact(*many), semantics(Config()))
    refused(
        artifact(many[0], *many[1:-1], UOP, many[-1]),
        r"WEFT-E1005: .*\n.*instruction 512 waits for room",
    )


def test_more_tokens_than_are_counted() -> None:
    """If computation is slow, whoever gives tokens runs ahead."""
    nop = ("load_inp", {"push_next": 1})

    def many(count: int) -> Artifact:
        pairs = [each for _ in range(count) for each in (nop, ("load_uop", {"pop_prev": 1}))]
        return artifact(*pairs)

    check_stream(many(255), semantics(Config()))
    refused(many(256), "WEFT-E1043: instruction 510 gives token 256 from load to compute")


def test_what_leaves_its_memory() -> None:
    refused(
        artifact(given(INP, sram_base=2041)),
        r"WEFT-E1040: instruction 0 \(load_inp\): writes inp\[2041\] to inp\[2048\]\n.*2,048 elem",
    )
    refused(artifact(given(INP, dram_base=1017)), r"reads dram_inp\[1017\] to dram_inp\[1024\]")


def test_addresses_that_inputs_decide() -> None:
    x = Placed("x", "input", i8, Layout((3,)), 14)
    refused(artifact(UOP, tensors=(x,)), r"WEFT-E1046: instruction 0 \(load_uop\): uop is loaded")
    check_stream(artifact(given(UOP, dram_base=5), tensors=(x,)), semantics(Config()))
    stored = (UOP, ACC, given(ADD, push_next=1), given(STORE, pop_prev=1, push_prev=1))
    again = given(UOP, dram_base=2000, pop_next=1)
    refused(artifact(*stored, again), r"WEFT-E1046: instruction 4 \(load_uop\)")


RULES = [
    ((UOP,), ("load_uop", {}), "the stream does not end with FINISH"),
    ((("finish", {}),), ("finish", {}), "FINISH is not the last"),
    ((UOP, ACC, ADD, ACC, given(ADD, uop_end=0, push_next=1)), given(STORE, pop_prev=1),
     r"instruction 5 \(store\): stores element 0, which LOAD"),
    ((UOP, ACC, given(ADD, imm=16)), ("shr_imm", {**TURNS, "imm": -16}), "shifts by -16"),
    ((UOP, ACC), ("shr", TURNS), "shifts by what is in memory"),
    ((UOP, ACC), given(ADD, src_factor_in=2), "dst_factor_in is 1, src_factor_in 2"),
    ((UOP, ACC), given(ADD, src_factor_out=2), "dst_factor_out is 0, src_factor_out 2"),
    ((UOP, ACC), ("add_imm", {"uop_end": 1, "iter_out": 2, "iter_in": 1}), "one 1 before it"),
    ((UOP, ACC), ("max", {"uop_end": 2, "iter_out": 3, "iter_in": 1, "dst_factor_out": 1}),
     "one 1 before it wrote"),
    ((), ("load_wgt", {"x_size": 1, "y_size": 1, "y_pad_1": 1}), "y_pad_1 = 1: inputs and"),
    ((), ("load_inp", {"y_size": 1, "x_pad_0": 1}), "x_size is 0"),
    ((UOP, ACC, given(ADD, push_next=1)), given(STORE, pop_prev=1, x_pad_1=2), "x_pad_1 = 2"),
    ((), given(UOP, y_size=0), "y_size is 0, and micro-operations are loaded as one row"),
    ((), given(UOP, y_size=2), "y_size is 2, and micro-operations are loaded as one row"),
    ((), given(ACC, y_size=0, y_pad_0=3, dram_base=1 << 30), "y_size is 0, and some"),
    ((), given(INP, y_size=0), "y_size is 0, and some"),
    ((UOP, ACC, given(ADD, push_next=1)), given(STORE, y_size=0, pop_prev=1), "y_size is 0"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "issue", "message"), RULES)
def test_the_common_subset(before: tuple[Given, ...], issue: Given, message: str) -> None:
    made = artifact(*before, issue)
    if "end with" in message:
        made = replace(made, stream=replace(made.stream, issues=made.stream.issues[:-1]))
    refused(made, f"WEFT-E1045: .*{message}")


@pytest.mark.parametrize(("issue", "flag"), [
    (INP, "push_prev"), (INP, "pop_prev"), (WGT, "pop_prev"), (STORE, "pop_next"),
    (STORE, "push_next"), (("load_wgt", {}), "push_prev"),
])  # fmt: skip
def test_flags_that_have_no_wire(issue: Given, flag: str) -> None:
    """Wherever they stand: who looks at the queue behind them finds none."""
    before = (UOP, ACC, given(ADD, push_next=1)) if issue is STORE else ()
    fields = {"pop_prev": 1} if issue is STORE else {}
    refused(
        artifact(*before, given(issue, **fields, **{flag: 1})),
        rf"WEFT-E1045: instruction {len(before)} \({issue[0]}\): {flag} is set, and no wire",
    )


def test_a_source_apart_from_the_result() -> None:
    made = artifact(UOP, ACC, ADD)
    made.image[1] = 8  # src 1
    refused(made, r"WEFT-E1045: instruction 2 \(add_imm\): micro-operation 0 has src and dst apart")


def test_every_token_is_needed() -> None:
    """Without any one of them, the stream is refused, or never ends."""
    for made in (pipelined(SMALL, 4, rows=3), random_artifact(SMALL, 0, 6, 1.0)):
        check_stream(made, semantics(SMALL))
        for number, flag in flags_of(made):
            broken = without(made, number, flag)
            with pytest.raises(StreamError):
                check_stream(broken, semantics(SMALL))


def test_every_pair_of_tokens_is_needed_or_changes_nothing() -> None:
    """Both ends of a token gone: refused, or the same in all orders."""
    made = pipelined(SMALL, 3, rows=3)
    expected = simulate(made.stream, made.image, semantics=semantics(SMALL))
    refusals = 0
    pops = [(n, f) for n, f in flags_of(made) if f.startswith("pop")]
    for number, flag in pops:
        wire = made.stream.pops(Issue(made.stream.issues[number].operation, {flag: 1}))[0]
        given = [n for n, i in enumerate(made.stream.issues) if wire in made.stream.pushes(i)]
        taken = [n for n, i in enumerate(made.stream.issues) if wire in made.stream.pops(i)]
        broken = without(without(made, number, flag), given[taken.index(number)], wire.push)
        try:
            check_stream(broken, semantics(SMALL))
        except StreamError as error:
            assert error.code == "WEFT-E1041"
            refusals += 1
        else:
            for order in ("first", "last", "turns", 1):
                found = simulate(broken.stream, made.image, order=order, semantics=semantics(SMALL))
                np.testing.assert_array_equal(found, expected)
    assert refusals >= len(pops) - 2  # what FINISH waits for is ordered by nothing else
