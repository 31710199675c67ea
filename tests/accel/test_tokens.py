"""Tokens of random instructions: all that has to be in order is, and no token is one too many.

The order that a stream has is found by enumeration here: queues, and the k-th token given on a wire
before the k-th that is taken, closed transitively.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from weft.accel.execution_order import ORDERS, execution_order
from weft.accel.machines.vta import vta
from weft.accel.refusal import Refusal
from weft.accel.sequential_program import MAIN, Region, SequentialIssue
from weft.accel.tokens import BLOCK, with_tokens
from weft.ir.accelerator import Accelerator
from weft.ir.instruction_stream import Stream

VTA = vta()
BYTES = 64 * BLOCK


def random_drafts(pick: Random, count: int) -> list[SequentialIssue]:
    """Loads, computations and stores over few elements, so that they meet."""

    def part(memory: str, writes: bool, of: int = 8) -> Region:
        begin = pick.randrange(of)
        return Region(memory, begin, begin + pick.randint(1, 3), writes)

    def main(half: int, writes: bool) -> Region:
        begin = (half * 32 + pick.randrange(8)) * BLOCK
        return Region(MAIN, begin, begin + pick.choice((1, BLOCK, 3 * BLOCK)), writes)

    found = []
    for _ in range(count):
        match pick.choice(("load", "load", "gemm", "gemm", "alu", "acc", "store")):
            case "load":
                name = pick.choice(("inp", "wgt"))
                draft = SequentialIssue(f"load_{name}", {}, (part(name, True), main(0, False)))
            case "gemm":
                regions = part("inp", False), part("wgt", False), part("acc", True)
                draft = SequentialIssue("gemm", {}, (*regions, replace(regions[2], memory="out")))
            case "alu":
                own = part("acc", True)
                draft = SequentialIssue("add_imm", {}, (own, replace(own, memory="out")))
            case "acc":  # what was stored is loaded again at times
                draft = SequentialIssue(
                    "load_acc", {}, (part("acc", True), main(pick.choice((0, 0, 1)), False))
                )
            case _:
                draft = SequentialIssue("store", {}, (part("out", False), main(1, True)))
        found.append(draft)
    return found


def conflict(one: SequentialIssue, other: SequentialIssue) -> bool:
    def units(region: Region) -> range:
        if region.memory == MAIN:
            return range(region.begin // BLOCK, -(-region.end // BLOCK))
        return range(region.begin, region.end)

    def space(region: Region) -> str:
        return "acc" if region.memory == "out" else region.memory  # twins

    return any(
        (a.writes or b.writes) and space(a) == space(b) and set(units(a)) & set(units(b))
        for a in one.regions
        for b in other.regions
    )


def before(stream: Stream, left_out: tuple[str, int] | None = None) -> np.ndarray:
    """before[a, b]: a has ended when b begins. ``left_out``: a wire, and which of its tokens."""
    machine, count = stream.accelerator, len(stream.issues)
    queue = [machine.operation(issue.operation).queue for issue in stream.issues]
    found = np.zeros((count, count), bool)
    for name in {*queue}:
        members = [n for n in range(count) if queue[n] == name]
        found[members[:-1], members[1:]] = True
    for wire in machine.wires:
        gives = [n for n, i in enumerate(stream.issues) if wire in stream.pushes(i)]
        takes = [n for n, i in enumerate(stream.issues) if wire in stream.pops(i)]
        assert len(gives) == len(takes), "tokens are left over"
        for k, (give, take) in enumerate(zip(gives, takes, strict=True)):
            assert give < take, "a token is waited for before it is given"
            found[give, take] |= (wire.name, k) != left_out
    for middle in range(count):
        found |= found[:, middle : middle + 1] & found[middle : middle + 1]
    return found


def wanted(machine: Accelerator, drafts: Sequence[SequentialIssue]) -> list[tuple[int, int]]:
    """Pairs that have to be in order: of different queues; what is stored, before the end."""
    queue = [machine.operation(draft.operation).queue for draft in drafts]
    pairs = [
        (a, b)
        for b in range(len(drafts))
        for a in range(b)
        if queue[a] != queue[b] and conflict(drafts[a], drafts[b])
    ]
    ends = [
        n for n, d in enumerate(drafts) if any(r.memory == MAIN and r.writes for r in d.regions)
    ]
    return [*pairs, *((n, len(drafts)) for n in ends)]


def tokens(stream: Stream) -> list[tuple[str, int]]:
    wires = stream.accelerator.wires
    counts = {w.name: sum(w in stream.pops(i) for i in stream.issues) for w in wires}
    return [(name, k) for name, count in counts.items() for k in range(count)]


def test_all_that_is_needed_and_nothing_else() -> None:
    given = 0
    for seed in range(100):
        pick = Random(f"tokens {seed}")
        drafts = random_drafts(pick, pick.choice((0, 1, 2, 5, 12, 25)))
        stream = with_tokens(VTA, drafts, BYTES)
        assert [i.operation for i in stream.issues] == [*(d.operation for d in drafts), "finish"]
        pairs = wanted(VTA, drafts)
        order = before(stream)
        assert all(order[a, b] for a, b in pairs), f"seed {seed}"
        for token in tokens(stream):
            given += 1
            less = before(stream, token)
            assert not all(less[a, b] for a, b in pairs), f"seed {seed}: nobody needs {token}"
    assert given > 200


@pytest.mark.parametrize("most", (1, 2, 3))
def test_counters_that_hold_few(most: int) -> None:
    """Whatever queues do first, no counter holds more, and nothing waits for ever."""
    wires = tuple(replace(wire, most=most) for wire in VTA.wires)
    small, made = replace(VTA, wires=wires), 0
    for seed in range(25):
        drafts = random_drafts(Random(f"few {seed}"), 30)
        try:
            stream = with_tokens(small, drafts, BYTES)
        except Refusal as refusal:
            assert "counters of tokens" in str(refusal)
            continue
        made += 1
        order = before(stream)
        assert all(order[a, b] for a, b in wanted(small, drafts))
        for way in (*ORDERS, *range(4)):
            assert sorted(execution_order(stream, way)) == list(range(len(drafts) + 1))
    assert made > 10


@pytest.mark.parametrize("depth", (1, 2))
def test_short_queues(depth: int) -> None:
    small = replace(VTA, queues=tuple(replace(queue, depth=depth) for queue in VTA.queues))
    for seed in range(25):
        stream = with_tokens(small, random_drafts(Random(f"short {seed}"), 30), BYTES)
        for way in (*ORDERS, *range(4)):
            assert sorted(execution_order(stream, way)) == list(range(31))


def test_the_same_every_time() -> None:
    drafts = random_drafts(Random("same"), 40)
    assert with_tokens(VTA, drafts, BYTES) == with_tokens(VTA, list(drafts), BYTES)


def test_queues_that_cannot_wait_for_each_other() -> None:
    """A load of what was stored: no wire leads from the one queue to the other."""
    stored = SequentialIssue("store", {}, (Region("out", 0, 1, False), Region(MAIN, 0, 64, True)))
    loaded = SequentialIssue(
        "load_inp", {}, (Region("inp", 0, 1, True), Region(MAIN, 0, 64, False))
    )
    with pytest.raises(Refusal, match="load cannot wait for store"):
        with_tokens(VTA, [stored, loaded], BYTES)
