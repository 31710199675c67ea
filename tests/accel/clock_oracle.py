"""VTA's timing clock by clock, slow and obvious: from the bytes of a stream and the written rules.

For the default configuration, whose fields are at the tabulated bits. Every cycle in turn: fetch
delivers, units that are free begin, the read channel carries a beat, units go on.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

BYTES = {1: 256, 2: 16, 3: 64}  # of an element, by memory id
LOAD, STORE, GEMM, FINISH, ALU = range(5)
UOP, INP, ACC = 0, 2, 3
# (flag, unit): the counter that it takes from or adds to.
POPS = {("prev", 1): "l2c", ("next", 0): "c2l", ("next", 1): "s2c", ("prev", 2): "c2s"}
PUSHES = {("prev", 1): "c2l", ("next", 0): "l2c", ("next", 1): "c2s", ("prev", 2): "s2c"}
QUEUE = 512


@dataclass
class Work:
    """What an instruction has to do still, one cycle each: ``beats`` need the read channel."""

    number: int
    latency: int
    beats: int
    own: int


def bits(word: int, low: int, high: int) -> int:
    return word >> low & ((1 << (high - low + 1)) - 1)


def unit_of(word: int) -> int:
    """0 loads, 1 computes, 2 stores."""
    opcode, memory = bits(word, 0, 2), bits(word, 7, 9)
    if opcode == STORE:
        return 2
    return 0 if opcode == LOAD and memory not in (UOP, ACC) else 1


def work(number: int, word: int) -> Work:
    opcode = bits(word, 0, 2)
    if opcode == FINISH:
        return Work(number, 0, 0, 1)
    if opcode in (GEMM, ALU):
        turns = bits(word, 35, 48) * bits(word, 49, 62) * (bits(word, 21, 34) - bits(word, 8, 20))
        both = opcode == ALU and not bits(word, 111, 111)
        return Work(number, 0, 0, turns * (2 if both else 1) + 8)
    memory, rows, size = bits(word, 7, 9), bits(word, 64, 79), bits(word, 80, 95)
    if opcode == STORE:
        return Work(number, 0, 0, 16 + 3 * rows * size if rows * size else 1)
    if not size:
        return Work(number, 0, 0, 1)
    if memory == UOP:
        return Work(number, 16, -(-4 * size // 8), 0)
    top, bottom, left, right = (bits(word, at, at + 3) for at in (112, 116, 120, 124))
    zeros = (top + bottom) * (left + size + right) + rows * (left + right)
    return Work(number, 16, rows * -(-BYTES[memory] * size // 8), zeros)


def clocked(stream: bytes) -> list[tuple[int, int]]:
    """The first cycle of each instruction, and the one after its last; all of them end."""
    words = [int.from_bytes(stream[n : n + 16], "little") for n in range(0, len(stream), 16)]
    queues: list[deque[int]] = [deque(), deque(), deque()]
    doing: list[Work | None] = [None, None, None]
    tokens = dict.fromkeys(PUSHES.values(), 0)
    spans = [(-1, -1)] * len(words)
    fetched = ended = clock = 0
    while ended < len(words):
        if fetched < len(words) and len(queues[unit_of(words[fetched])]) < QUEUE:
            queues[unit_of(words[fetched])].append(fetched)
            fetched += 1
        for unit, queue in enumerate(queues):
            if doing[unit] is None and queue and _ready(words[queue[0]], unit, tokens):
                number = queue.popleft()
                doing[unit] = begun = work(number, words[number])
                spans[number] = clock, -1
                others = (w for w in doing[:2] if w is not None and w is not begun)
                if begun.beats and any(not w.latency and w.beats for w in others):
                    begun.latency = 0
        compute = doing[1]
        reads = compute is not None and compute.beats > 0 and not compute.latency
        clock += 1
        for unit, now in enumerate(doing):
            if now is None:
                continue
            if now.latency:
                now.latency -= 1
            elif now.beats:
                now.beats -= 0 if unit == 0 and reads else 1
            else:
                now.own -= 1
            if not now.latency and not now.beats and now.own <= 0:
                spans[now.number] = spans[now.number][0], clock
                ended += 1
                doing[unit] = None
                for side, bit in (("prev", 5), ("next", 6)):
                    if bits(words[now.number], bit, bit):
                        tokens[PUSHES[side, unit]] += 1
        assert clock < 1 << 24, "it never ends"
    return spans


def _there(word: int, unit: int, tokens: dict[str, int]) -> bool:
    return all(
        tokens[POPS[side, unit]] for side, bit in (("prev", 3), ("next", 4)) if bits(word, bit, bit)
    )


def _ready(word: int, unit: int, tokens: dict[str, int]) -> bool:
    """Take the tokens of ``word``, if they are there."""
    if not _there(word, unit, tokens):
        return False
    for side, bit in (("prev", 3), ("next", 4)):
        if bits(word, bit, bit):
            tokens[POPS[side, unit]] -= 1
    return True
