"""The emitter's state at one point of a kernel: names, memory, lanes and mask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from weft.codegen.llvm.builder import Builder, Index, Value
from weft.codegen.llvm.scalar import ScalarOps
from weft.codegen.llvm.target import LlvmTarget
from weft.ir.dtypes import DType
from weft.ir.loop_ir import Scope
from weft.ir.machine import TYPICAL, Machine
from weft.ir.scalar_expr import Expr, Load, Var, walk


@dataclass(frozen=True, slots=True)
class Binding:
    """A buffer in memory. ``private``: lanes that have a copy each, innermost; 0 if shared.
    ``elements``: of a register buffer, padding included; ``row`` and ``padded``: elements of each
    row, without and with the padding to whole vectors. ``overlaps``: buffers that may alias it.
    ``loaded``: the kernel may read it."""

    pointer: Value
    dtype: DType
    strides: tuple[Value, ...]
    scope: Scope
    private: int = 0
    elements: int = 0
    row: int = 0
    padded: int = 0
    overlaps: tuple[str, ...] = ()
    loaded: bool = True


@dataclass(frozen=True, slots=True)
class Lanes:
    """``count`` 0: scalar code. ``mask``: the active lanes, None for all; at least one is active
    unless ``may_be_empty``. ``first``: the number of active lanes if these are the leading ones."""

    count: int = 0
    mask: Value | None = None
    may_be_empty: bool = False
    first: Value | None = None


@dataclass(frozen=True, slots=True)
class Around:
    """A loop of several iterations: what ``names`` meant before it, and the buffers that it
    changes."""

    names: dict[str, Index]
    changed: frozenset[str]

    def keeps(self, expr: Expr, names: dict[str, Index], lane: str) -> bool:
        """Whether ``expr`` is loop-invariant, given the ``names`` bound now; ``lane`` takes the
        same values in each iteration."""
        nodes = list(walk(expr))
        used = {n.name for n in nodes if isinstance(n, Var)} - {lane}
        same = all(n in self.names and self.names[n] is names[n] for n in used)
        return same and self.changed.isdisjoint(str(n.source) for n in nodes if isinstance(n, Load))


@dataclass(frozen=True, slots=True)
class TileSums:
    """The registers of a matrix unit: ``down`` × ``across`` sums of blocks; ``others``: for lane
    operands, which several rows of blocks reuse, and row operands."""

    down: int
    across: int

    def register(self, i: int, j: int) -> int:
        return i * self.across + j

    @property
    def others(self) -> range:
        first = self.down * self.across
        return range(first, first + (self.across if self.down > 1 else 1) + 1)


@dataclass(slots=True)
class Frame:
    b: Builder
    ops: ScalarOps
    target: LlvmTarget
    status: Value
    scratch: Value
    machine: Machine = TYPICAL
    names: dict[str, Index] = field(default_factory=dict)
    bindings: dict[str, Binding] = field(default_factory=dict)
    loaded: dict[int, Value] = field(default_factory=dict)  # known values of loads, by id
    bounds: dict[str, tuple[Value, Value]] = field(default_factory=dict)  # masks: first lanes below
    lanes: Lanes = field(default_factory=Lanes)
    streams: bool = False  # some stores are non-temporal, see ``store.settle``
    changing: frozenset[str] | None = None  # buffers that a long vector loop around stores to
    around: Around | None = None  # the innermost serial loop around
    before: dict[str, Index] | None = None  # names before the innermost loop around
    sums: TileSums | None = None  # in a matrix unit now
    few: str | None = None  # the variable of a loop of a few vectors
    quick: bool = False  # less code

    @contextmanager
    def within(self, lanes: Lanes) -> Iterator[None]:
        """Emit under other lanes or another mask."""
        outer, self.lanes = self.lanes, lanes
        try:
            yield
        finally:
            self.lanes = outer

    @contextmanager
    def naming(self, names: Mapping[str, Index]) -> Iterator[None]:
        """Emit with additional names."""
        outer, self.names = self.names, {**self.names, **names}
        try:
            yield
        finally:
            self.names = outer

    def unchanged(self, expr: Expr) -> bool:
        """Whether the scalar ``expr`` is invariant in a long vector loop around."""
        loads = (str(n.source) for n in walk(expr) if isinstance(n, Load))
        return self.changing is not None and self.changing.isdisjoint(loads)

    def kept(self, expr: Expr) -> bool:
        """Whether the vector ``expr`` is invariant in a loop around a few vectors."""
        if self.few is None or self.around is None:
            return False
        return self.around.keeps(expr, self.names, self.few)

    def narrowed(self, condition: Value, *, may_be_empty: bool) -> Lanes:
        """The lanes where ``condition``, a vector, also holds."""
        mask = self.lanes.mask
        both = condition if mask is None else self.b.binary("and", mask, condition)
        return replace(self.lanes, mask=both, may_be_empty=may_be_empty, first=None)

    def spread(self, value: Index) -> Value:
        """``value`` as a vector of the lanes in force (a scalar outside vector loops)."""
        plain = self.b.materialise(value)
        return plain if plain.lanes else self.b.splat(plain, self.lanes.count)
