"""Execution orders of a stream: each queue in order, after the tokens that an instruction waits
for.

Instructions are delivered in program order, as far as queues have room. Which queue runs next is
free; results must not depend on it, and deadlocks do not. (Tokens are only added and waited for: a
queue that can run still can after any other has.)
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from weft.ir.errors import StreamError
from weft.ir.instruction_stream import Stream

Order = Literal["first", "last", "turns"] | int  # int: random, by this seed
ORDERS: tuple[Order, ...] = ("first", "last", "turns")


@dataclass(frozen=True, slots=True)
class Tokens:
    """By instruction: the number of its queue, and of the wires that it takes tokens from and gives
    them to."""

    queue: tuple[int, ...]
    pops: tuple[tuple[int, ...], ...]
    pushes: tuple[tuple[int, ...], ...]


def tokens_of(stream: Stream) -> Tokens:
    machine = stream.accelerator
    queues = {queue.name: number for number, queue in enumerate(machine.queues)}
    wires = {wire: number for number, wire in enumerate(machine.wires)}
    return Tokens(
        tuple(queues[machine.operation(issue.operation).queue] for issue in stream.issues),
        tuple(tuple(wires[w] for w in stream.pops(issue)) for issue in stream.issues),
        tuple(tuple(wires[w] for w in stream.pushes(issue)) for issue in stream.issues),
    )


def execution_order(stream: Stream, order: Order = "first") -> Iterator[int]:
    """The numbers of all instructions, in an order in which they may run.

    ``first``: always the first queue that is ready; ``last``; ``turns``: round robin; a number:
    random. Raises ``StreamError`` (WEFT-E1005) if some never run, or a token counter overflows.
    """
    tokens, machine = tokens_of(stream), stream.accelerator
    waiting: list[deque[int]] = [deque() for _ in machine.queues]
    held = [0] * len(machine.wires)
    choose = _choice(order, len(waiting))
    next_, count = 0, len(stream.issues)

    def ready(queue: int) -> bool:
        return bool(waiting[queue]) and all(held[w] for w in tokens.pops[waiting[queue][0]])

    def deliver() -> None:
        nonlocal next_
        while next_ < count:
            number = tokens.queue[next_]
            if len(waiting[number]) >= machine.queues[number].depth:
                return
            waiting[number].append(next_)
            next_ += 1

    deliver()
    for _ in range(count):
        queue = choose(ready)
        if queue is None:
            raise stuck(stream, [w[0] for w in waiting if w], held, next_)
        issue = waiting[queue].popleft()
        for wire in tokens.pops[issue]:
            held[wire] -= 1
        deliver()
        yield issue
        for wire in tokens.pushes[issue]:
            held[wire] += 1
            if held[wire] > machine.wires[wire].most:
                raise StreamError(
                    "WEFT-E1005",
                    f"more than {machine.wires[wire].most} tokens from {machine.wires[wire].name}",
                    where=f"instruction {issue}",
                )


def _choice(order: Order, queues: int) -> Callable[[Callable[[int], bool]], int | None]:
    """A function that selects the next of the ready queues."""
    if order == "first":
        return lambda ready: next((q for q in range(queues) if ready(q)), None)
    if order == "last":
        return lambda ready: next((q for q in reversed(range(queues)) if ready(q)), None)
    if order == "turns":
        turn = deque(range(queues))

        def one_after_the_other(ready: Callable[[int], bool]) -> int | None:
            turn.rotate(-1)
            return next((q for q in turn if ready(q)), None)

        return one_after_the_other
    pick = random.Random(order)

    def any_of_them(ready: Callable[[int], bool]) -> int | None:
        able = [q for q in range(queues) if ready(q)]
        return pick.choice(able) if able else None

    return any_of_them


def stuck(stream: Stream, heads: Sequence[int], held: Sequence[int], delivered: int) -> StreamError:
    """What the first instruction of each queue waits for. ``held``: tokens, by wire."""
    wires = stream.accelerator.wires
    lines = []
    for head in heads:
        issue = stream.issues[head]
        missing = [w.name for w in stream.pops(issue) if not held[wires.index(w)]]
        if missing:
            lines.append(
                f"instruction {head} ({issue.operation}) waits for a token "
                f"from {' and from '.join(missing)}"
            )
    if delivered < len(stream.issues):
        lines.append(f"instruction {delivered} waits for room in its queue")
    return StreamError("WEFT-E1005", "the stream never ends", why="; ".join(lines))
