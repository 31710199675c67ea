"""The time of a stream: concurrent queues, tokens, shared channels. An event-driven simulation.

One instruction per cycle is delivered to its queue, in program order, and none while the queue of
the next is full. A queue starts its first instruction when it is idle and the tokens are there. An
instruction takes, in sequence (``accelerator.Cost``):

    latency   unless the channel carries another queue's beats when the instruction begins
    beats     one per cycle, in cycles in which no queue before it in the channel's list wants one
    cycles    on its own

Tokens are given in the cycle after the last one.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from weft.ir.accelerator import Channel, Cost
from weft.ir.errors import StreamError
from weft.ir.instruction_stream import Stream


@dataclass(frozen=True, slots=True)
class Span:
    """The first cycle of an instruction, and the one after its last."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Timing:
    """``spans``: by instruction, in program order."""

    spans: tuple[Span, ...]

    @property
    def cycles(self) -> int:
        return max((span.end for span in self.spans), default=0)


def timing(stream: Stream) -> Timing:
    """When each instruction of ``stream`` runs. Raises ``StreamError`` (WEFT-E1005) if some never
    do, or a token counter overflows."""
    return _Simulation(stream).run()


@dataclass(slots=True)
class _Unit:
    """A queue, and the remaining work of its first instruction."""

    name: str
    depth: int
    waiting: deque[int] = field(default_factory=deque)  # delivered, not begun
    current: int = -1
    begun: int = 0
    latency: int = 0
    channel: str = ""
    beats: int = 0
    cycles: int = 0

    @property
    def runs(self) -> bool:
        return self.current >= 0

    @property
    def transfers(self) -> bool:
        return self.runs and not self.latency and self.beats > 0


class _Simulation:
    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._machine = stream.accelerator
        self._units = {q.name: _Unit(q.name, q.depth) for q in self._machine.queues}
        self._channels: dict[str, Channel] = {c.name: c for c in self._machine.channels}
        self._tokens: Counter[str] = Counter()
        self._spans: list[Span | None] = [None] * len(stream.issues)
        self._next = 0  # to be delivered
        self._now = 0

    def run(self) -> Timing:
        delivered = -1  # the cycle of the last delivery
        left = len(self._spans)
        while left:
            if self._next < len(self._spans) and delivered < self._now and self._deliver():
                delivered = self._now
            for unit in self._units.values():
                self._begin(unit)
            steps = [self._until(unit) for unit in self._units.values() if unit.runs]
            if self._next < len(self._spans) and self._has_room():
                steps.append(1)
            steps = [s for s in steps if s]
            if not steps:
                raise self._deadlock()
            left -= self._advance(min(steps))
        return Timing(tuple(span for span in self._spans if span is not None))

    # ---- delivery and begin -----------------------------------------------------------------

    def _queue(self, number: int) -> _Unit:
        issue = self._stream.issues[number]
        return self._units[self._machine.operation(issue.operation).queue]

    def _has_room(self) -> bool:
        unit = self._queue(self._next)
        return len(unit.waiting) < unit.depth

    def _deliver(self) -> bool:
        if not self._has_room():
            return False
        self._queue(self._next).waiting.append(self._next)
        self._next += 1
        return True

    def _begin(self, unit: _Unit) -> None:
        """Begin the first instruction of ``unit``, if it may."""
        if unit.runs or not unit.waiting:
            return
        issue = self._stream.issues[unit.waiting[0]]
        pops = self._stream.pops(issue)
        if any(not self._tokens[wire.name] for wire in pops):
            return
        for wire in pops:
            self._tokens[wire.name] -= 1
        cost = self._machine.operation(issue.operation).takes(issue.fields)
        unit.latency = 0 if self._busy(cost) else cost.latency
        unit.channel, unit.beats, unit.cycles = cost.channel, cost.beats, cost.cycles
        unit.current, unit.begun = unit.waiting.popleft(), self._now

    def _busy(self, cost: Cost) -> bool:
        """Whether the channel carries beats."""
        channel = self._channels.get(cost.channel)
        return channel is not None and any(self._units[q].transfers for q in channel.queues)

    # ---- time -------------------------------------------------------------------------------

    def _carried(self, unit: _Unit) -> bool:
        """Whether the channel is this unit's: no unit before it wants it."""
        for name in self._channels[unit.channel].queues:
            if name == unit.name:
                return True
            other = self._units[name]
            if other.transfers and other.channel == unit.channel:
                return False
        return True

    def _until(self, unit: _Unit) -> int:
        """Cycles until the current phase of ``unit`` ends; 0: it waits for the channel."""
        if unit.latency:
            return unit.latency
        if unit.beats:
            return unit.beats if self._carried(unit) else 0
        return max(1, unit.cycles)

    def _advance(self, step: int) -> int:
        """Advance by ``step`` cycles; the number of instructions that end."""
        self._now += step
        carried = [u for u in self._units.values() if u.transfers and self._carried(u)]
        ended = 0
        for unit in self._units.values():
            if not unit.runs:
                continue
            if unit.latency:
                unit.latency -= step
            elif unit.beats:
                unit.beats -= step if unit in carried else 0
            else:
                unit.cycles -= step
            if not unit.latency and not unit.beats and unit.cycles <= 0:
                self._end(unit)
                ended += 1
        return ended

    def _end(self, unit: _Unit) -> None:
        issue = self._stream.issues[unit.current]
        self._spans[unit.current] = Span(unit.begun, self._now)
        for wire in self._stream.pushes(issue):
            self._tokens[wire.name] += 1
            if self._tokens[wire.name] > wire.most:
                raise StreamError(
                    "WEFT-E1005",
                    f"more than {wire.most} tokens from {wire.name}",
                    where=f"instruction {unit.current}",
                )
        unit.current = -1

    def _deadlock(self) -> StreamError:
        """What the first instruction of each queue waits for."""
        lines = []
        for unit in self._units.values():
            if unit.waiting:
                issue = self._stream.issues[unit.waiting[0]]
                missing = [w.name for w in self._stream.pops(issue) if not self._tokens[w.name]]
                lines.append(
                    f"instruction {unit.waiting[0]} ({issue.operation}) waits for a token "
                    f"from {' and from '.join(missing)}"
                )
        if self._next < len(self._spans):
            lines.append(f"instruction {self._next} waits for room in its queue")
        return StreamError("WEFT-E1005", "the stream never ends", why="; ".join(lines))
