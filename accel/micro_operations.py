"""Lists of micro-operations, in main memory and in their cache: loaded on first use, and again
after eviction.

Lists are in main memory once, in the order of first use, so that one transfer loads several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from weft.accel.boxes import Move
from weft.accel.capabilities import Capabilities, Transfer
from weft.accel.refusal import Refusal
from weft.accel.sequential_program import SequentialIssue, SequentialProgram, Words
from weft.ir.accelerator import Accelerator

AHEAD = 512  # words that are loaded at once, if they are used in sequence


@dataclass(slots=True)
class _Memory:
    """A ring buffer; ``lists``: the resident ones, by number, with their begins."""

    depth: int
    lists: dict[int, int]
    end: int = 0


def with_lists(
    machine: Accelerator, found: Capabilities, issues: Sequence[SequentialIssue], main: int
) -> tuple[list[SequentialIssue], list[int]]:
    """``issues`` with the transfers of their lists, and the words in main memory, from element
    ``main`` on. Raises ``Refusal`` if a single list does not fit."""
    memory = next((c.words.memory for c in found.computes if c.words is not None), None)
    if memory is None:
        return list(issues), []
    transfer = next(t for t in found.transfers if t.into and t.local.memory == memory)
    numbers: dict[Words, int] = {}
    for issue in issues:
        if issue.words is not None:
            numbers.setdefault(issue.words, len(numbers))
    return _Loader(machine, found, transfer, list(numbers), main).loaded(issues, numbers)


class _Loader:
    def __init__(
        self,
        machine: Accelerator,
        found: Capabilities,
        transfer: Transfer,
        lists: list[Words],
        main: int,
    ) -> None:
        self.machine, self.transfer, self.main = machine, transfer, main
        self.computes = {c.operation.name: c for c in found.computes}
        own = machine.memory(transfer.local.memory)
        assert own.depth is not None, "micro-operations are in a memory of their own"
        self.size = own.dtype.itemsize
        self.lists = lists
        self.starts = [0]
        for each in lists:
            self.starts.append(self.starts[-1] + len(each))
        if max(map(len, lists), default=0) > own.depth:
            raise Refusal(f"{own.name} has no room for {max(map(len, lists))} micro-operations")
        self.memory = _Memory(own.depth, {})

    def loaded(
        self, issues: Sequence[SequentialIssue], numbers: dict[Words, int]
    ) -> tuple[list[SequentialIssue], list[int]]:
        made = SequentialProgram(self.machine)
        for issue in issues:
            if issue.words is None:
                made.found.append(issue)
                continue
            number = numbers[issue.words]
            if number not in self.memory.lists:
                self._load(made, number)
            begin = self.memory.lists[number]
            end = begin + len(issue.words)
            words = self.computes[issue.operation].words
            assert words is not None, "it has micro-operations"
            fields = {**issue.fields, words.begin: begin, words.end: end}
            region = replace(
                issue.regions[0], memory=words.memory, begin=begin, end=end, writes=False
            )
            made.found.append(SequentialIssue(issue.operation, fields, (*issue.regions, region)))
        return made.found, [word for each in self.lists for word in each]

    def _load(self, made: SequentialProgram, number: int) -> None:
        """Load list ``number``, and those that are first used after it."""
        last = number + 1
        while (
            last < len(self.lists)
            and last not in self.memory.lists
            and self.starts[last + 1] - self.starts[number] <= min(AHEAD, self.memory.depth // 2)
        ):
            last += 1
        size = self.starts[last] - self.starts[number]
        if self.memory.end + size > self.memory.depth:
            self.memory.end = 0
        begin = self.memory.end
        gone = [
            n
            for n, at in self.memory.lists.items()
            if at < begin + size and at + len(self.lists[n]) > begin
        ]
        for n in gone:
            del self.memory.lists[n]
        for n in range(number, last):
            self.memory.lists[n] = begin + self.starts[n] - self.starts[number]
        self.memory.end = begin + size
        move = Move(0, self.starts[number], 1, size, 0)
        made.move(self.transfer, move, begin, self.main, self.size)
