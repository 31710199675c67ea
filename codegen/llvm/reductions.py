"""Reductions in a vector loop: partial results, one per lane, in several independent sets.

    for v: s max= x[v]     →     most[set] = x[v] > most[set] ? x[v] : most[set]      each lane
                                 ordered  &= x[v] == x[v] and x[v + W] == x[v + W]

The maximum is NaN if any element is. x86 has no instruction for that, and a test of each element
takes twice as long as the comparison. So the lanes record whether they have seen a NaN, one
comparison for two vectors, and the result is NaN if any has.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Protocol

from weft.codegen.llvm.builder import Builder, Value, floating, integer, register_type
from weft.codegen.llvm.expressions import combine, evaluate_all
from weft.codegen.llvm.frame import Frame
from weft.ir.loop_ir import Update
from weft.ir.scalar_expr import apply
from weft.ir.tensor_expr import Monoid

_ORDER = {"max": "ogt", "min": "olt"}


class Host(Protocol):
    """The part of the emitter of statements that reductions use."""

    frame: Frame

    def fold_into(self, stmt: Update, values: list[Value]) -> None: ...


class Reductions:
    """Partial results of ``updates``, ``lanes`` wide, in ``sets`` independent sets."""

    def __init__(self, frame: Frame, updates: list[Update], lanes: int, sets: int) -> None:
        self.updates, self.lanes, self.sets = updates, lanes, sets
        self._set = 0
        self.cells: dict[int, list[list[Value]]] = {}
        self._ordered: dict[int, Value] = {}  # of maxima: the lanes that have seen no NaN
        self._some: Value | None = None
        for update in updates:
            identity = _identity(frame, update.monoid, lanes)
            self.cells[id(update)] = [[frame.b.cell(v) for v in identity] for _ in range(sets)]
            if lanes > 1 and _tracks_nan(frame, update.monoid):
                all_lanes = frame.b.splat(integer(1, "i1"), lanes)
                self._ordered[id(update)] = frame.b.cell(all_lanes)

    def use_set(self, position: int) -> None:
        """Accumulate in this set, modulo their number, from now on."""
        self._set = position % self.sets

    def accumulate(self, frame: Frame, stmt: Update) -> bool:
        """Accumulate ``stmt`` in the current set; False if it is not among ``updates``."""
        if id(stmt) not in self.cells:
            return False
        values = [frame.spread(v) for v in evaluate_all(frame, stmt.values)]
        several = [frame.b.parts(v, self.lanes) for v in values]
        if id(stmt) in self._ordered:
            self._look_for_nan(frame, self._ordered[id(stmt)], several[0])
        for position, vectors in enumerate(zip(*several, strict=True)):
            self._fold_into(frame, stmt, (self._set + position) % self.sets, vectors)
        return True

    def _look_for_nan(self, frame: Frame, cell: Value, vectors: Sequence[Value]) -> None:
        b, mask = frame.b, frame.lanes.mask
        seen = before = b.load(cell, "i1", self.lanes)
        for one, other in zip_longest(vectors[::2], vectors[1::2]):
            ordered = b.compare("fcmp ord", one, one if other is None else other)
            seen = b.binary("and", seen, ordered)
        b.store(seen if mask is None else b.select(mask, seen, before), cell)

    def _nan(self, frame: Frame, stmt: Update) -> Value:
        ordered = frame.b.load(self._ordered[id(stmt)], "i1", self.lanes)
        every = frame.b.splat(integer(1, "i1"), self.lanes)
        return frame.b.any_lane(frame.b.binary("xor", ordered, every))

    def _fold_into(
        self, frame: Frame, stmt: Update, position: int, values: Sequence[Value]
    ) -> None:
        old, mask = self._read(frame, stmt, position), frame.lanes.mask
        cells, folded = self.cells[id(stmt)][position], self._combine(frame, stmt, values, old)
        for cell, new, before in zip(cells, folded, old, strict=True):
            frame.b.store(new if mask is None else frame.b.select(mask, new, before), cell)

    def _combine(
        self, frame: Frame, stmt: Update, new: Sequence[Value], old: Sequence[Value]
    ) -> list[Value]:
        if id(stmt) in self._ordered:
            return [_more_extreme(frame.b, stmt.monoid, new[0], old[0])]
        return combine(frame, stmt.monoid, new, old)

    def _read(self, frame: Frame, stmt: Update, position: int) -> list[Value]:
        cells = self.cells[id(stmt)][position]
        types = [register_type(d) for d in stmt.monoid.dtypes]
        return [frame.b.load(c, t, self.lanes) for c, t in zip(cells, types, strict=True)]

    def share(self, frame: Frame) -> None:
        """From now on several loops accumulate, each of which may be empty."""
        self._some = frame.b.cell(integer(0, "i1"))

    def note(self, frame: Frame, some: Value) -> Value:
        """Whether an iteration of these loops ran so far: of the one now, if ``some``."""
        if self._some is None:
            return some
        some = frame.b.binary("or", frame.b.load(self._some, "i1"), some)
        frame.b.store(some, self._some)
        return some

    def finish(self, host: Host) -> None:
        """Combine sets and lanes, and fold the result into the target."""
        frame = host.frame
        for stmt in self.updates:
            parts = [self._read(frame, stmt, k) for k in range(self.sets)]
            while len(parts) > 1:
                half = len(parts) // 2
                parts = [self._combine(frame, stmt, parts[k], parts[k + half]) for k in range(half)]
            if id(stmt) in self._ordered:
                total = [_extreme(frame.b, stmt.monoid, parts[0][0], self._nan(frame, stmt))]
            else:
                total = _fold(frame, stmt.monoid, parts[0])
            host.fold_into(stmt, total)


def fold_lanes(frame: Frame, monoid: Monoid, values: Sequence[Value]) -> list[Value]:
    """One value per component out of the active lanes."""
    spread = [frame.spread(v) for v in values]
    mask = frame.lanes.mask
    if mask is not None:
        identity = _identity(frame, monoid, mask.lanes)
        spread = [frame.b.select(mask, v, i) for v, i in zip(spread, identity, strict=True)]
    return _fold(frame, monoid, spread)


def _fold(frame: Frame, monoid: Monoid, values: list[Value]) -> list[Value]:
    b = frame.b
    if _of_floats(monoid):
        nan = b.any_lane(b.compare("fcmp uno", values[0], values[0]))
        return [_extreme(b, monoid, values[0], nan)]
    if _is_integer_sum(monoid) and values[0].lanes > 1:
        # LLVM 22 miscompiles reductions by halves of products or differences of bytes: it
        # matches vpdpbusd or psadbw and does not add up their lanes.
        return [b.reduce_lanes("add", values[0])]
    while values[0].lanes > 1:
        half = values[0].lanes // 2
        low = [b.shuffle(v, None, list(range(half))) for v in values]
        high = [b.shuffle(v, None, list(range(half, 2 * half))) for v in values]
        values = combine(frame, monoid, low, high)
    return [b.extract(v, integer(0)) for v in values]


def _extreme(b: Builder, monoid: Monoid, value: Value, nan: Value) -> Value:
    """The extreme of all lanes, NaN where ``nan``."""
    while value.lanes > 1:
        half = value.lanes // 2
        low, high = (b.shuffle(value, None, list(range(k, k + half))) for k in (0, half))
        value = _more_extreme(b, monoid, low, high)
    first = b.extract(value, integer(0)) if value.lanes else value
    return b.select(nan, floating(float("nan"), value.type), first)


def _more_extreme(b: Builder, monoid: Monoid, new: Value, old: Value) -> Value:
    """``new`` if it is beyond ``old``, ignoring NaN in ``new``: one instruction."""
    return b.select(b.compare(f"fcmp {_ORDER[monoid.name]}", new, old), new, old)


def _tracks_nan(frame: Frame, monoid: Monoid) -> bool:
    """Whether NaN is tracked separately: no instruction computes a maximum that propagates NaN."""
    return _of_floats(monoid) and frame.target.triple.startswith("x86_64")


def _is_integer_sum(monoid: Monoid) -> bool:
    if len(monoid.left) > 1 or not monoid.dtypes[0].is_integer:
        return False
    return monoid.combined == (apply("add", *monoid.left, *monoid.right),)


def _of_floats(monoid: Monoid) -> bool:
    return monoid.name in _ORDER and monoid.dtypes[0].is_float


def _identity(frame: Frame, monoid: Monoid, lanes: int) -> list[Value]:
    pairs = zip(monoid.identity, monoid.dtypes, strict=True)
    return [frame.b.splat(frame.ops.literal(value, dtype), lanes) for value, dtype in pairs]
