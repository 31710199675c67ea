"""Instructions in program order, before synchronisation: fields and accessed regions.

    SequentialIssue ::= operation, fields, regions: Region…, words
    Region ::= memory, begin, end, writes

``words``: the micro-operations of the instruction, which are loaded later. ``SequentialProgram``
collects issues of moves and loop nests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from weft.accel.boxes import Move
from weft.accel.capabilities import Address, Compute, Transfer
from weft.accel.hardware_loops import Arrangement, Loop
from weft.accel.refusal import Refusal
from weft.accel.split_moves import split_move
from weft.ir.accelerator import Accelerator

Words = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Region:
    """Elements from ``begin`` up to, excluding, ``end``; in main memory bytes."""

    memory: str
    begin: int
    end: int
    writes: bool


@dataclass(frozen=True, slots=True)
class SequentialIssue:
    operation: str
    fields: Mapping[str, int]
    regions: tuple[Region, ...]
    words: Words | None = None
    moved: int = 0  # bytes from or to main memory


MAIN = "main memory"


@dataclass(slots=True)
class SequentialProgram:
    """``blanks``: of main memories, an element that stays 0."""

    machine: Accelerator
    found: list[SequentialIssue] = field(default_factory=list)
    blanks: Mapping[str, int] = field(default_factory=dict)

    def move(
        self,
        transfer: Transfer,
        move: Move,
        local: int,
        main: int,
        row_bytes: int,
        group: int = 1,
    ) -> None:
        """Issue ``move`` by ``transfer``. ``local``: the begin of the box, ``main``: of the tensor,
        in addresses of ``row_bytes`` bytes in main memory; elements have ``group`` addresses."""
        for part in split_move(transfer, _grouped(move, group)):
            begin = self.blanks[transfer.main.memory] if part.blank else main + part.main
            fields = _based(transfer.local, local + part.local)
            fields |= _based(transfer.main, begin if part.rows else 0)
            fields |= _span_fields(transfer, part)
            self._check(transfer.operation.name, fields)
            start = local + part.local
            regions = [Region(transfer.local.memory, start, start + part.size, transfer.into)]
            if part.rows:
                first = begin * row_bytes
                last = first + ((part.rows - 1) * part.step + part.columns) * row_bytes
                regions.append(Region(MAIN, first, last, not transfer.into))
            moved = part.rows * part.columns * row_bytes
            name = transfer.operation.name
            self.found.append(SequentialIssue(name, fields, tuple(regions), moved=moved))

    def compute(
        self,
        compute: Compute,
        made: Arrangement,
        bases: Sequence[int],
        numbers: Mapping[str, int],
    ) -> None:
        """Issue ``compute`` over the loops of ``made``, from ``bases`` on, the target's first."""
        for moved, _ in steps_of(made.issued, bases):
            self._one(compute, made, moved, numbers)

    def _one(
        self, compute: Compute, made: Arrangement, bases: Sequence[int], numbers: Mapping[str, int]
    ) -> None:
        addresses = (compute.target, *compute.operands)
        fields = dict(numbers)
        for own, loop in zip(compute.loops, made.hardware, strict=True):
            fields[own.field] = loop.extent - own.offset
            for address, step in zip(addresses, loop.steps, strict=True):
                name = address.steps.get(own.dim, 0)
                if isinstance(name, str) and loop.extent > 1:
                    fields[name] = step
        words = self._words(compute, made, bases)
        if words is None:
            for address, base in zip(addresses, bases, strict=True):
                fields |= _based(address, base)
        encoding = {each.name for each in compute.operation.encoding.fields}
        for name, other in compute.operation.same.items():
            if name in encoding:
                fields[name] = fields.get(other, 0)
        self._check(compute.operation.name, fields)
        loops = (*made.hardware, *made.unrolled)
        regions = [
            _region(a, base, loops, n)
            for n, (a, base) in enumerate(zip(addresses, bases, strict=True))
        ]
        target = regions[0]
        written = [
            Region(m, target.begin, target.end, True)
            for m in (target.memory, *(copy.memory for copy in compute.copies))
        ]
        self.found.append(
            SequentialIssue(compute.operation.name, fields, (*regions, *written), words)
        )

    def _words(self, compute: Compute, made: Arrangement, bases: Sequence[int]) -> Words | None:
        """The micro-operations of the unrolled loops."""
        if compute.words is None:
            return None
        addresses = (compute.target, *compute.operands)
        word = np.zeros((), np.int64)
        for n, (address, base) in enumerate(zip(addresses, bases, strict=True)):
            if address.bits is None:
                continue
            place = np.full((), base)
            for k, loop in enumerate(made.unrolled):
                shape = [-1 if j == k else 1 for j in range(len(made.unrolled))]
                place = place + (np.arange(loop.extent) * loop.steps[n]).reshape(shape)
            if place.min() < 0 or int(place.max()) >> address.bits.width:
                raise Refusal(f"an element of {address.memory} has no place in a micro-operation")
            word = word + (place << address.bits.place)
            for name, other in compute.operation.same.items():
                own = self._micro_fields.get(other)
                if own == address.bits.place:
                    word = word + (place << self._micro_fields[name])
        whole = np.broadcast_to(word, [loop.extent for loop in made.unrolled])
        return tuple(whole.reshape(-1).tolist())

    @property
    def _micro_fields(self) -> Mapping[str, int]:
        encoding = self.machine.micro_operation
        return {} if encoding is None else encoding.places

    def _check(self, operation: str, fields: Mapping[str, int]) -> None:
        """Refuse values that exceed their fields."""
        found = self.machine.operation(operation)
        for name, value in fields.items():
            if not found.holds(name, value):
                raise Refusal(f"{name} = {value} does not fit into {operation}")


