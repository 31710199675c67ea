"""Regions of loop IR in NumPy, thread by thread: the oracle of where barriers stand.

Each thread runs to its next barrier before the following one starts, in an order that changes from
barrier to barrier. Two threads that meet at one element between two barriers, one of them writing,
raise ``AssertionError``: with no such meeting, every order of execution has the same result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from weft.ir.loop_interpreter import Array, Machine, Memory, Status
from weft.ir.loop_ir import (
    Allocate,
    Barrier,
    Block,
    For,
    If,
    Kernel,
    Let,
    Single,
    Stmt,
    While,
)


def interpret_region(
    kernel: Kernel, parameters: Mapping[str, int], buffers: Mapping[str, Array], team: int
) -> Status:
    """Run ``kernel``, a region, by ``team`` threads on flat arrays, in place."""
    meetings = _Meetings()
    first = _Thread(dict(parameters), meetings=meetings, team=team)
    first.take(kernel, buffers)
    threads = [first]
    for number in range(1, team):
        other = _Thread(dict(parameters), meetings=meetings, number=number, team=team)
        other.memory, other.status = dict(first.memory), first.status
        threads.append(other)
    with np.errstate(all="ignore"):
        _run(threads, kernel.body, meetings)
    return first.status


def _run(threads: list[_Thread], body: Stmt, meetings: _Meetings) -> None:
    runs = [thread.region(body) for thread in threads]
    while True:
        meetings.clear()
        going = [next(run, True) for run in runs]  # a barrier yields False
        assert all(going) or not any(going), "some threads meet a barrier that others do not"
        if all(going):
            return
        runs.reverse()


@dataclass(slots=True)
class _Meetings:
    """Who read and wrote what since the last barrier; the shared buffers of the team."""

    readers: dict[int, set[int]] = field(default_factory=dict)  # by address
    writer: dict[int, int] = field(default_factory=dict)
    shared: dict[int, Memory] = field(default_factory=dict)  # by identity of the allocation

    def clear(self) -> None:
        self.readers.clear()
        self.writer.clear()


@dataclass(slots=True)
class _Thread(Machine):
    meetings: _Meetings = field(default_factory=_Meetings)
    number: int = 0
    team: int = 1

    def region(self, stmt: Stmt) -> Iterator[bool]:
        """Run ``stmt`` as one of the team, up to each barrier."""
        outer = self.names
        while isinstance(stmt, Let):
            self.names = {**self.names, stmt.name: self.value(stmt.value)}
            stmt = stmt.body
        match stmt:
            case Block(stmts):
                for each in stmts:
                    yield from self.region(each)
            case For(kind="parallel"):
                turns = self.turns(stmt)
                first, end = (
                    len(turns) * number // self.team for number in (self.number, self.number + 1)
                )
                self.repeat(stmt, turns[first:end])
            case For():
                for index in self.turns(stmt):
                    self.names = {**outer, stmt.var: np.int64(index)}
                    yield from self.region(stmt.body)
            case While():
                while self.value(stmt.condition):
                    yield from self.region(stmt.body)
            case If():
                yield from self.region(stmt.then if self.value(stmt.condition) else stmt.otherwise)
            case Allocate():
                yield from self._shared(stmt)
            case Barrier():
                yield False
            case Single(body):
                if self.number == 0:
                    self.run(body)
            case _:
                self.run(stmt)
        self.names = outer

    def _shared(self, stmt: Allocate) -> Iterator[bool]:
        """The same memory every time: a thread may come again before all others have left."""
        name, outer = stmt.buffer.name, self.memory
        self.memory = dict(outer)
        if id(stmt) not in self.meetings.shared:
            self.fresh(stmt.buffer)
            self.meetings.shared[id(stmt)] = self.memory[name]
        self.memory[name] = self.meetings.shared[id(stmt)]
        yield from self.region(stmt.body)
        self.memory = outer

    def touched(self, memory: Memory, place: int, *, writes: bool) -> None:
        if memory.buffer.scope not in ("global", "shared"):
            return
        key = memory.values.ctypes.data + place * memory.values.itemsize
        writer = self.meetings.writer.get(key, self.number)
        assert writer == self.number, f"threads {writer} and {self.number} meet"
        readers = self.meetings.readers.setdefault(key, set())
        if writes:
            assert readers <= {self.number}, f"threads {readers} and {self.number} meet"
            self.meetings.writer[key] = self.number
        else:
            readers.add(self.number)
