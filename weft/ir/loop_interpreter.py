"""Loop IR in NumPy, one scalar at a time: slow and obvious, the oracle of every emitter.

Parallel and vector loops run in order, one of the orders that they allow. Nothing is lenient:
an access outside a buffer, a write to a read-only one or a read of memory that was never written
in an ``Allocate`` raises ``AssertionError``.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from weft.ir.dtypes import DType
from weft.ir.loop_ir import (
    MATRIX,
    WORD,
    Allocate,
    AsyncCopy,
    AwaitCopies,
    Barrier,
    Block,
    Buffer,
    Check,
    Comment,
    CommitCopies,
    For,
    If,
    Issue,
    Kernel,
    Let,
    LoadMatrices,
    Prefetch,
    Single,
    Stmt,
    Store,
    Update,
    While,
)
from weft.ir.scalar_expr import Expr, literal
from weft.ir.scalar_point import PointEvaluator

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Status:
    """The first failed ``Check``: code 0 if none failed."""

    code: int = 0
    detail: tuple[int, int] = (0, 0)


def interpret(
    kernel: Kernel, parameters: Mapping[str, int], buffers: Mapping[str, Array]
) -> Status:
    """Run ``kernel`` on flat arrays (one element for each addressable place), in place."""
    machine = Machine(dict(parameters))
    machine.take(kernel, buffers)
    with np.errstate(all="ignore"):
        machine.run(kernel.body)
    return machine.status


@dataclass(slots=True)
class Memory:
    """A buffer's elements, and which of them were ever written."""

    buffer: Buffer
    values: Array
    written: Array
    strides: tuple[int, ...]


