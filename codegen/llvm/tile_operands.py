"""Operands of a block in the registers of a matrix unit (AMX), in LLVM IR.

A register is loaded directly from memory with a constant row stride: 16 rows of ``a``, 64 bytes
each, or 16 rows of words of ``b``, one word per lane. Other layouts, and partial registers (the
last rows, lanes or steps), are assembled row by row in a zero-padded buffer on the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from weft.codegen.llvm.builder import Builder, Index, Ramp, Value, integer
from weft.codegen.llvm.expressions import evaluate, evaluate_all
from weft.codegen.llvm.frame import Binding, Frame, Lanes
from weft.codegen.llvm.memory import address, first_lanes, load_words
from weft.codegen.machines.matrix_units import ROW_BYTES, ROWS
from weft.codegen.tile_issue import Issue, Source
from weft.ir.instruction import Instruction

_AT = "i16"  # type of places in a row


class Host(Protocol):
    """The part of the emitter of statements that operands use."""

    frame: Frame

    def counted(
        self, lower: Value, upper: Value, step: int, body: Callable[[Value], None]
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Operands:
    """Operands of ``issue``, which has ``steps`` steps of its stream."""

    host: Host
    issue: Issue
    instruction: Instruction
    steps: Value

    @property
    def lanes(self) -> int:
        """Lanes of one register."""
        (lane,) = self.instruction.across
        return self.instruction.extents[lane]

    def load_rows(self, register: int, first: int) -> None:
        """16 rows of ``a`` from ``first`` on."""
        issue, depth = self.issue, self.instruction.depth
        buffer, count = self._binding(issue.a), min(ROWS, issue.rows - first)
        whole = issue.a.mask is None and count == ROWS and self.steps.const == depth
        if whole and buffer.strides[-1].const == 1 and issue.strided_rows(first, ROWS, depth):
            places = ({issue.row: integer(first + k), issue.step: integer(0)} for k in (0, 1))
            self._load_evenly(register, issue.a, *places)
            return
        steps = Ramp(integer(0), integer(1), depth)
        lanes = _leading(self.host.frame, self.steps, depth)

        def row(number: Value) -> Value:
            at = self.host.frame.b.add(number, integer(first))
            return self._elements(issue.a, {issue.row: at, issue.step: steps}, lanes)

        self._load_copied(register, count, row)

    def load_words(self, register: int, first: int) -> None:
        """Words of ``b`` for the lanes from ``first`` on."""
        issue, instruction = self.issue, self.instruction
        word, depth = instruction.word, instruction.depth
        buffer, count = self._binding(issue.b), min(self.lanes, issue.lanes - first)
        side_by_side = self._side_by_side(buffer, first)
        whole = issue.b.mask is None and count == self.lanes and self.steps.const == depth
        if whole and side_by_side:
            places = ({issue.lane: integer(first), issue.step: integer(k)} for k in (0, word))
            self._load_evenly(register, issue.b, *places)
            return
        make = self._row_of_words if side_by_side else self._row_of_elements
        self._load_copied(register, depth // word, lambda number: make(number, first, count))

    # ---- in place ---------------------------------------------------------------------------

    def _load_evenly(
        self, register: int, source: Source, one: Mapping[str, Value], two: Mapping[str, Value]
    ) -> None:
        """From memory with the stride between the first two rows."""
        b, buffer = self.host.frame.b, self._binding(source)
        first, second = (self._place(source, names) for names in (one, two))
        far = b.mul(b.sub(second, first), integer(buffer.dtype.itemsize))
        pointer = b.element(buffer.pointer, f"i{buffer.dtype.storage_bits}", first)
        tile_load(b, register, pointer, b.materialise(far))

    def _place(self, source: Source, names: Mapping[str, Index]) -> Value:
        frame = self.host.frame
        with frame.naming(names):
            at = address(frame, self._binding(source), evaluate_all(frame, source.load.indices))
            return frame.b.materialise(at)

    def _binding(self, source: Source) -> Binding:
        return self.host.frame.bindings[source.buffer]

    def _side_by_side(self, buffer: Binding, first: int) -> bool:
        """Whether words of neighbouring lanes, from ``first`` on, are contiguous."""
        word, strides = self.instruction.word, [stride.const for stride in buffer.strides]
        found = self.issue.strided_words(first, self.lanes, self.instruction.depth, word)
        if found is None or strides[-1] != 1:
            return False
        moved = [(n, far) for n, far in zip(found[1], strides, strict=True) if n]
        return all(far is not None for _, far in moved) and word == sum(
            n * int(far or 0) for n, far in moved
        )

    # ---- by way of the stack ----------------------------------------------------------------

    def _load_copied(self, register: int, rows: int, row: Callable[[Value], Value]) -> None:
        b = self.host.frame.b
        piece = b.alloca("i8", ROWS * ROW_BYTES)

        def copy(number: Value) -> None:
            value = row(number)
            at = b.materialise(b.mul(number, integer(ROW_BYTES)))
            b.store(value, b.element(piece, "i8", at))

        self.host.counted(integer(0), integer(rows), 1, copy)
        tile_load(b, register, piece, integer(ROW_BYTES))

    def _elements(self, source: Source, names: Mapping[str, Index], lanes: Lanes) -> Value:
        """The bits of an element in each lane; 0 in inactive ones."""
        frame, buffer = self.host.frame, self._binding(source)
        with frame.naming(names), frame.within(lanes):
            at = address(frame, buffer, evaluate_all(frame, source.load.indices))
            found = load_words(frame, buffer, at, 1, self._mask(source))
            return found if found.lanes else self._where(found, lanes)

    def _mask(self, source: Source) -> Value | None:
        frame = self.host.frame
        if source.mask is None:
            return None
        return frame.spread(frame.b.materialise(evaluate(frame, source.mask)))

    def _where(self, element: Value, lanes: Lanes) -> Value:
        """``element`` in each of ``lanes``."""
        b = self.host.frame.b
        every = b.splat(element, lanes.count)
        none = b.splat(integer(0, element.type), lanes.count)
        return every if lanes.mask is None else b.select(lanes.mask, every, none)

    def _row_of_words(self, number: Value, first: int, count: int) -> Value:
        """The contiguous words of ``count`` lanes, padded with zeros after the last step."""
        frame, b, issue = self.host.frame, self.host.frame.b, self.issue
        word, buffer = self.instruction.word, self._binding(issue.b)
        start = b.mul(number, integer(word))
        at = self._place(issue.b, {issue.lane: integer(first), issue.step: start})
        left = b.intrinsic("smax", b.materialise(b.sub(self.steps, start)), integer(0))
        left = b.cast("trunc", b.intrinsic("smin", left, integer(word)), _AT)
        elements = self.lanes * word
        within = b.compare("icmp ult", _numbers(elements, word), b.splat(left, elements))
        lanes = _leading(frame, integer(count), self.lanes)
        lane = Ramp(integer(first), integer(1), self.lanes)
        with frame.naming({issue.lane: lane}), frame.within(lanes):
            mask = self._mask(issue.b)
            lanes = lanes if mask is None else frame.narrowed(mask, may_be_empty=True)
        if lanes.mask is not None:
            each = b.shuffle(lanes.mask, None, [k // word for k in range(elements)])
            within = b.binary("and", within, each)
        some = Lanes(elements, within, may_be_empty=True)
        with frame.within(some):
            return load_words(frame, buffer, Ramp(at, integer(1), elements), 1, None)

    def _row_of_elements(self, number: Value, first: int, count: int) -> Value:
        """The words of ``count`` lanes, assembled element by element."""
        frame, b, issue = self.host.frame, self.host.frame.b, self.issue
        word, bits = self.instruction.word, self._binding(issue.b).dtype.storage_bits
        lane = Ramp(integer(first), integer(1), self.lanes)
        start, total = b.mul(number, integer(word)), None
        for k in range(word):
            step = b.add(start, integer(k))
            there = b.compare("icmp slt", b.materialise(step), self.steps)
            with frame.within(_leading(frame, integer(count), self.lanes)):
                lanes = frame.narrowed(b.splat(there, self.lanes), may_be_empty=True)
            element = self._elements(issue.b, {issue.lane: lane, issue.step: step}, lanes)
            wide = b.cast("zext", element, f"i{word * bits}", self.lanes)
            wide = b.binary("shl", wide, b.splat(integer(k * bits, wide.type), self.lanes))
            total = wide if total is None else b.binary("or", total, wide)
        assert total is not None, "words have elements"
        return total


def tile_load(b: Builder, register: int, at: Value, stride: Value) -> None:
    b.declare("void @llvm.x86.tileloadd64(i8, ptr, i64)")
    b.line(f"call void @llvm.x86.tileloadd64(i8 {register}, {at}, {stride})")


def _leading(frame: Frame, count: Value, lanes: int) -> Lanes:
    """The first ``count`` of ``lanes`` lanes."""
    if count.const == lanes:
        return Lanes(lanes)
    return Lanes(lanes, first_lanes(frame, count, lanes), may_be_empty=True, first=count)


def _numbers(elements: int, word: int) -> Value:
    """The position of each element in its word."""
    shown = ", ".join(f"{_AT} {k % word}" for k in range(elements))
    return Value(f"<{shown}>", _AT, elements)
