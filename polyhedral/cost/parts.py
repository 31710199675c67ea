"""Programs as a cost model sees them: statements of several candidates of one shape, in numbers.

The first candidate stands for what all have in common; sizes of tiles and of what they copy are
columns (``forms.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weft.ir.quasi_affine import subscripts
from weft.ir.schedule_tree import Band, Mark, RegisterTile, children
from weft.ir.scop import Statement
from weft.polyhedral.cost.bound import before_running
from weft.polyhedral.cost.forms import ONE, ZERO, Array, Form, Reader, constant_form, total
from weft.polyhedral.cost.nest import Nest, nest_of
from weft.polyhedral.cost.operation_counts import operations_after
from weft.polyhedral.cost.traffic import Axis, Group, Stored
from weft.polyhedral.transform.scheduled import Scheduled


@dataclass(frozen=True, slots=True, eq=False)
class Touch:
    """An access: its axes over the coordinates, bytes of an element, and of a step along each
    coordinate; ``held``: in registers, by its scope."""

    tensor: str
    axes: tuple[Axis, ...]
    item: int
    strides: tuple[Array, ...]
    held: bool

    def along(self, at: tuple[int, Array] | None) -> Array:
        """Bytes from one turn of a loop to the next, which makes known what ``at`` says."""
        return ZERO if at is None else np.abs(self.strides[at[0]]) * np.maximum(at[1], 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """A register tile under ``outside`` loops, with its sizes."""

    payload: RegisterTile
    outside: int
    rows: tuple[Array, ...]
    lanes: Array


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A statement under its loops, of which ``kinds`` says how they run."""

    statement: Statement
    nest: Nest
    kinds: tuple[str, ...]
    writes: tuple[Touch, ...]
    reads: tuple[Touch, ...]
    tile: Tile | None

    def groups(self) -> list[Group]:
        """The accesses that go through caches, those that move together as one."""
        found: dict[object, Group] = {}
        outside = None if self.tile is None else self.tile.outside
        for written, touches in ((True, self.writes), (False, self.reads)):
            for touch in touches:
                slopes = [tuple((c, float(x[0])) for c, x in a.slopes.items()) for a in touch.axes]
                key = touch.tensor, *slopes
                own = Group(touch.tensor, touch.axes, written, outside if written else None)
                if not touch.held:
                    found[key] = found[key].joined(own) if key in found else own
        return list(found.values())

    def chain(self) -> int:
        """Operations from what the last turn of the innermost loop stored to what this one does."""
        at = self.nest.fixed[-1] if self.kinds else None
        inner = None if at is None else at[0]
        return max(
            (
                operations_after(self.statement, n)
                for write in self.writes
                for n, read in enumerate(self.reads)
                if inner is not None and _one_turn(write, read, inner)
            ),
            default=0,
        )


def _one_turn(write: Touch, read: Touch, inner: int) -> bool:
    """Whether ``read`` is at what ``write`` was one turn of coordinate ``inner`` before."""
    if read.tensor != write.tensor:
        return False
    for one, other in zip(write.axes, read.axes, strict=True):
        same = one.slopes.keys() == other.slopes.keys()
        if not same or any((other.slopes[c] != x).any() for c, x in one.slopes.items()):
            return False
        if (one.low - other.low != one.slopes.get(inner, ZERO)).any():
            return False
    return any(inner in axis.slopes for axis in write.axes)


class Parts:
    """``candidates`` with the ``numbers`` of their trees and Scops (one row where all have one)."""

    def __init__(
        self,
        candidates: Sequence[Scheduled],
        trees: Sequence[Sequence[int]],
        scops: Sequence[Sequence[int]],
        sizes: Mapping[str, int],
    ) -> None:
        self.scheduled, self.sizes = candidates[0], sizes
        self.scop, self.tree = self.scheduled.scop, self.scheduled.tree
        self.stored: dict[str, Stored] = {}
        self._domains: dict[str, list[tuple[Form, bool]]] = {}
        self._indices: dict[str, list[list[Form | None]]] = {}
        self._loops: dict[str, list[Form]] = {s.name: [] for s in self.scop.statements}
        self._kinds: dict[str, list[str]] = {s.name: [] for s in self.scop.statements}
        self._tiles: dict[str, Tile] = {}
        self._read_scop(Reader(np.array(scops, float), sizes))
        self._read_tree(Reader(np.array(trees, float), sizes))
        before = before_running(self.scop)
        self.parts = {s.name: self._part(s) for s in self.scop.statements if s.name not in before}

    def _read_scop(self, reader: Reader) -> None:
        for tensor in self.scop.tensors:
            shape = [reader.form(size).constant for size in tensor.shape][tensor.contracted :]
            self.stored[tensor.name] = Stored(tensor.dtype.itemsize, tuple(shape))
        for s in self.scop.statements:
            self._domains[s.name] = [(reader.form(c.expr), c.equality) for c in s.domain]
            self._indices[s.name] = []
            for access in (*s.writes, *s.reads):
                forms: list[Form | None] = [reader.form(index) for index in access.indices]
                if access.may:
                    told = subscripts(self.scop, s, access)
                    forms = [f if f is None else constant_form(f, self.sizes) for f in told]
                self._indices[s.name].append(forms[self.scop.tensor(access.tensor).contracted :])

    def _read_tree(self, reader: Reader) -> None:
        stack = [self.tree]
        while stack:
            node = stack.pop()
            match node:
                case Band(loops):
                    for loop in loops:
                        for name, at in loop.at.items():
                            self._loops[name].append(reader.form(at))
                            self._kinds[name].append(loop.kind)
                case Mark(RegisterTile() as tile, Band(loops)):
                    rows = tuple(reader.number() for _ in tile.rows)
                    lanes = reader.number()
                    for name in loops[0].at:
                        self._tiles[name] = Tile(tile, len(self._loops[name]), rows, lanes)
            stack += reversed(children(node))

    def _part(self, s: Statement) -> Part:
        nest = nest_of(s.dims, self._domains[s.name], self._loops[s.name])
        touches = []
        for access, forms in zip((*s.writes, *s.reads), self._indices[s.name], strict=True):
            stored = self.stored[access.tensor]
            axes = tuple(_axis(nest, f, n) for f, n in zip(forms, stored.shape, strict=True))
            strides = tuple(
                total(
                    axis.slopes[c] * step
                    for axis, step in zip(axes, stored.strides, strict=True)
                    if c in axis.slopes
                )
                for c in range(len(s.dims))
            )
            held = self.scop.tensor(access.tensor).scope == "register"
            touches.append(Touch(access.tensor, axes, stored.item, strides, held))
        count, kinds = len(s.writes), tuple(self._kinds[s.name])
        writes, reads = tuple(touches[:count]), tuple(touches[count:])
        tile = self._tiles.get(s.name) if s.update else None  # what else is marked, proofs refuse
        return Part(s, nest, kinds, writes, reads, tile)


def _axis(nest: Nest, form: Form | None, size: Array) -> Axis:
    """Of an index; of one that is data, anywhere in the tensor."""
    if form is None:
        return Axis(dict.fromkeys(range(len(nest.dims)), size), ZERO, ZERO, size)
    slopes, most = form.slopes(), ONE * np.inf
    if form.floors and form.linear and not any((np.abs(s) > 1e-9).any() for s in slopes.values()):
        slopes, most = dict(form.linear), form.floors[0][2]  # i % 64
    moves = {c: x for c, x in enumerate(nest.over(slopes)) if x.any()}
    return Axis(moves, form.constant, form.constant, most)
