"""Instructions before they wait for each other: what each does, and which elements it touches.

    Draft  ::= operation, fields, regions: Region…, words
    Region ::= memory, begin, end, writes

``words`` are the micro-operations that it steps through, which are loaded later. ``Drafts``
collects drafts, from moves and loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from weft.accel.abilities import Address, Compute, Transfer
from weft.accel.accelerator import Accelerator
from weft.accel.boxes import Move
from weft.accel.refusal import Refusal
from weft.accel.turns import Arrangement, Loop

Words = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Region:
    """Elements ``begin`` to before ``end``; of main memory in bytes."""

    memory: str
    begin: int
    end: int
    writes: bool


@dataclass(frozen=True, slots=True)
class Draft:
    operation: str
    fields: Mapping[str, int]
    regions: tuple[Region, ...]
    words: Words | None = None


MAIN = "main memory"


@dataclass(slots=True)
class Drafts:
    machine: Accelerator
    found: list[Draft] = field(default_factory=list)

    def move(self, transfer: Transfer, move: Move, local: int, main: int, row_bytes: int) -> None:
        """``move`` by ``transfer``: ``local`` is the begin of the box, ``main`` the tensor's, in
        elements; of ``row_bytes`` bytes."""
        for part in _parts(transfer, move):
            fields = _based(transfer.local, local + part.local)
            fields |= _based(transfer.main, main + part.main if part.rows else 0)
            fields |= _span_fields(transfer, part)
            self._check(transfer.operation.name, fields)
            start = local + part.local
            regions = [Region(transfer.local.memory, start, start + part.size, transfer.into)]
            if part.rows:
                first = (main + part.main) * row_bytes
                last = first + ((part.rows - 1) * part.step + part.columns) * row_bytes
                regions.append(Region(MAIN, first, last, not transfer.into))
            self.found.append(Draft(transfer.operation.name, fields, tuple(regions)))

    def compute(
        self,
        compute: Compute,
        made: Arrangement,
        bases: Sequence[int],
        numbers: Mapping[str, int],
    ) -> None:
        """``compute`` over the loops of ``made``, from ``bases`` on, the target's first."""
        for index in product(*(range(loop.extent) for loop in made.separate)):
            moved = [
                base + sum(i * loop.steps[n] for i, loop in zip(index, made.separate, strict=True))
                for n, base in enumerate(bases)
            ]
            self._one(compute, made, moved, numbers)

    def _one(
        self, compute: Compute, made: Arrangement, bases: Sequence[int], numbers: Mapping[str, int]
    ) -> None:
        addresses = (compute.target, *compute.operands)
        fields = dict(numbers)
        for turn, loop in zip(compute.turns, made.turns, strict=True):
            fields[turn.field] = loop.extent - turn.offset
            for address, step in zip(addresses, loop.steps, strict=True):
                name = address.steps.get(turn.dim, 0)
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
        loops = (*made.turns, *made.listed)
        regions = [
            _touched(a.memory, base, loops, n)
            for n, (a, base) in enumerate(zip(addresses, bases, strict=True))
        ]
        target = regions[0]
        written = [
            Region(m, target.begin, target.end, True)
            for m in (target.memory, *(copy.memory for copy in compute.copies))
        ]
        self.found.append(Draft(compute.operation.name, fields, (*regions, *written), words))

    def _words(self, compute: Compute, made: Arrangement, bases: Sequence[int]) -> Words | None:
        """The micro-operations of the loops that are listed."""
        if compute.words is None:
            return None
        addresses = (compute.target, *compute.operands)
        word = np.zeros((), np.int64)
        for n, (address, base) in enumerate(zip(addresses, bases, strict=True)):
            if address.bits is None:
                continue
            place = np.full((), base)
            for k, loop in enumerate(made.listed):
                shape = [-1 if j == k else 1 for j in range(len(made.listed))]
                place = place + (np.arange(loop.extent) * loop.steps[n]).reshape(shape)
            if place.min() < 0 or int(place.max()) >> address.bits.width:
                raise Refusal(f"an element of {address.memory} has no place in a micro-operation")
            word = word + (place << address.bits.place)
            for name, other in compute.operation.same.items():
                own = self._micro_fields.get(other)
                if own == address.bits.place:
                    word = word + (place << self._micro_fields[name])
        whole = np.broadcast_to(word, [loop.extent for loop in made.listed])
        return tuple(whole.reshape(-1).tolist())

    @property
    def _micro_fields(self) -> Mapping[str, int]:
        encoding = self.machine.micro_operation
        return {} if encoding is None else encoding.places

    def _check(self, operation: str, fields: Mapping[str, int]) -> None:
        """Refuse numbers that do not fit into their fields."""
        found = self.machine.operation(operation)
        for name, value in fields.items():
            if not found.holds(name, value):
                raise Refusal(f"{name} = {value} does not fit into {operation}")


def _touched(memory: str, base: int, loops: Sequence[Loop], number: int) -> Region:
    reach = [(loop.extent - 1) * loop.steps[number] for loop in loops]
    low = base + sum(min(0, r) for r in reach)
    return Region(memory, low, base + sum(max(0, r) for r in reach) + 1, False)


def _based(address: Address, place: int) -> dict[str, int]:
    """The fields that say ``place``: the coarsest first."""
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
        (rows.size, move.rows),
        (rows.before, move.rows_before),
        (rows.after, move.rows_after),
        (columns.size, move.columns),
        (columns.before, move.columns_before),
        (columns.after, move.columns_after),
    )
    for name, value in given:
        if name is not None:
            fields[name] = value
    if isinstance(transfer.step, str) and move.rows > 1:
        fields[transfer.step] = move.step
    return fields


def _parts(transfer: Transfer, move: Move) -> Iterator[Move]:
    """``move`` in parts that fit into the fields of one instruction."""
    holds = transfer.operation.holds
    width = move.columns_before + move.columns + move.columns_after
    alone = transfer.rows.size is None or (
        move.rows > 1
        and (
            not holds(transfer.rows.size, move.rows)
            or (isinstance(transfer.step, str) and not holds(transfer.step, move.step))
            or (not isinstance(transfer.step, str) and transfer.step != move.step)
        )
    )
    if not move.rows:
        yield from _zeros(transfer, move)
    elif alone and not (move.rows_before or move.rows_after):
        for row in range(move.rows):
            line = Move(
                move.local + row * width, move.main + row * move.step, 1, move.columns, 0,
                0, 0, move.columns_before, move.columns_after,
            )  # fmt: skip
            yield from _short(transfer, line)
    else:
        yield move


def _short(transfer: Transfer, move: Move) -> Iterator[Move]:
    """A row in parts that fit."""
    assert transfer.columns.size is not None, "a transfer has a size"
    field_ = next(f for f in transfer.operation.encoding.fields if f.name == transfer.columns.size)
    most = field_.limits[1]
    if move.columns <= most or move.columns_before or move.columns_after:
        yield move
        return
    for at in range(0, move.columns, most):
        yield Move(move.local + at, move.main + at, 1, min(most, move.columns - at), 0)


def _zeros(transfer: Transfer, move: Move) -> Iterator[Move]:
    """Rows of nothing but zeros."""
    name = transfer.rows.before
    if name is None:
        raise Refusal(f"{transfer.operation.name} cannot fill with zeros")
    field_ = next(f for f in transfer.operation.encoding.fields if f.name == name)
    most = field_.limits[1]
    for at in range(0, move.rows_before, most):
        count = min(most, move.rows_before - at)
        yield Move(move.local + at * move.columns, 0, 0, move.columns, 0, count)
