"""Memory footprints of the instructions of a stream, each address pattern computed once.

Instructions of a stream repeat: two loads of a tile differ in their addresses only. A pattern
depends on all fields that do not merely offset it, and on its micro-operations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from weft.accel.memory_accesses import (
    Analysed,
    Array,
    Contents,
    MemoryAccess,
    addresses,
    parameters,
)
from weft.ir.accelerator import Accelerator, Operation
from weft.ir.errors import StreamError
from weft.ir.instruction_stream import Issue
from weft.ir.scalar_interpreter import evaluate
from weft.ir.scalar_printer import python_text
from weft.ir.scop import Scop

MAX_KEPT = 1 << 24  # addresses of all patterns that are cached


class Pattern:
    """Non-empty addresses relative to a base; ``order``: in iteration order; ``low``, ``high``: the
    extremes."""

    __slots__ = ("_gap", "_places", "_units", "high", "low", "order")

    def __init__(self, order: Array) -> None:
        self.order = order
        self.low, self.high = int(order.min()), int(order.max())
        self._places: Array | None = None
        self._units: dict[int, Array | None] = {}
        self._gap: int | None = None

    @property
    def places(self) -> Array:
        """The addresses, ascending, without duplicates."""
        if self._places is None:
            self._places = np.unique(self.order)
        return self._places

    @property
    def gap(self) -> int:
        """The least number of iterations between two accesses to an address; 0: there is none."""
        if self._gap is None:
            by = np.argsort(self.order, kind="stable")
            same = self.order[by][1:] == self.order[by][:-1]
            self._gap = int((by[1:] - by[:-1])[same].min()) if same.any() else 0
        return self._gap

    def at(self, base: int, unit: int = 1) -> slice | Array:
        """An index of the addresses from ``base`` in an array with ``unit`` parts per element."""
        if unit not in self._units:
            self._units[unit] = self._parts(unit)
        parts = self._units[unit]
        if parts is None:
            return slice((base + self.low) * unit, (base + self.high + 1) * unit)
        return parts + base * unit

    def _parts(self, unit: int) -> Array | None:
        """None: a contiguous range."""
        if len(self.places) == self.high - self.low + 1:
            return None
        parts: Array = (self.places[:, None] * unit + np.arange(unit)).reshape(-1)
        return parts


class Footprint(NamedTuple):
    """``pattern`` from ``base`` in ``memory``; ``number``: of the statement."""

    memory: str
    writes: bool
    number: int
    base: int
    pattern: Pattern

    @property
    def low(self) -> int:
        return self.base + self.pattern.low

    @property
    def high(self) -> int:
        return self.base + self.pattern.high


class _Moved(NamedTuple):
    """A footprint at base 0, and the fields that offset it, with their defaults."""

    bases: tuple[tuple[str, int], ...]
    footprint: Footprint


@dataclass(frozen=True, slots=True)
class _Known:
    """Of an operation. ``names``: memories by the semantics' tensors; ``defaults``: of parameters
    that are sizes and of missing fields; ``shape``: those that patterns depend on."""

    analysed: Analysed
    names: Mapping[str, str]
    defaults: Mapping[str, int]
    shape: tuple[tuple[str, int], ...]


class Footprints:
    """Footprints of the instructions of ``machine``. ``analysed``: of operations with semantics, by
    name; ``elements``: of main memories."""

    def __init__(
        self,
        machine: Accelerator,
        analysed: Mapping[str, Analysed],
        elements: Mapping[str, int],
    ) -> None:
        self.elements = {
            m.name: elements[m.name] if m.depth is None else m.depth for m in machine.memories
        }
        known = {n: self._known(machine.operation(n), each) for n, each in analysed.items()}
        self._operations = known
        self._found: dict[tuple[object, ...], tuple[_Moved, ...]] = {}
        self._kept = 0
        self.contents = frozenset(
            known[name].names[tensor] for name in known for tensor in known[name].analysed.contents
        )

    def _known(self, operation: Operation, analysed: Analysed) -> _Known:
        scop = analysed.scop
        names = {t.name: operation.memories.get(t.name, t.name) for t in scop.tensors}
        sizes = {f"{t}_elements": self.elements[m] for t, m in names.items() if m in self.elements}
        every = {each.name: each.value or 0 for each in operation.encoding.fields} | sizes
        defaults = {p: every[p] for p in scop.parameters if p in every}
        return _Known(analysed, names, defaults, tuple((n, every[n]) for n in analysed.shape))

    def by_contents(self, operation: str) -> frozenset[str] | None:
        """Memories that ``operation`` writes at addresses that depend on contents; None if fields
        determine all."""
        known = self._operations.get(operation)
        if known is None or not known.analysed.contents:
            return None
        return frozenset(known.names[r.tensor] for r in known.analysed.accesses if r.writes)

    def of(self, issue: Issue, contents: Contents) -> tuple[Footprint, ...]:
        """The footprint of ``issue``, statement by statement, reads before writes; ``contents``: of
        the memories that addresses depend on, by name.

        Raises ``StreamError`` (WEFT-E1040) for an access out of bounds.
        """
        known = self._operations.get(issue.operation)
        if known is None:
            return ()
        get = issue.fields.get
        key = (issue.operation, *[get(name, default) for name, default in known.shape])
        if known.analysed.contents:
            for memory, _, _, base, pattern in self._at(known, issue, (True, *key), contents):
                held = contents[memory][base + pattern.low : base + pattern.high + 1]
                key = (*key, held.tobytes())
        return self._at(known, issue, (False, *key), contents)

    def _at(
        self, known: _Known, issue: Issue, key: tuple[object, ...], contents: Contents
    ) -> tuple[Footprint, ...]:
        """The footprints or, if the key says so, those of the address sources alone."""
        moved = self._found.get(key)
        if moved is None:
            moved = self._found[key] = self._fresh(known, issue, contents, bool(key[0]))
        get = issue.fields.get
        found = []
        for bases, each in moved:
            for name, default in bases:
                memory, writes, number, base, pattern = each
                each = Footprint(memory, writes, number, base + get(name, default), pattern)
            if each.base + each.pattern.low < 0 or each.high >= self.elements[each.memory]:
                raise StreamError(
                    "WEFT-E1040",
                    f"{'writes' if each.writes else 'reads'} {each.memory}[{each.low}] to "
                    f"{each.memory}[{each.high}]",
                    why=f"{each.memory} has {self.elements[each.memory]:,} elements",
                )
            found.append(each)
        return tuple(found)

    def _fresh(
        self, known: _Known, issue: Issue, contents: Contents, sources: bool
    ) -> tuple[_Moved, ...]:
        scop, defaults = known.analysed.scop, known.defaults
        values = {name: issue.fields.get(name, default) for name, default in defaults.items()}
        given = {t: contents[known.names[t]] for t in known.analysed.contents}
        _assumed(scop, values)
        found: list[_Moved] = []
        for accessed in known.analysed.accesses:
            if sources and (accessed.writes or accessed.tensor not in known.analysed.contents):
                continue
            unmoved = {**values, **dict.fromkeys(accessed.bases, 0)}
            order = addresses(accessed, parameters(scop, unmoved), given)
            name, bases = (
                known.names[accessed.tensor],
                tuple((b, defaults[b]) for b in accessed.bases),
            )
            if order.size and not any(_same(other, name, accessed, order) for other in found):
                each = Footprint(name, accessed.writes, accessed.number, 0, Pattern(order))
                found.append(_Moved(bases, each))
                self._kept += order.size
        if self._kept > MAX_KEPT:
            self._found.clear()
            self._kept = sum(each.footprint.pattern.order.size for each in found)
        return tuple(found)


def _assumed(scop: Scop, values: Mapping[str, int]) -> None:
    """Check the assumptions of the semantics."""
    known = parameters(scop, values)
    for each in scop.context:
        value = int(evaluate(each.expr, known))
        if value < 0 or (each.equality and value):
            least = "0" if each.equality else "at least 0"
            raise StreamError(
                "WEFT-E1040",
                f"{scop.name} has no meaning for these fields",
                why=f"{python_text(each.expr)} has to be {least}, and is {value}",
            )


def _same(moved: _Moved, name: str, accessed: MemoryAccess, order: Array) -> bool:
    """Whether an earlier statement has the same footprint in the same order."""
    memory, writes, _, _, pattern = moved.footprint
    if (memory, writes) != (name, accessed.writes) or len(moved.bases) != len(accessed.bases):
        return False
    same = tuple(base for base, _ in moved.bases) == accessed.bases
    return same and np.array_equal(pattern.order, order)
