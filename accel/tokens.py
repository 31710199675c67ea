"""Synchronisation: tokens between queues, derived from memory footprints.

Conflicting instructions of different queues have to run in program order. They do if a path of
tokens and queues leads from one to the other. Instructions are visited in program order, each with
what it knows to have ended (vector clocks: Mattern, 1989); a dependence that it does not know of
yet needs a token, from the last such instruction of each queue.

So every token is necessary, and each is given before it is waited for in program order: no
deadlock, however short the queues.

Token counters are bounded. A token is given by the dependence's source if that knows that enough
tokens before have been taken, or else by a later instruction of its queue. If there is none, the
whole stream uses handshakes: the last instruction before the waiting one gives the token, and
itself waits for the instruction that took the previous token. Then at most one token is in flight,
and giving it takes no third token: between two handshakes the giver has taken one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.accel.refusal import Refusal
from weft.accel.sequential_program import MAIN, SequentialIssue
from weft.ir.accelerator import Accelerator, Wire
from weft.ir.instruction_stream import Issue, Stream

Array = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
BLOCK = 64  # bytes of main memory that count as one element


@dataclass(slots=True)
class _Last:
    """By queue: the last instruction that wrote, and read, each element; -1: none."""

    wrote: Array
    read: Array


def with_tokens(machine: Accelerator, issues: Sequence[SequentialIssue], main: int) -> Stream:
    """``issues`` in program order, synchronised. ``main``: bytes of main memory. Raises ``Refusal``
    if a queue has no wire from one that it depends on."""
    try:
        return _Tokens(machine, issues, main, False).stream()
    except _TooMany:
        return _Tokens(machine, issues, main, True).stream()


class _TooMany(Exception):
    """A token counter overflows."""


class _Tokens:
    def __init__(
        self, machine: Accelerator, issues: Sequence[SequentialIssue], main: int, handshakes: bool
    ) -> None:
        self.handshakes = handshakes
        self.machine, self.issues = machine, issues
        self.queues = [queue.name for queue in machine.queues]
        count = len(self.queues)
        depths = {m.name: m.depth for m in machine.memories if m.depth is not None}
        depths[MAIN] = -(-main // BLOCK)
        self.last = {
            name: _Last(np.full((count, depth), -1), np.full((count, depth), -1))
            for name, depth in depths.items()
        }
        self.twins = {m.name: m.twin for m in machine.memories if m.twin}
        self.wires = {(wire.source, wire.sink): wire for wire in machine.wires}
        self.known = np.full((count, count), -1)  # by queue: of its last instruction
        self.knew = np.full((len(issues) + 1, count), -1)  # by instruction, at its end
        self.flags: list[set[str]] = [set() for _ in range(len(issues) + 1)]
        self.members: list[list[int]] = [[] for _ in self.queues]  # by queue, in program order
        self.takers: dict[str, list[int]] = {wire.name: [] for wire in machine.wires}

    def stream(self) -> Stream:
        issues = list(self.issues)
        for number, issue in enumerate(issues):
            queue = self._queue(issue.operation)
            self._wait(number, queue, self._needed(issue, queue))
            self._ends(number, queue)
            self._touch(number, issue, queue)
        if self.machine.last:
            self._finish(len(issues))
            issues.append(SequentialIssue(self.machine.last, {}, ()))
        return Stream(
            self.machine,
            tuple(
                Issue(d.operation, {**d.fields, **dict.fromkeys(sorted(flags), 1)})
                for d, flags in zip(issues, self.flags, strict=False)
            ),
        )

    def _queue(self, operation: str) -> int:
        return self.queues.index(self.machine.operation(operation).queue)

    def _needed(self, issue: SequentialIssue, queue: int) -> Array:
        """By queue: the last instruction that ``issue`` depends on."""
        needed = np.full(len(self.queues), -1)
        for region in issue.regions:
            part = self._part(region.memory, region.begin, region.end)
            last = self.last[self.twins.get(region.memory, region.memory)]
            needed = np.maximum(needed, last.wrote[:, part].max(axis=1, initial=-1))
            if region.writes:
                needed = np.maximum(needed, last.read[:, part].max(axis=1, initial=-1))
        needed[queue] = -1
        return needed

    def _touch(self, number: int, issue: SequentialIssue, queue: int) -> None:
        for region in issue.regions:
            part = self._part(region.memory, region.begin, region.end)
            last = self.last[self.twins.get(region.memory, region.memory)]
            (last.wrote if region.writes else last.read)[queue, part] = number

    def _part(self, memory: str, begin: int, end: int) -> slice:
        return slice(begin // BLOCK, -(-end // BLOCK)) if memory == MAIN else slice(begin, end)

    def _wait(self, number: int, queue: int, needed: Array) -> None:
        """Tokens for dependences that are not known yet, the latest first: it may imply others."""
        for source in np.argsort(-needed, kind="stable"):
            if needed[source] > self.known[queue, source]:
                self._token(int(needed[source]), int(source), number, queue)

    def _token(self, needed: int, source: int, taker: int, sink: int) -> None:
        wire = self._wire(source, sink)
        giver = self._giver(wire, needed, source, taker, sink)
        assert wire.pop not in self.flags[taker], "one token of a wire at a time"
        self.flags[giver].add(wire.push)
        self.flags[taker].add(wire.pop)
        self.takers[wire.name].append(taker)
        self.known[sink] = np.maximum(self.known[sink], self.knew[giver])

    def _giver(self, wire: Wire, needed: int, source: int, taker: int, sink: int) -> int:
        """The instruction that gives ``taker`` the token for ``needed``: itself, or a later one of
        its queue if the counter is full."""
        givers, takers = self.members[source], self.takers[wire.name]
        if self.handshakes:
            giver = givers[bisect_left(givers, taker) - 1]
            if takers and self.knew[giver, sink] < takers[-1]:
                if giver != givers[-1]:
                    raise Refusal(f"its counters of tokens from {wire.name} are too small")
                sinks = self.members[sink]
                self._token(sinks[bisect_left(sinks, giver) - 1], sink, giver, source)
                self.knew[giver] = self.known[source]
            return giver
        if len(takers) < wire.most:
            return needed
        last = takers[-wire.most]
        first = bisect_left(givers, needed)
        found = bisect_left(givers, True, lo=first, key=lambda giver: self._over(last, giver, sink))
        if found == len(givers):
            raise _TooMany
        return givers[found]

    def _over(self, number: int, giver: int, sink: int) -> bool:
        """Whether ``number`` has begun when ``giver`` ends: that is known, or follows from
        delivery."""
        members, depth = self.members[sink], self.machine.queues[sink].depth
        delivered = bisect_left(members, giver) - depth
        return self.knew[giver, sink] >= number or bisect_left(members, number) < delivered

    def _wire(self, source: int, sink: int) -> Wire:
        wire = self.wires.get((self.queues[source], self.queues[sink]))
        if wire is None:
            raise Refusal(f"{self.queues[sink]} cannot wait for {self.queues[source]}")
        return wire

    def _ends(self, number: int, queue: int) -> None:
        self.members[queue].append(number)
        self.known[queue, queue] = number
        self.knew[number] = self.known[queue]

    def _finish(self, number: int) -> None:
        """The last instruction depends on all writes to main memory."""
        queue = self._queue(self.machine.last)
        last = np.full(len(self.queues), -1)
        for n, issue in enumerate(self.issues):
            if any(region.memory == MAIN and region.writes for region in issue.regions):
                last[self._queue(issue.operation)] = n
        last[queue] = -1
        self._wait(number, queue, last)
        self._ends(number, queue)
