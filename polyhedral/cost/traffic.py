"""What passes between memories: lines, and pages of translations, of several candidates at once.

One iteration of a loop touches a footprint: a box for every group of accesses to one tensor that
move together, which lies in so many runs of neighbouring bytes, and these in so many lines. The
model is that of a memory that keeps what was used last:

* what one iteration of a loop touches stays until the next if all of it fits; then the loop as a
  whole brings in each block once;
* the outermost loop of which that is true decides; everything around it brings in its footprint
  anew each time;
* a block is moved whole, and a line that is written is moved twice;
* blocks that are a large power of two apart share few sets, and only these hold them;
* what a register tile stores is in registers while its streams run.

A TLB is a cache of pages. See Wolf and Lam, "A data locality optimizing algorithm" (1991);
Ferrante, Sarkar and Thrash, "On estimating and enhancing cache effectiveness" (1991).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from weft.ir.schedule_tree import Band, Leaf, Mark, RegisterTile, Tree, children, statements_below
from weft.polyhedral.cost.forms import Array, Flags
from weft.polyhedral.cost.nest import Nest


@dataclass(frozen=True, slots=True, eq=False)
class Memories:
    """Levels with blocks of ``block`` bytes: ``ways`` in each of ``sets`` sets, a row per level.
    ``written``: how often a block passes that is changed: lines come and go, pages do not."""

    block: int
    sets: Array
    ways: Array
    written: int = 2


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """A tensor in memory: bytes of an element, of an axis' step, and of all of it."""

    item: int
    shape: tuple[Array, ...]

    @property
    def strides(self) -> tuple[Array, ...]:
        found: list[Array] = [np.full(1, float(self.item))]
        for size in reversed(self.shape[1:]):
            found.append(found[-1] * np.maximum(size, 1.0))
        return tuple(reversed(found))[: len(self.shape)]

    @property
    def bytes(self) -> Array:
        total: Array = np.full(1, float(self.item))
        for size in self.shape:
            total = total * size
        return total


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """The coordinates that move an index, and how far; the least and greatest constant of a group,
    of so many ``constants``; and how many values the index has at most (``i % 64``)."""

    slopes: Mapping[int, Array]
    low: Array
    high: Array
    most: Array
    constants: int = 1

    def joined(self, other: Axis) -> Axis:
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        known = bool(np.all((other.low == self.low) | (other.low == self.high)))
        more = 0 if known and other.constants == 1 else other.constants
        return replace(self, low=low, high=high, constants=self.constants + more)

    def copies(self, reached: Array, room: Array) -> Array:
        """How many boxes the constants make: 1 where these are as near as what coordinates have
        ``reached``, or ``room`` more."""
        count = np.minimum(self.constants, self.high - self.low + 1)
        gap = (self.high - self.low) / np.maximum(count - 1, 1)
        return np.where(gap - reached >= room, count, 1)


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Accesses of one statement to one tensor that differ by constants. ``written``: whether it
    changes; ``held``: loops outside of the register tile that keeps it, or None."""

    tensor: str
    axes: tuple[Axis, ...]
    written: bool
    held: int | None = None

    @property
    def moved(self) -> frozenset[int]:
        """The coordinates that it moves with."""
        return frozenset(c for axis in self.axes for c in axis.slopes)

    @property
    def apart(self) -> bool:
        """Whether each index moves with a coordinate of its own, or with none."""
        return len(self.moved) == sum(len(axis.slopes) for axis in self.axes) and all(
            len(axis.slopes) < 2 for axis in self.axes
        )

    def joined(self, other: Group) -> Group:
        axes = tuple(a.joined(b) for a, b in zip(self.axes, other.axes, strict=True))
        return replace(self, axes=axes, written=self.written or other.written)


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """``count`` of them, in so many ``runs`` of neighbours; ``crowd``: more of them share a
    set than would if they were spread over all."""

    count: Array
    runs: Array
    crowd: Array


def blocks_of(group: Group, stored: Stored, widths: Array, memories: Memories) -> Blocks:
    """Of one box of ``group``, where coordinates have ``widths`` values."""
    block, reach = float(memories.block), memories.sets * memories.block
    runs, points = np.ones(1), np.ones(1)
    span: Array = np.full(1, float(stored.item))  # bytes from the first to the last of a run
    sets = memories.sets  # that they lie in
    copies = np.ones(1)  # of the box, by constants that are far apart
    aligned: Array = np.ones(1, bool)
    sides = list(zip(group.axes, stored.shape, stored.strides, strict=True))
    for axis, size, stride in reversed(sides):
        reached, different = np.ones(1), np.ones(1)
        for c, slope in axis.slopes.items():
            reached = reached + np.abs(slope) * np.maximum(widths[c] - 1, 0.0)
            different = different * np.maximum(widths[c], 1.0)
        boxes = axis.copies(reached, block / stride)
        copies = copies * boxes
        constants = np.where(boxes > 1, 1, axis.high - axis.low + 1)
        reached, different = reached + constants - 1, different * constants
        reached = np.minimum(np.minimum(reached, size), axis.most)
        different = np.minimum(different, reached)
        points = points * constants
        far = (different > 1) & (stride * reached / np.maximum(different, 1) - span >= block)
        if far.any():
            apart = np.gcd(stride.astype(np.int64), reach.astype(np.int64))
            places = np.minimum(reach / np.maximum(apart, block), different)
            own = np.minimum(places * np.ceil(span / block) * runs, memories.sets)
            sets = np.where(far, np.minimum(own, sets), sets)
            runs = np.where(far, runs * different, runs)
        aligned = aligned & (~far | (stride % block == 0)) & (constants == 1)
        span = np.where(far, span, (reached - 1) * stride + span)
    for c in group.moved:
        points = points * np.maximum(widths[c], 1.0)
    runs, points = runs * copies, points * copies
    whole = aligned & ((span % block == 0) | (block % np.maximum(span, 1) == 0))
    count = runs * np.where(whole, np.ceil(span / block), (span - stored.item) / block + 1)
    count = np.minimum(np.minimum(count, points), stored.bytes / block + 1)
    return Blocks(
        count, np.minimum(runs, count), count / np.maximum(sets, 1.0) - count / memories.sets
    )


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """What traffic needs to know of a statement."""

    nest: Nest
    groups: Sequence[Group]


@dataclass(frozen=True, slots=True, eq=False)
class Moved:
    """Blocks that pass, what is written twice, and the runs that they come in."""

    blocks: Array
    runs: Array

    def __add__(self, other: Moved) -> Moved:
        return Moved(self.blocks + other.blocks, self.runs + other.runs)


NOTHING = Moved(np.zeros(1), np.zeros(1))


class Traffic:
    """Into ``memories``, a row for each, of trees over the statements of ``works``."""

    def __init__(
        self, works: Mapping[str, Work], stored: Mapping[str, Stored], memories: Memories
    ) -> None:
        self._works, self._stored, self.memories = works, stored, memories
        self._memo: dict[tuple[str, int], list[tuple[Group, Blocks]]] = {}

    def of(self, tree: Tree, depth: int = 0) -> Moved:
        """What ``tree`` brings in, with ``depth`` loops around it."""
        names = [name for name in statements_below(tree) if name in self._works]
        match tree:
            case Leaf():
                return self._whole(names, depth)[0]
            case Band(loops, child):
                found = self.of(child, depth + len(loops))
                for inside in reversed(range(depth, depth + len(loops))):
                    found = _either(
                        self.fits(names, inside + 1), self._whole(names, inside)[0], found
                    )
                return found
            case Mark(RegisterTile(), child):
                return self.of(child, depth) + self._whole(names, depth, kept=True)[0]
        return sum((self.of(child, depth) for child in children(tree)), NOTHING)

    def whole(self) -> Moved:
        """All that is touched, come once."""
        return self._whole(list(self._works), 0)[0]

    def fits(self, names: Sequence[str], depth: int) -> Flags:
        """Whether what one iteration of ``depth`` loops touches stays."""
        _, blocks, crowd = self._whole(names, depth)
        fits: Flags = blocks / self.memories.sets + crowd <= self.memories.ways
        return fits

    def _whole(
        self, names: Sequence[str], depth: int, kept: bool = False
    ) -> tuple[Moved, Array, Array]:
        """What all iterations of ``depth`` loops bring in if each begins with nothing; the blocks
        that one of them touches on average, and the greatest crowd. ``kept``: of what register
        tiles at this depth keep alone, else of all but what those around keep."""
        found: dict[str, Array] = {}  # by tensor: touched, moved, runs
        crowd: Array = np.zeros((1, 1))
        times: Array = np.zeros(1)
        for name in names:
            own: dict[str, Array] = {}
            turns = self._works[name].nest.iterations(depth)
            times = np.maximum(times, turns)
            for group, blocks in self._blocks(name, depth):
                if group.held == depth if kept else group.held is None or depth <= group.held:
                    passes = self.memories.written if group.written else 1
                    amounts = blocks.count, blocks.count * passes, blocks.runs * passes
                    rows = np.stack(np.broadcast_arrays(*amounts)) * turns
                    if group.apart:
                        rows = rows * self._works[name].nest.share(depth, group.moved)
                    own[group.tensor] = own[group.tensor] + rows if group.tensor in own else rows
                    crowd = np.maximum(crowd, blocks.crowd)
            for tensor, rows in own.items():
                whole = (self._stored[tensor].bytes / self.memories.block + 1) * turns
                most = np.minimum(rows, np.stack([whole, 2 * whole, 2 * whole]))
                # Statements that share loops touch the same.
                found[tensor] = np.maximum(found[tensor], most) if tensor in found else most
        touched, blocks_, runs = sum(found.values(), np.zeros((3, 1)))
        return Moved(blocks_, runs), touched / np.maximum(times, 1.0), crowd

    def _blocks(self, name: str, depth: int) -> list[tuple[Group, Blocks]]:
        if (name, depth) not in self._memo:
            work = self._works[name]
            widths = work.nest.widths(depth)
            self._memo[name, depth] = [
                (group, blocks_of(group, self._stored[group.tensor], widths, self.memories))
                for group in work.groups
            ]
        return self._memo[name, depth]


def _either(condition: Flags, one: Moved, other: Moved) -> Moved:
    return Moved(
        np.where(condition, one.blocks, other.blocks), np.where(condition, one.runs, other.runs)
    )
