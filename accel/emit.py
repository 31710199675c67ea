"""A tiling as instructions in program order, not yet synchronised.

For each tile, in the order of the loops over tiles:

    initialise its part of the results      in the first tile that adds to it
    load its parts of the operands          unless they are in a buffer already
    the instruction, over all loops of the tile
    the epilogue, and a store               in the last tile that adds to it
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod

from weft.accel.boxes import Box, Move, Ranges, box, moves, origin
from weft.accel.capabilities import Compute
from weft.accel.hardware_loops import Arrangement, Loop, arrange
from weft.accel.instruction_tree import Constant, Held, Node, Tree, nodes
from weft.accel.mapping import View
from weft.accel.refusal import Refusal
from weft.accel.sequential_program import SequentialIssue, SequentialProgram, steps_of
from weft.accel.tiling import Slots, Tiling, loops_over, views
from weft.ir.accelerator import Accelerator

Key = tuple[tuple[int, int, int], ...]  # first, count and step of each side
Arranged = dict[tuple[str, tuple[Loop, ...]], Arrangement]


@dataclass(slots=True)
class _Place:
    """The buffers of one view and the part in each; they are filled round robin."""

    slots: Slots
    parts: dict[Key, int] = field(default_factory=dict)
    next: int = 0

    def take(self, key: Key) -> int:
        """The first element of a buffer for ``key``, whose old part is evicted."""
        slot = self.next
        self.next = (slot + 1) % self.slots.count
        self.parts = {k: s for k, s in self.parts.items() if s != slot}
        self.parts[key] = slot
        return self.slots.begin + slot * self.slots.size

    def find(self, key: Key) -> int | None:
        slot = self.parts.get(key)
        return None if slot is None else self.slots.begin + slot * self.slots.size


def emit(
    machine: Accelerator,
    tiling: Tiling,
    main: Mapping[str, int],
    blanks: Mapping[str, int],
    arranged: Arranged,
) -> list[SequentialIssue]:
    """The instructions of ``tiling``. ``main``: the begin of tensors in main memory, in elements;
    ``blanks``: an element of zeros in each main memory."""
    return _Emission(machine, tiling, main, blanks, arranged).issues()


@dataclass(frozen=True, slots=True)
class _Part:
    """A tile's part of a view; ``base``: its begin in local memory."""

    view: View
    box: Box
    base: int
    origin: int

    @property
    def start(self) -> int:
        """The address of the tile's first point."""
        return self.base + self.origin * self.view.group