@dataclass(slots=True)
class Machine:
    """One thread: the names and memory that it sees."""

    names: dict[str, Any]
    memory: dict[str, Memory] = field(default_factory=dict)
    status: Status = field(default_factory=Status)
    point: PointEvaluator = field(default_factory=PointEvaluator)

    def take(self, kernel: Kernel, buffers: Mapping[str, Array]) -> None:
        """The arguments of ``kernel``."""
        for buffer in kernel.buffers:
            memory = buffers[buffer.name]
            assert memory.ndim == 1 and memory.dtype == buffer.dtype.numpy, buffer.name
            self.bind(buffer, memory, np.ones(memory.shape, bool))

    def touched(self, memory: Memory, place: int, *, writes: bool) -> None:
        """Called at every access."""

    def bind(self, buffer: Buffer, values: Array, written: Array) -> None:
        strides = tuple(int(self.value(s)) for s in buffer.strides)
        self.memory[buffer.name] = Memory(buffer, values, written, strides)

    def value(self, expr: Expr) -> Any:
        return self.point.value(expr, self.names, self._load)

    def _load(self, source: Hashable, indices: tuple[Any, ...]) -> Any:
        memory = self.memory[str(source)]
        return self._read(memory, self._place(memory, indices))

    def _read(self, memory: Memory, place: int) -> Any:
        assert memory.written[place], f"{memory.buffer.name} is read before it is written"
        self.touched(memory, place, writes=False)
        return memory.values[place]

    @staticmethod
    def _place(memory: Memory, indices: Sequence[Any]) -> int:
        place = 0
        for index, stride in zip(indices, memory.strides, strict=True):
            place += int(index) * stride
        inside = 0 <= place < memory.values.size
        assert inside, f"{memory.buffer.name}{list(map(int, indices))} is outside its buffer"
        return place

    def store(self, name: str, indices: tuple[Expr, ...], value: Any) -> None:
        memory = self.memory[name]
        self._write(memory, self._place(memory, [self.value(i) for i in indices]), value)

    def _write(self, memory: Memory, place: int, value: Any) -> None:
        assert memory.buffer.writable, f"{memory.buffer.name} is read only"
        self.touched(memory, place, writes=True)
        memory.values[place] = value
        memory.written[place] = True

    def run(self, stmt: Stmt) -> None:
        outer = self.names
        while isinstance(stmt, Let):
            self.names = {**self.names, stmt.name: self.value(stmt.value)}
            stmt = stmt.body
        match stmt:
            case Block(stmts):
                for each in stmts:
                    self.run(each)
            case For():
                self.repeat(stmt, self.turns(stmt))
            case While():
                while self.value(stmt.condition):
                    self.run(stmt.body)
            case If():
                self.run(stmt.then if self.value(stmt.condition) else stmt.otherwise)
            case Store():
                self.store(stmt.buffer, stmt.indices, self.value(stmt.value))
            case Update():
                self._update(stmt)
            case Check():
                if not self.value(stmt.condition) and not self.status.code:
                    first, second = (int(self.value(d)) for d in stmt.detail)
                    self.status = Status(stmt.code, (first, second))
            case Allocate():
                self._allocate(stmt)
            case Single(body):
                self.run(body)
            case Issue():
                self._issue(stmt)
            case LoadMatrices():
                self._load_row(stmt)
            case AsyncCopy():
                self._copy(stmt)
            case Comment() | Barrier() | Prefetch() | CommitCopies() | AwaitCopies():
                pass
        self.names = outer

    def turns(self, loop: For) -> range:
        return range(int(self.value(loop.lower)), int(self.value(loop.upper)), loop.step)

    def repeat(self, loop: For, turns: range) -> None:
        outer = self.names
        for index in turns:
            self.names = {**outer, loop.var: index}
            self.run(loop.body)
        self.names = outer

    def _update(self, stmt: Update) -> None:
        monoid = stmt.monoid
        targets = []
        for name, indices in stmt.targets:
            memory = self.memory[name]
            targets.append((memory, self._place(memory, [self.value(i) for i in indices])))
        old = [self._read(memory, place) for memory, place in targets]
        new = [self.value(v) for v in stmt.values]
        operands = {v.name: x for v, x in zip(monoid.left, old, strict=True)}
        operands |= {v.name: x for v, x in zip(monoid.right, new, strict=True)}
        results = [self.point.value(c, operands) for c in monoid.combined]
        for (memory, place), result in zip(targets, results, strict=True):
            self._write(memory, place, result)

    def _issue(self, stmt: Issue) -> None:
        """Point by point, as the instruction's semantics say."""
        own, update = stmt.instruction.semantics, stmt.instruction.semantics.update
        assert update is not None, "an instruction accumulates"
        (fold,), (left,), (right,) = update.monoid.combined, update.monoid.left, update.monoid.right
        zeros = (literal(0), literal(0))
        fragments: list[tuple[Memory, int, tuple[Expr, ...]]] = []
        for one, (name, tile) in zip((*own.writes, *own.reads), stmt.operands, strict=True):
            base = self._place(self.memory[name], [self.value(i) for i in (*tile, *zeros)])
            place = stmt.instruction.operands[one.tensor].place
            fragments.append((self.memory[name], base, place))
        for point in np.ndindex(*stmt.instruction.extents.values()):
            names = dict(zip(stmt.instruction.extents, point, strict=True))
            values, places = [], []
            for memory, base, place in fragments:
                lane, number = (int(self.point.value(i, names)) for i in place)
                places.append(base + lane * memory.strides[-2] + number * memory.strides[-1])
                values.append(self._read(memory, places[-1]))
            new = self.point.value(own.body.results[0], {}, partial(_operand, values))
            result = self.point.value(fold, {left.name: values[0], right.name: new})
            self._write(fragments[0][0], places[0], result)

    def _load_row(self, stmt: LoadMatrices) -> None:
        memory, source = self.memory[stmt.target], self.memory[stmt.source]
        matrix, row = divmod(int(self.value(stmt.lane)), MATRIX[0])
        if matrix >= stmt.matrices:
            return
        base = self._place(memory, [*(self.value(i) for i in stmt.tile), 0, 0])
        start = self._place(source, [self.value(i) for i in stmt.indices])
        word = WORD // memory.buffer.dtype.itemsize
        numbers = int(self.value(memory.buffer.shape[-1]))
        for e in range(word * MATRIX[1]):
            across, number = (e, row) if stmt.transposed else (row, e)
            to = MATRIX[1] * across + number // word
            tile, number = divmod(word * matrix + number % word, numbers)
            place = base + tile * memory.strides[-3] + to * memory.strides[-2] + number
            self._write(memory, place, self._read(source, start + e))

    def _copy(self, stmt: AsyncCopy) -> None:
        """At once, which is one of the times it may be."""
        memory, source = self.memory[stmt.target[0]], self.memory[stmt.source[0]]
        valid = int(self.value(stmt.valid))
        assert 0 <= valid <= stmt.count, "a copy takes no more than it is to"
        base = self._place(memory, [self.value(i) for i in stmt.target[1]])
        for k in range(stmt.count):
            value = memory.buffer.dtype.numpy.type(0)
            if k < valid:
                start = self._place(source, [self.value(i) for i in stmt.source[1]])
                value = self._read(source, start + k)
            self._write(memory, base + k, value)

    def _allocate(self, stmt: Allocate) -> None:
        outer = self.memory
        self.memory = dict(outer)
        self.fresh(stmt.buffer)
        self.run(stmt.body)
        self.memory = outer

    def fresh(self, buffer: Buffer) -> None:
        """Memory for ``buffer``, nothing written in it."""
        shape = [int(self.value(s)) for s in buffer.shape]
        strides = [int(self.value(s)) for s in buffer.strides]
        size = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        size = 0 if 0 in shape else size
        self.bind(buffer, np.zeros(size, _numpy(buffer.dtype)), np.zeros(size, bool))


def _operand(values: Sequence[Any], source: Hashable, _: tuple[Any, ...]) -> Any:
    assert isinstance(source, int), "an instruction reads its operands"
    return values[source + 1]


def _numpy(dtype: DType) -> np.dtype[Any]:
    return dtype.numpy
