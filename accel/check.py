"""Proof that a stream is free of races and stays within memory, whoever made it.

Instructions are visited in one legal execution order, each with what is known to have ended before
it begins: the number of instructions of every queue (vector clocks: Fidge, Mattern 1988). The k-th
token taken from a wire is the k-th given. Two accesses to an element by different queues, one of
them a write, are ordered if the second knows that the first has ended; if all are, every order
gives the same results. The last instruction must know that all stores have ended: whoever waits for
it reads the results.

Shadow memory: for each queue, the last instruction that wrote an element, and the last that read
it. All main memories are one, and so are twins.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import gcd

import numpy as np

from weft.accel.execution_order import Tokens, execution_order, tokens_of
from weft.accel.footprints import Footprint, Footprints, Pattern
from weft.accel.memory_accesses import Array
from weft.ir.accelerator import Accelerator, Operation, Watch
from weft.ir.errors import StreamError
from weft.ir.instruction_stream import Stream

MAIN = ""  # all main memories
Contents = Mapping[str, Array]


def check(
    stream: Stream,
    footprints: Footprints,
    contents: Contents,
    execute: Callable[[int], None],
    inputs: tuple[range, ...] = (),
    *,
    blank: bool = False,
) -> None:
    """Raise an error if an instruction of ``stream`` might access or order memory wrongly.

    ``contents``: of the memories that addresses depend on (``footprints.contents``), which
    ``execute`` updates: it runs an instruction that writes to one of them. ``inputs``: bytes of
    main memory that are unknown. ``blank``: all of it is unknown; accesses at addresses loaded from
    there are not checked.

    Raises ``StreamError``: WEFT-E1005 (deadlock), WEFT-E1040 (an access out of bounds), WEFT-E1041
    (a race between two queues), WEFT-E1042 (tokens left over), WEFT-E1043 (a token counter
    overflows), WEFT-E1044 (a read of uninitialised memory), WEFT-E1045 (a rule of the machine),
    WEFT-E1046 (addresses depend on inputs).
    """
    _Check(stream, footprints, contents, execute, inputs, blank).run()


class _Check:
    def __init__(
        self,
        stream: Stream,
        footprints: Footprints,
        contents: Contents,
        execute: Callable[[int], None],
        inputs: tuple[range, ...],
        blank: bool,
    ) -> None:
        machine = stream.accelerator
        self._stream, self._footprints, self._contents = stream, footprints, contents
        self._execute, self._blank = execute, blank
        self._marks = _Marks(machine, footprints.elements)
        self._written = {
            m.name: np.zeros(m.depth, np.bool_) for m in machine.memories if m.depth is not None
        }
        self._seen: set[tuple[Pattern, int]] = set()  # footprints that are initialised
        self._unwired = {each.name: _unwired(machine, each) for each in machine.operations}
        self._numbers: list[list[int]] = [[] for _ in machine.queues]  # by queue: its instructions
        # By queue: the position of the last write to main memory.
        self._stored = [0] * len(machine.queues)
        self._unknown = np.zeros(self._marks.size(MAIN), np.bool_)
        for each in inputs:
            unit = self._marks.unit
            self._unknown[each.start // unit : -(-each.stop // unit)] = True

    def run(self) -> None:
        stream = self._stream
        tokens = tokens_of(stream)
        for number, queue in enumerate(tokens.queue):
            self._numbers[queue].append(number)
        clocks = _Clocks(stream, tokens)
        end: tuple[int, int, list[int]] | None = None
        watches = [rule(stream.issues) for rule in stream.accelerator.rules]
        for number in execution_order(_uncounted(stream)):
            for flag in self._unwired[stream.issues[number].operation]:
                if stream.issues[number].fields.get(flag):
                    raise self._error(
                        "WEFT-E1045",
                        number,
                        f"{flag} is set, and no wire of its queue goes by that",
                        "nobody gives or takes such a token: some implementations crash there",
                    )
            known = clocks.begin(number)
            somewhere = self._footprints.by_contents(stream.issues[number].operation)
            if self._blank and somewhere is not None:
                self._unseen(number, somewhere, watches)
                clocks.end(number)
                continue
            try:
                found = self._footprints.of(stream.issues[number], self._contents)
            except StreamError as error:
                raise self._error(error.code, number, error.what, error.why) from None
            self._ordered(number, tokens.queue[number], known, found)
            if stream.issues[number].operation == stream.accelerator.last:
                end = number, tokens.queue[number], list(known)
            self._initialised(number, found)
            for watch in watches:
                if wrong := watch(number, found, self._contents):
                    raise self._error("WEFT-E1045", number, wrong)
            self._marks.mark(clocks.place[number], tokens.queue[number], found)
            if any(each.writes and each.memory not in self._written for each in found):
                self._stored[tokens.queue[number]] = clocks.place[number]
            self._follow(number, found)
            clocks.end(number)
        clocks.finish()
        if end is not None:
            self._over(*end)

    def _unseen(self, number: int, somewhere: frozenset[str], watches: list[Watch]) -> None:
        """An instruction that writes at unknown addresses."""
        for memory in somewhere & self._written.keys():
            self._written[memory][:] = True
        for watch in watches:
            if wrong := watch(number, None, self._contents):
                raise self._error("WEFT-E1045", number, wrong)

    # ---- order --------------------------------------------------------------------------------

    def _ordered(
        self, number: int, queue: int, known: list[int], found: tuple[Footprint, ...]
    ) -> None:
        """All earlier conflicting accesses by other queues are known to have ended."""
        for each in found:
            late = self._marks.late(each, queue, known)
            if late is not None:
                raise self._hazard(number, each, *late)

    def _hazard(
        self, number: int, each: Footprint, queue: int, wrote: bool, place: int, part: int
    ) -> StreamError:
        earlier = self._numbers[queue][place - 1]
        names = [self._stream.issues[n].operation for n in (earlier, number)]
        queues = [self._stream.accelerator.operation(name).queue for name in names]
        mine, its = ("writes" if w else "reads" for w in (each.writes, wrote))
        return self._error(
            "WEFT-E1041",
            number,
            f"{mine} {self._marks.element(each.memory, part)}, which instruction {earlier}"
            f" ({names[0]}) {its}",
            f"nothing orders them: no tokens lead from {queues[0]} to {queues[1]} in between",
        )

    def _over(self, number: int, queue: int, known: list[int]) -> None:
        """All writes to main memory have ended when the last instruction does."""
        for other, place in enumerate(self._stored):
            if other != queue and known[other] < place:
                late = self._numbers[other][place - 1]
                machine = self._stream.accelerator
                raise self._error(
                    "WEFT-E1041",
                    number,
                    f"says that all is over, and instruction {late} "
                    f"({self._stream.issues[late].operation}) may still write to main memory",
                    f"nothing orders them: no tokens lead from {machine.queues[other].name} to "
                    f"{machine.queues[queue].name} in between",
                )

    # ---- contents -----------------------------------------------------------------------------

    def _initialised(self, number: int, found: tuple[Footprint, ...]) -> None:
        for each in found:
            written = self._written.get(each.memory)
            if written is None or (each.pattern, each.base) in self._seen:
                continue
            self._seen.add((each.pattern, each.base))
            at = each.pattern.at(each.base)
            if each.writes:
                written[at] = True
            elif not written[at].all():
                places = np.arange(len(written))[at]
                first = int(places[~written[at]][0])
                raise self._error(
                    "WEFT-E1044", number, f"reads {each.memory}[{first}], which nothing has written"
                )

    def _follow(self, number: int, found: tuple[Footprint, ...]) -> None:
        """Update the contents that addresses depend on, and the unknown bytes of main memory."""
        shown = self._footprints.contents
        known = True
        for each in found:
            if each.memory in self._written:
                continue
            at = self._marks.at(each)
            if each.writes:
                self._unknown[at] = True
            elif self._unknown[at].any():
                known = False
        if not any(each.writes and each.memory in shown for each in found):
            return
        if not known:
            memory = next(e.memory for e in found if e.writes and e.memory in shown)
            raise self._error(
                "WEFT-E1046", number, f"{memory} is loaded with what inputs, or the stream, decide",
                "addresses depend on it, and cannot be checked before it runs",
            )  # fmt: skip
        self._execute(number)

    def _error(self, code: str, number: int, what: str, why: str = "") -> StreamError:
        operation = self._stream.issues[number].operation
        return StreamError(code, f"instruction {number} ({operation}): {what}", why=why)


def _unwired(machine: Accelerator, operation: Operation) -> list[str]:
    """Token flags of ``operation`` for which its queue has no wire."""
    ends = {(w.push, w.source) for w in machine.wires} | {(w.pop, w.sink) for w in machine.wires}
    flags = sorted({flag for flag, _ in ends})
    known = inspect.signature(operation.semantics).parameters if operation.semantics else {}
    own = {each.name for each in operation.encoding.fields} - {*known}
    return [flag for flag in flags if flag in own and (flag, operation.queue) not in ends]


def _uncounted(stream: Stream) -> Stream:
    """``stream`` with unbounded token counters: ``_Clocks`` checks the bounds."""
    machine = stream.accelerator
    wires = tuple(replace(wire, most=len(stream.issues) + 1) for wire in machine.wires)
    return replace(stream, accelerator=replace(machine, wires=wires))


class _Clocks:
    """What each instruction knows: for every queue, how many of its instructions have ended."""

    def __init__(self, stream: Stream, tokens: Tokens) -> None:
        machine = stream.accelerator
        self._stream, self._tokens = stream, tokens
        self._now = [[0] * len(machine.queues) for _ in machine.queues]  # by queue
        self._sent: list[deque[tuple[int, list[int]]]] = [deque() for _ in machine.wires]
        self._given = [0] * len(machine.wires)
        # By wire: tokens taken by the first n instructions of its sink.
        self._taken: list[list[int]] = [[0] for _ in machine.wires]
        queues = [queue.name for queue in machine.queues]
        self._sinks = [queues.index(wire.sink) for wire in machine.wires]
        self.place: list[int] = []  # by instruction: its position in its queue, from 1
        self._before: list[list[int]] = []  # earlier ones of each queue
        counts = [0] * len(queues)
        for number, queue in enumerate(tokens.queue):
            self._before.append(list(counts))
            counts[queue] += 1
            self.place.append(counts[queue])
            for wire, sink in enumerate(self._sinks):
                if sink == queue:
                    taken = self._taken[wire]
                    taken.append(taken[-1] + (wire in tokens.pops[number]))

    def begin(self, number: int) -> list[int]:
        """What ``number`` knows when it begins."""
        now = self._now[self._tokens.queue[number]]
        for wire in self._tokens.pops[number]:
            _, sent = self._sent[wire].popleft()
            for queue, ended in enumerate(sent):
                if ended > now[queue]:
                    now[queue] = ended
        return now

    def end(self, number: int) -> None:
        queue = self._tokens.queue[number]
        now = self._now[queue]
        now[queue] = self.place[number]
        for wire in self._tokens.pushes[number]:
            self._sent[wire].append((number, list(now)))
            self._given[wire] += 1
            self._count(number, wire, now)

    def _count(self, number: int, wire: int, now: list[int]) -> None:
        """The greatest number of tokens on the wire: the sink has ended only what is known to have
        ended, and begun what it must have for ``number`` to be delivered."""
        machine = self._stream.accelerator
        sink = self._sinks[wire]
        begun = max(now[sink], self._before[number][sink] - machine.queues[sink].depth)
        count = self._given[wire] - self._taken[wire][begun]
        if count > machine.wires[wire].most:
            raise StreamError(
                "WEFT-E1043",
                f"instruction {number} gives token {count} from {machine.wires[wire].name}",
                why=f"its counter holds {machine.wires[wire].most}, and nothing makes"
                f" {machine.queues[sink].name} take one before",
            )

    def finish(self) -> None:
        for wire, sent in zip(self._stream.accelerator.wires, self._sent, strict=True):
            if sent:
                number, _ = sent[0]
                operation = self._stream.issues[number].operation
                raise StreamError(
                    "WEFT-E1042",
                    f"{len(sent)} tokens from {wire.name} are left over",
                    why=f"nothing takes the one that instruction {number} ({operation}) gives",
                )


class _Marks:
    """Shadow memory: by memory and queue, the queue's last write and last read of a part: an
    element, or a unit of main memory, of which all main memories' elements are multiples."""

    def __init__(self, machine: Accelerator, elements: Mapping[str, int]) -> None:
        self._machine = machine
        self._main = {m.name: m.nbytes for m in machine.memories if m.depth is None}
        self.unit = gcd(*self._main.values()) if self._main else 1
        self._sizes = {m.name: elements[m.name] for m in machine.memories if m.depth is not None}
        ends = (elements[name] * size for name, size in self._main.items())
        self._sizes[MAIN] = max(ends, default=0) // self.unit
        # By memory: for each queue, the marks of writes and of reads; None: there are none.
        kinds = [None, None]
        self._marks: dict[str, list[list[Array | None]]] = {
            name: [list(kinds) for _ in machine.queues] for name in self._sizes
        }
        self._units = {m.name: self._main.get(m.name, self.unit) // self.unit
                       for m in machine.memories}  # fmt: skip
        self._space = {
            m.name: MAIN if m.depth is None else m.twin or m.name for m in machine.memories
        }

    def size(self, memory: str) -> int:
        return self._sizes[memory]

    def at(self, each: Footprint) -> slice | Array:
        return each.pattern.at(each.base, self._units[each.memory])

    def late(
        self, each: Footprint, queue: int, known: list[int]
    ) -> tuple[int, bool, int, int] | None:
        """A conflicting access to ``each``, of ``queue``, beyond those ``known`` to have ended: its
        queue, whether it writes, its position in the queue, the part that both access; None if
        there is none."""
        at = self.at(each)
        for other, kinds in enumerate(self._marks[self._space[each.memory]]):
            if other == queue:
                continue
            for marks, wrote in zip(kinds[: 1 + each.writes], (True, False), strict=False):
                if marks is not None and (found := marks[at]).max() > known[other]:
                    worst = int(found.argmax())
                    part = int(np.arange(len(marks))[at][worst])
                    return other, wrote, int(found[worst]), part
        return None

    def mark(self, place: int, queue: int, found: tuple[Footprint, ...]) -> None:
        for each in found:
            space = self._space[each.memory]
            kinds = self._marks[space][queue]
            marks = kinds[not each.writes]
            if marks is None:
                marks = kinds[not each.writes] = np.zeros(self._sizes[space], np.int32)
            marks[self.at(each)] = place

    def element(self, memory: str, part: int) -> str:
        if memory in self._main:
            return f"{memory}[{part * self.unit // self._main[memory]}]"
        return f"{memory}[{part}]"
