"""Queues run in their order, after the tokens they wait for, in whichever order they are served."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.accel.random_streams import pipelined, random_artifact, without
from weft.accel.execution_order import ORDERS, Order, execution_order, tokens_of
from weft.accel.machines.vta import Config, vta
from weft.accel.timing import timing
from weft.ir.accelerator import Queue
from weft.ir.errors import StreamError
from weft.ir.instruction_stream import Issue, Stream

SMALL = Config(log_batch=1, log_block=3, log_wgt_buff_size=14)
EVERY: tuple[Order, ...] = (*ORDERS, 1, 2)


def allowed(stream: Stream, order: list[int]) -> bool:
    """Each queue in its order, and no token taken before it is given."""
    tokens = tokens_of(stream)
    held = [0] * len(stream.accelerator.wires)
    last = [-1] * len(stream.accelerator.queues)
    for number in order:
        for wire in tokens.pops[number]:
            held[wire] -= 1
        if min(held) < 0 or number < last[tokens.queue[number]]:
            return False
        last[tokens.queue[number]] = number
        for wire in tokens.pushes[number]:
            held[wire] += 1
    return sorted(order) == list(range(len(stream.issues)))


def test_all_orders_are_allowed_and_differ() -> None:
    stream = pipelined(SMALL, 5, rows=3).stream
    orders = [list(execution_order(stream, order)) for order in EVERY]
    assert all(allowed(stream, order) for order in orders)
    assert len({tuple(order) for order in orders}) >= 4
    assert list(execution_order(stream, 7)) == list(execution_order(stream, 7))


def test_one_queue_after_the_other() -> None:
    issues = (Issue("load_inp", {}), Issue("store", {}), Issue("gemm", {}), Issue("load_wgt", {}))
    stream = Stream(vta(), issues)
    assert list(execution_order(stream, "first")) == [0, 3, 2, 1]
    assert list(execution_order(stream, "last")) == [1, 2, 0, 3]
    assert list(execution_order(stream, "turns")) == [2, 1, 0, 3]


def test_a_full_queue_holds_up_all_others() -> None:
    machine = replace(vta(), queues=tuple(Queue(q.name, 2) for q in vta().queues))
    store = Issue("store", {})
    stream = Stream(machine, (*[Issue("gemm", {})] * 4, store))
    assert list(execution_order(stream, "last")) == [0, 1, 4, 2, 3]


def test_what_never_ends_in_one_order_does_in_none() -> None:
    """As time would have it, too."""
    ends = 0
    for seed in range(40):
        artifact = random_artifact(SMALL, seed, 6, 0.8)
        flags = [
            n for n, issue in enumerate(artifact.stream.issues) if issue.fields.get("push_next")
        ]
        stream = without(artifact, flags[seed % len(flags)], "push_next").stream
        results = [_ends(stream, order) for order in (*EVERY, None)]
        assert len(set(results)) == 1
        ends += results[0]
    assert ends == 0  # each token is waited for


def _ends(stream: Stream, order: Order | None) -> bool:
    try:
        if order is None:
            timing(stream)
        else:
            list(execution_order(stream, order))
    except StreamError as error:
        assert error.code == "WEFT-E1005"
        return False
    return True


def test_what_waits_for_ever_is_named() -> None:
    stream = Stream(vta(), (Issue("gemm", {"pop_prev": 1}), Issue("store", {"pop_prev": 1})))
    with pytest.raises(StreamError) as caught:
        list(execution_order(stream))
    assert "instruction 0 (gemm) waits for a token from load to compute" in str(caught.value)
    assert "instruction 1 (store) waits for a token from compute to store" in str(caught.value)


def test_more_than_a_queue_holds_before_what_it_waits_for() -> None:
    push = Issue("load_inp", {"push_next": 1})
    waits = [Issue("gemm", {"pop_prev": 1}), *[Issue("gemm", {})] * 511]
    assert len(list(execution_order(Stream(vta(), (*waits, push))))) == 513
    with pytest.raises(StreamError, match="instruction 512 waits for room"):
        list(execution_order(Stream(vta(), (*waits, Issue("gemm", {}), push))))


def test_more_tokens_than_are_counted() -> None:
    stream = Stream(vta(), (Issue("load_inp", {"push_next": 1}),) * 256)
    with pytest.raises(StreamError, match="WEFT-E1005: more than 255 tokens from load to compute"):
        list(execution_order(stream))