class _Emission:
    def __init__(
        self,
        machine: Accelerator,
        tiling: Tiling,
        main: Mapping[str, int],
        blanks: Mapping[str, int],
        arranged: Arranged,
    ) -> None:
        self.machine, self.tiling, self.main, self.arranged = machine, tiling, main, arranged
        self.mapped = tiling.mapped
        self.views = views(self.mapped)
        self.numbers = {id(view): n for n, view in enumerate(self.views)}
        self.places = [_Place(slots) for slots in tiling.slots]
        self.made = SequentialProgram(machine, blanks=blanks)
        written = {d for axis in self.mapped.target.axes for d in axis.coefficients}
        self.inner_folds = [d for d in tiling.order if d not in written]

    def issues(self) -> list[SequentialIssue]:
        for ranges in self.tiling.tiles():
            self._tile(ranges)
        return self.made.found

    def _tile(self, ranges: Ranges) -> None:
        mapped = self.mapped
        target = self._target(ranges)
        if mapped.compute is not None:
            begins = self._is_first(ranges)
            if begins and mapped.first is None:
                self._fill(target, ranges)
            operands = [self._loaded(view, ranges) for view in mapped.operands]
            first = mapped.first if begins else None
            self._compute(mapped.compute, [target, *operands], ranges, {}, first)
        if self._is_last(ranges):
            result = self._tree(mapped.tree, target, ranges)
            self._store(result, ranges, 0)
            for plane in range(1, mapped.planes):
                assert mapped.between is not None, "parts are stored one after the other"
                self._tree(mapped.between, result, ranges)
                self._store(result, ranges, plane)
            self.places[0].parts.pop(_key(target.box), None)

    def _is_first(self, ranges: Ranges) -> bool:
        return all(ranges[d][0] == 0 for d in self.inner_folds)

    def _is_last(self, ranges: Ranges) -> bool:
        extents = self.mapped.extents
        return all(sum(ranges[d]) == extents[d] for d in self.inner_folds)

    # ---- parts ------------------------------------------------------------------------------

    def _target(self, ranges: Ranges) -> _Part:
        """The buffer that the results accumulate in: none that is still needed is evicted."""
        view = self.mapped.target
        found = box(view, ranges, False)
        base = self.places[0].find(_key(found))
        if base is None:
            base = self.places[0].take(_key(found))
        return _Part(view, found, base, origin(view, found, ranges))

    def _loaded(self, view: View, ranges: Ranges) -> _Part:
        found = box(view, ranges, self.numbers[id(view)] in self.tiling.packed)
        return _Part(view, found, self._brought(view, found), origin(view, found, ranges))

    def _brought(self, view: View, found: Box) -> int:
        """The address of ``found``, loaded if necessary."""
        place = self.places[self.numbers[id(view)]]
        base = place.find(_key(found))
        if base is None:
            base = place.take(_key(found))
            self._load(view, found, base)
        return base

    def _load(self, view: View, found: Box, base: int) -> None:
        if view.source is not None and view.copy is not None:
            source = _Part(view.source, found, self._brought(view.source, found), 0)
            self._copy(view.copy, _Part(view, found, base, 0), source)
            return
        assert view.transfer is not None, "what is read is loaded"
        size = self._bytes(view.transfer.main.memory)
        for move in moves(found):
            self.made.move(view.transfer, move, base, self.main[view.name], size, view.group)

    def _copy(self, tree: Node, target: _Part, source: _Part) -> None:
        """All elements of ``source``, as ``tree`` has them, to ``target``."""
        for node in nodes(tree):
            operands = [
                source if isinstance(leaf, Held) else self._loaded(self.mapped.reads[leaf], {})
                for leaf in node.operands
                if not isinstance(leaf, Node)
            ]
            parts = [target, *operands]
            moved = (target.view, source.view)
            steps = tuple(p.view.group if p.view in moved else 0 for p in parts)
            loops = (Loop(target.box.size, steps), *_inside(node.compute, parts))
            made = self._arranged(node.compute, loops)
            self.made.compute(node.compute, made, [part.base for part in parts], node.fields)

    def _bytes(self, memory: str) -> int:
        """Of an element of a main memory."""
        return self.machine.memory(memory).nbytes

    # ---- computing --------------------------------------------------------------------------

    def _fill(self, target: _Part, ranges: Ranges) -> None:
        start = self.mapped.start
        assert start is not None, "a sum begins with something"
        if not isinstance(start, View):
            self._tree(start, target, ranges)
            return
        assert start.transfer is not None, "what a sum begins with is loaded in its place"
        whole = Move(0, 0, 1, target.box.size, 0)
        size = self._bytes(start.transfer.main.memory)
        self.made.move(start.transfer, whole, target.base, self.main[start.name], size, start.group)

    def _tree(self, tree: Tree, target: _Part, ranges: Ranges) -> _Part:
        """The result of ``tree``, in the place of its leaf."""
        if isinstance(tree, Held | Constant):
            if tree in self.mapped.reads:
                return self._loaded(self.mapped.reads[tree], ranges)
            return target
        operands = [self._tree(each, target, ranges) for each in tree.operands]
        on = self._moved(tree, ranges) if tree.moves else self._on(tree, target, ranges)
        self._compute(tree.compute, [on, *operands], ranges, tree.fields)
        return on

    def _moved(self, tree: Node, ranges: Ranges) -> _Part:
        """A place of its own for the result of ``tree``."""
        view = next(view for node, view in self.mapped.moved if node is tree)
        found = box(view, ranges, False)
        base = self.places[self.numbers[id(view)]].take(_key(found))
        return _Part(view, found, base, origin(view, found, ranges))

    def _on(self, tree: Node, target: _Part, ranges: Ranges) -> _Part:
        if tree.on is None:
            return target
        on = self._tree(tree.on, target, ranges)
        if on.view is not target.view:  # the loaded value is overwritten
            self.places[self.numbers[id(on.view)]].parts.pop(_key(on.box), None)
        return on

    def _compute(
        self,
        compute: Compute,
        parts: list[_Part],
        ranges: Ranges,
        numbers: Mapping[str, int],
        first: Compute | None = None,
    ) -> None:
        """``first``: the instruction that starts the reduction that ``compute`` continues."""
        loops = loops_over(
            self.mapped, tuple(p.view for p in parts), tuple(p.box for p in parts), ranges
        )
        loops = (*loops, *_inside(compute, parts))
        bases = [part.start for part in parts]
        if first is not None:
            self._begun(first, compute, loops, bases)
        else:
            self.made.compute(compute, self._arranged(compute, loops), bases, numbers)

    def _begun(
        self, first: Compute, compute: Compute, loops: tuple[Loop, ...], bases: list[int]
    ) -> None:
        """``loops`` by ``first`` where an iteration is the first to accumulate onto an element, by
        ``compute`` elsewhere."""
        made = self._arranged(first, loops)
        own = (*made.hardware, *made.unrolled)
        for moved, begins in steps_of(made.issued, bases):
            chosen = made if begins else self._arranged(compute, own)
            self.made.compute(
                first if begins else compute, replace(chosen, issued=()) if begins else chosen,
                moved, {},
            )  # fmt: skip

    def _arranged(self, compute: Compute, loops: tuple[Loop, ...]) -> Arrangement:
        key = compute.operation.name, loops
        if key not in self.arranged:
            self.arranged[key] = arrange(compute, loops, self._room(compute))
        return self.arranged[key]

    def _room(self, compute: Compute) -> int:
        """Of micro-operations."""
        if compute.words is None:
            return 1
        depth = self.machine.memory(compute.words.memory).depth
        assert depth is not None, "micro-operations are in a memory of their own"
        return depth

    # ---- storing ----------------------------------------------------------------------------

    def _store(self, result: _Part, ranges: Ranges, plane: int) -> None:
        view = self.mapped.write
        assert view.transfer is not None, "results are stored"
        found = box(view, ranges, False)
        if any(side.before or side.after for side in found.sides):
            raise Refusal(f"{view.tensor} is written outside")
        size = self._bytes(view.transfer.main.memory)
        main = self.main[view.name] + plane * prod(axis.size for axis in view.axes)
        for move in moves(found):
            self.made.move(view.transfer, move, result.base, main, size, view.group)


def _inside(compute: Compute, parts: list[_Part]) -> tuple[Loop, ...]:
    """The loop over the addresses of an element, if ``compute`` visits them one by one."""
    groups = [part.view.group for part in parts]
    own = [at.group for at in (compute.target, *compute.operands)]
    if groups == own:
        return ()
    whole = {group // each for group, each in zip(groups, own, strict=True)}
    if len(whole) > 1 or any(group % each for group, each in zip(groups, own, strict=True)):
        raise Refusal(f"{compute.operation.name} does not go through its memories alike")
    return (Loop(whole.pop(), tuple(own)),)


def _key(found: Box) -> Key:
    return tuple((side.first, side.count, side.step) for side in found.sides)