def steps_of(loops: Sequence[Loop], bases: Sequence[int]) -> Iterator[tuple[list[int], bool]]:
    """The addresses in each iteration of ``loops``, and whether it is the first for its target."""
    for index in product(*(range(loop.extent) for loop in loops)):
        pairs = list(zip(index, loops, strict=True))
        moved = [base + sum(i * loop.steps[n] for i, loop in pairs) for n, base in enumerate(bases)]
        yield moved, all(not i or loop.steps[0] for i, loop in pairs)


def _region(address: Address, base: int, loops: Sequence[Loop], number: int) -> Region:
    reach = [(loop.extent - 1) * loop.steps[number] for loop in loops]
    low = base + sum(min(0, r) for r in reach)
    end = base + sum(max(0, r) for r in reach) + address.group
    return Region(address.memory, low, end, False)


def _grouped(move: Move, group: int) -> Move:
    """``move``, of elements of ``group`` addresses each, in addresses."""
    if group == 1:
        return move
    return replace(
        move,
        local=move.local * group,
        main=move.main * group,
        columns=move.columns * group,
        step=move.step * group,
        columns_before=move.columns_before * group,
        columns_after=move.columns_after * group,
    )


def _based(address: Address, place: int) -> dict[str, int]:
    """The fields that encode address ``place``, the coarsest first."""
    rest = place - address.constant
    fields: dict[str, int] = {}
    for name, factor in address.base:
        fields[name], rest = divmod(rest, factor)
    if rest or (not address.base and place != address.constant):
        raise Refusal(f"no instruction reaches element {place} of {address.memory}")
    return fields


def _span_fields(transfer: Transfer, move: Move) -> dict[str, int]:
    fields: dict[str, int] = {}
    rows, columns = transfer.rows, transfer.columns
    given = (
        (rows.size, move.rows - rows.offset),
        (rows.before, move.rows_before),
        (rows.after, move.rows_after),
        (columns.size, move.columns - columns.offset),
        (columns.before, move.columns_before),
        (columns.after, move.columns_after),
    )
    for name, value in given:
        if name is not None:
            fields[name] = value
    if isinstance(transfer.step, str) and move.rows > 1:
        fields[transfer.step] = move.step
    return fields
