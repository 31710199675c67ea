"""Cycles by hand, from the written rules."""

from __future__ import annotations

import pytest

from tests.accel.clock_oracle import clocked
from tests.accel.convolutions import convolution
from tests.accel.random_streams import random_artifact
from weft.accel.machines.vta import DEPTH, Config, vta
from weft.accel.timing import Span, timing
from weft.ir.errors import StreamError
from weft.ir.instruction_stream import Issue, Stream, decode
from weft.offload.offload import Target, offload

VTA = vta()


def stream(*issues: tuple[str, dict[str, int]]) -> Stream:
    """The stream of these instructions, with all fields, as it comes back from its bytes."""
    given = Stream(VTA, tuple(Issue(name, fields) for name, fields in issues))
    return decode(VTA, given.encode())


def cycles(*issues: tuple[str, dict[str, int]]) -> int:
    return timing(stream(*issues)).cycles


ROW = {"x_size": 64, "y_size": 1}


@pytest.mark.parametrize(
    ("issue", "expected"),
    [
        (("load_inp", ROW), 16 + 128),
        (("load_inp", {"x_size": 5, "y_size": 3, "x_pad_0": 1, "y_pad_1": 2}), 16 + 30 + 15),
        (("load_wgt", {"x_size": 3, "y_size": 2}), 16 + 192),
        (("load_acc", {"x_size": 3, "y_size": 2}), 16 + 48),
        (("load_uop", {"x_size": 5, "y_size": 9}), 16 + 3),
        (("load_inp", {"x_size": 0, "y_size": 1}), 1),
        (("gemm", {"iter_out": 14, "iter_in": 14, "uop_end": 9}), 1764 + 8),
        (("reset", {"iter_out": 14, "iter_in": 14, "uop_bgn": 2, "uop_end": 3}), 196 + 8),
        (("add", {"iter_out": 14, "iter_in": 14, "uop_end": 1}), 392 + 8),
        (("shr_imm", {"iter_out": 14, "iter_in": 14, "uop_end": 1, "imm": 3}), 196 + 8),
        (("store", {"x_size": 196, "y_size": 1}), 16 + 588),
        (("finish", {}), 1),
    ],
)
def test_one_instruction(issue: tuple[str, dict[str, int]], expected: int) -> None:
    assert cycles(issue) == expected


GEMM = {"iter_out": 10, "iter_in": 10, "uop_end": 1}


def test_queues_run_at_the_same_time() -> None:
    found = timing(stream(("load_inp", ROW), ("gemm", GEMM), ("store", ROW)))
    assert found.spans == (Span(0, 144), Span(1, 109), Span(2, 2 + 16 + 192))


def test_tokens_are_waited_for() -> None:
    found = timing(stream(
        ("load_inp", ROW | {"push_next": 1}),
        ("gemm", GEMM | {"pop_prev": 1, "push_prev": 1, "push_next": 1}),
        ("store", ROW | {"pop_prev": 1, "push_prev": 1}),
        ("load_inp", ROW | {"pop_next": 1}),
        ("finish", {"pop_next": 1}),
    ))  # fmt: skip
    assert found.spans == (
        Span(0, 144), Span(144, 252), Span(252, 460), Span(252, 396), Span(460, 461),
    )  # fmt: skip


def test_computation_reads_first() -> None:
    """8 beats of accumulators go between two of the load's, whose channel hides their latency."""
    found = timing(stream(
        ("load_inp", ROW), ("gemm", {"iter_out": 12, "iter_in": 1, "uop_end": 1}),
        ("load_acc", {"x_size": 1, "y_size": 1}),
    ))  # fmt: skip
    assert found.spans == (Span(0, 152), Span(1, 21), Span(21, 29))


def test_a_load_while_computation_reads_waits_and_has_no_latency() -> None:
    acc = {"x_size": 8, "y_size": 1}
    found = timing(stream(("load_acc", acc | {"push_prev": 1}), ("load_inp", ROW)))
    assert found.spans == (Span(0, 80), Span(1, 80 + 128))


def test_a_full_queue_holds_up_all_others() -> None:
    slow = ("gemm", {"iter_out": 100, "iter_in": 100, "uop_end": 1})
    found = timing(stream(*[slow] * (DEPTH + 2), ("store", ROW)))
    # The last of them has room once the second has begun; then it comes, and then the store.
    assert found.spans[-1].begin == 10_008 + 2


@pytest.mark.parametrize("seed", range(24))
def test_random_streams_clock_by_clock(seed: int) -> None:
    """With all tokens, and with some of them: then queues meet in other ways."""
    kept = 0.5 if seed % 3 else 1.0
    made = random_artifact(Config(), seed, 40, kept).stream
    assert [(s.begin, s.end) for s in timing(made).spans] == clocked(made.encode())


@pytest.mark.parametrize("shape", [(64, 14, 32, 3, 1, 1), (32, 15, 64, 1, 2, 0)])
def test_a_convolution_clock_by_clock(shape: tuple[int, int, int, int, int, int]) -> None:
    made = offload(convolution(*shape), Target.of(VTA), {}).artifact.stream
    assert [(s.begin, s.end) for s in timing(made).spans] == clocked(made.encode())


def test_what_waits_for_ever() -> None:
    with pytest.raises(StreamError, match="WEFT-E1005: the stream never ends") as caught:
        cycles(("gemm", GEMM | {"pop_prev": 1}), ("load_inp", ROW | {"pop_next": 1}))
    assert "instruction 0 (gemm) waits for a token from load to compute" in str(caught.value)
    assert "instruction 1 (load_inp) waits for a token from compute to load" in str(caught.value)


def test_queues_that_fill_up_for_ever() -> None:
    """What would be waited for comes behind more than the queue holds."""
    waits = ("gemm", GEMM | {"pop_prev": 1})
    with pytest.raises(StreamError, match=r"WEFT-E1005.*\n.*instruction 512 waits for room"):
        cycles(*[waits] * (DEPTH + 1), ("load_inp", ROW | {"push_next": 1}))


def test_more_tokens_than_are_counted() -> None:
    with pytest.raises(StreamError, match="WEFT-E1005: more than 255 tokens from load to compute"):
        cycles(*[("load_inp", {"push_next": 1})] * 256)


def test_the_same_for_other_configurations() -> None:
    other = vta(Config(log_batch=1, log_block=5))
    row = Stream(other, (Issue("load_inp", ROW),))
    assert timing(row).cycles == 16 + 64 * 64 // 8


@pytest.mark.parametrize(("data", "message"), [
    (bytes(15), "WEFT-E1004: 15 bytes are no whole number"),
    (bytes([7] + [0] * 15), "WEFT-E1003: no instruction.*\n.*instruction 0, byte 0"),
])  # fmt: skip
def test_bytes_that_are_no_stream(data: bytes, message: str) -> None:
    with pytest.raises(StreamError, match=message):
        decode(VTA, data)
