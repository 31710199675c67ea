"""Does a warp multiply what belongs together? A proof by enumeration of one step of each launch.

What is in a fragment is told apart by *labels*: the element of shared memory that it
came from. All warps, lanes and unrolled turns are run on labels; of serial loops one turn, whose
number moves all labels of a slot alike. Then, where a warp issues an instruction,

1. each operand's labels are neighbours as its record says: element (row, q) is ``row`` lines and
   ``q`` places from element (0, 0) of its tile, along the dims of shared memory in either order;
2. both operands begin at the same place along what is summed up;
3. the accumulators were started;

and where sums leave the fragments, the element that is written is one of the row of the first
operand and of the lane of the second: f(row) + g(lane) for each index, and no two sums go to one
element. So no lane's, tile's or warp's part is another's. That a record's ``elements`` is the
inverse of its ``place`` is checked first, for each instruction.

What is computed from one sum and goes to another fragment (the factor of a further product) has the
sum's row and lane for its label: 1 and 2 are asked of it like of what came from shared memory.
Operands that are read past shared memory have no labels, and 1 and 2 are not claimed of them.

Also known as: symbolic execution; layouts as functions (CuTe, Triton's linear layouts).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod

from weft.ir.errors import IllegalScheduleError
from weft.ir.instruction import ACCUMULATOR, ROW, Instruction, Operand
from weft.ir.loop_ir import (
    MATRIX,
    WORD,
    Allocate,
    Buffer,
    For,
    Issue,
    Kernel,
    Let,
    LoadMatrices,
    Single,
    Stmt,
    Store,
    While,
    children,
    walk,
)
from weft.ir.scalar_expr import Expr, Load, Var, has_loads
from weft.ir.scalar_expr import walk as walk_expr
from weft.ir.scalar_point import PointEvaluator

Label = tuple[int, ...]  # an element of a shared buffer
Tile = tuple[str | int, ...]  # a fragment: buffer, warp, tiles
Own = tuple[int, int]  # thread, number


def check_fragments(kernel: Kernel) -> int:
    """Check what the warps of ``kernel`` multiply; how many issues were looked at.

    Raises ``IllegalScheduleError`` (WEFT-E0428) with the instruction and the element that is not
    where it belongs.
    """
    issued = {id(s.instruction): s.instruction for s in walk(kernel.body) if isinstance(s, Issue)}
    for instruction in issued.values():
        check_layout(instruction)
    if not issued:
        return 0
    labels = _Labels(kernel)
    labels.run(kernel.body, dict.fromkeys(kernel.parameters, 0))
    labels.check_stored()
    return labels.issues


def check_layout(instruction: Instruction) -> None:
    """Check that each operand of ``instruction`` has one place for each element, or one for each of
    its copies, and says so.

    Raises ``IllegalScheduleError`` (WEFT-E0428) with an element of other places, or of none."""
    warp, point = instruction.warp, PointEvaluator()
    assert warp is not None, "a warp issues it"
    for name, operand in instruction.operands.items():
        dims = list(operand.elements)
        extents = [instruction.extents[d] for d in dims]
        own = product(range(warp.threads), range(prod(extents) * operand.copies // warp.threads))
        seen: Counter[tuple[int, ...]] = Counter()
        for thread, number in own:
            element = _element(point, operand, (thread, number))
            there, first = (int(point.value(e, element)) for e in operand.place)
            inside = all(0 <= element[d] < n for d, n in zip(dims, extents, strict=True))
            same = _element(point, operand, (there, first)) == element
            seen[tuple(element.values())] += 1
            alone = operand.copies > 1 or (there, first) == (thread, number)
            if not (inside and same and alone) or max(seen.values()) > operand.copies:
                why = f"number {number} of thread {thread} is {element}, "
                why += f"which is at {(there, first)}"
                raise _refused(instruction, f"the layout of {name} is not one to one", why)


def _element(point: PointEvaluator, operand: Operand, own: Own) -> dict[str, int]:
    """The dims of what a thread has under a number."""
    at = dict(zip(("thread", "number"), own, strict=True))
    return {d: int(point.value(e, at)) for d, e in operand.elements.items()}


@dataclass(slots=True)
class _Origin:
    """Where tile element (0, 0) of an operand came from, along its own dim and what is summed."""

    own: int
    summed: int


@dataclass(slots=True)
class _Stored:
    """The sums that one visit of a statement stores to ``buffer``: fragment, thread and number, and
    the element."""

    buffer: str
    elements: list[tuple[Tile, Own, Label]] = field(default_factory=list)


@dataclass(slots=True)
class _Labels:
    """Runs a kernel on labels. ``held``: of each fragment; ``origins`` of operands, ``places`` of
    sums: the origins of what was multiplied; ``stored``: which sums went to which elements;
    ``visits``: how often a statement has stored a sum."""

    kernel: Kernel
    issues: int = 0
    point: PointEvaluator = field(default_factory=PointEvaluator)
    loads: dict[int, bool] = field(default_factory=dict)  # whether expressions have some, by id
    buffers: dict[str, Buffer] = field(default_factory=dict)
    held: dict[Tile, dict[Own, Label | None]] = field(default_factory=dict)
    origins: dict[Tile, _Origin | None] = field(default_factory=dict)
    places: dict[Tile, tuple[Instruction, _Origin, _Origin]] = field(default_factory=dict)
    stored: dict[tuple[int, int], _Stored] = field(default_factory=dict)  # by statement and visit
    visits: dict[tuple[int, Tile, Own], int] = field(default_factory=dict)
    sources: dict[str, tuple[tuple[Tile, Own], ...]] = field(default_factory=dict)  # of names
    uses: dict[int, tuple[tuple[Load, ...], tuple[str, ...]]] = field(default_factory=dict)

    def run(self, stmt: Stmt, names: Mapping[str, int]) -> None:
        match stmt:
            case For(kind="block") | Single() | While():
                return  # no fragments inside
            case For():
                for turn in self._turns(stmt, names):
                    self.run(stmt.body, {**names, stmt.var: turn})
                return
            case Let(name, value, body):
                data = value.dtype.is_float or self._by_data((value,))
                self.sources[name] = self._sums(value, names) if data else ()
                known = 0 if data else int(self.point.value(value, names))
                self.run(body, {**names, name: known})
                return
            case Allocate(buffer):
                self.buffers[buffer.name] = buffer
            case LoadMatrices():
                self._load_row(stmt, names)
            case Store():
                self._store(stmt, names)
            case Issue():
                self._issue(stmt, names)
        for part in children(stmt):
            self.run(part, names)

    def _turns(self, loop: For, names: Mapping[str, int]) -> range:
        low = int(self.point.value(loop.lower, names))
        if loop.kind in ("serial", "grid"):
            return range(low, low + 1)
        return range(low, int(self.point.value(loop.upper, names)), loop.step)

    def _by_data(self, exprs: Sequence[Expr]) -> bool:
        """Whether one of ``exprs`` reads memory."""
        for e in exprs:
            if id(e) not in self.loads:
                self.loads[id(e)] = has_loads(e)
        return any(self.loads[id(e)] for e in exprs)

    def _at(self, exprs: Sequence[Expr], names: Mapping[str, int]) -> Label:
        return tuple(int(self.point.value(e, names)) for e in exprs)

    # ---- what is put into fragments -------------------------------------------------------------

    def _put(self, tile: Tile, own: Own, label: Label | None) -> None:
        self.held.setdefault(tile, {})[own] = label
        self.origins.pop(tile, None)

    def _load_row(self, stmt: LoadMatrices, names: Mapping[str, int]) -> None:
        """The elements of one row of a matrix, which a lane names, in the lanes that get them."""
        (lane,) = self._at((stmt.lane,), names)
        matrix, row = divmod(lane, MATRIX[0])
        if matrix >= stmt.matrices:
            return
        buffer = self.buffers[stmt.target]
        (numbers,) = self._at(buffer.shape[-1:], {})
        word = WORD // buffer.dtype.itemsize
        *outer, first = self._at(stmt.tile, names)
        *start, last = self._at(stmt.indices, names)
        for e in range(word * MATRIX[1]):
            across, number = (e, row) if stmt.transposed else (row, e)
            tile, place = divmod(word * matrix + number % word, numbers)
            own = MATRIX[1] * across + number // word, place
            self._put((stmt.target, *outer, first + tile), own, (*start, last + e))

    def _store(self, stmt: Store, names: Mapping[str, int]) -> None:
        loads, _ = self._used(stmt.value)
        if self._is_fragment(stmt.buffer):
            *tile, thread, number = self._at(stmt.indices, names)
            shared = [x for x in loads if self._is_shared(str(x.source))]
            label = self._at(shared[0].indices, names) if len(shared) == 1 else None
            sums = self._sums(stmt.value, names)
            if sums:
                label = self._product(*sums[0]) if len({*sums}) == 1 else None
            self._put((stmt.buffer, *tile), (thread, number), label)
            return
        if any(x.source == stmt.buffer for x in loads) or self._by_data(stmt.indices):
            return  # sums are folded into what is there
        for held, own in self._sums(stmt.value, names):
            visit = id(stmt), held, own
            count = self.visits[visit] = self.visits.get(visit, 0) + 1
            found = self.stored.setdefault((id(stmt), count), _Stored(stmt.buffer))
            found.elements.append((held, own, self._at(stmt.indices, names)))

    def _used(self, value: Expr) -> tuple[tuple[Load, ...], tuple[str, ...]]:
        """The loads in ``value``, and the names."""
        if id(value) not in self.uses:
            nodes = list(walk_expr(value))
            loads = tuple(n for n in nodes if isinstance(n, Load))
            self.uses[id(value)] = loads, tuple(n.name for n in nodes if isinstance(n, Var))
        return self.uses[id(value)]

    def _sums(self, value: Expr, names: Mapping[str, int]) -> tuple[tuple[Tile, Own], ...]:
        """What ``value`` is computed from of fragments, the names in it looked through."""
        loads, used = self._used(value)
        found: list[tuple[Tile, Own]] = []
        for load in loads:
            if self._is_fragment(str(load.source)):
                *tile, thread, number = self._at(load.indices, names)
                found.append(((str(load.source), *tile), (thread, number)))
        for name in used:
            found += self.sources.get(name, ())
        return tuple(found)

    def _product(self, tile: Tile, own: Own) -> Label | None:
        """The row and the lane of which a sum is, where operands were in shared memory."""
        if tile not in self.places:
            return None
        instruction, left, right = self.places[tile]
        at = dict(zip(("thread", "number"), own, strict=True))
        row, lane = (
            int(self.point.value(instruction.operands[ACCUMULATOR].elements[d], at))
            for d in (ROW, *instruction.across)
        )
        return left.own + row, right.own + lane

    def _is_fragment(self, name: str) -> bool:
        return name in self.buffers and self.buffers[name].scope == "fragment"

    def _is_shared(self, name: str) -> bool:
        return name in self.buffers and self.buffers[name].scope == "shared"

    # ---- what is computed from them -------------------------------------------------------------

    def _issue(self, stmt: Issue, names: Mapping[str, int]) -> None:
        self.issues += 1
        instruction = stmt.instruction
        tiles: list[Tile] = [(name, *self._at(tile, names)) for name, tile in stmt.operands]
        if tiles[0] not in self.held:
            raise _refused(instruction, f"sums of {tiles[0][0]} are added to that nobody started")
        left, right = (
            self._origin(tile, instruction, instruction.operands[name])
            for tile, name in zip(tiles[1:], instruction.tensors, strict=True)
        )
        if left is None or right is None:
            return
        if left.summed != right.summed:
            what = f"{tiles[1][0]} and {tiles[2][0]} are not of the same steps"
            raise _refused(instruction, what, f"they begin at {left.summed} and {right.summed}")
        self.places[tiles[0]] = instruction, left, right

    def _origin(self, tile: Tile, instruction: Instruction, operand: Operand) -> _Origin | None:
        """Where the operand in ``tile`` begins; None where it is not from shared memory."""
        if tile not in self.origins:
            self.origins[tile] = self._found(tile, instruction, operand)
        return self.origins[tile]

    def _found(self, tile: Tile, instruction: Instruction, operand: Operand) -> _Origin | None:
        labels = self.held.get(tile)
        if labels is None:
            raise _refused(instruction, f"{tile[0]} is multiplied before it is there")
        known = {own: label for own, label in labels.items() if label is not None}
        if not known:
            return None
        (summed,) = instruction.summed
        (dim,) = (d for d in operand.elements if d != summed)
        elements = [((at[dim], at[summed]), label) for at, label in self._elements(operand, known)]
        by_element = dict(elements)
        begin = by_element[0, 0]
        axes = _axis(begin, by_element[1, 0]), _axis(begin, by_element[0, 1])
        for (own, q), label in elements:
            want = list(begin)
            for axis, value in zip(axes, (own, q), strict=True):
                want[axis] += value
            if label != tuple(want) or axes[0] == axes[1] or len(known) < len(labels):
                why = f"{dim} {own}, {summed} {q} is {list(label)}, not {want}"
                raise _refused(instruction, f"{tile[0]} is not as the instruction takes it", why)
        return _Origin(begin[axes[0]], begin[axes[1]])

    def _elements(
        self, operand: Operand, known: Mapping[Own, Label]
    ) -> Iterator[tuple[dict[str, int], Label]]:
        for own, label in known.items():
            yield _element(self.point, operand, own), label

    # ---- where sums go --------------------------------------------------------------------------

    def check_stored(self) -> None:
        """Check that each index of what is stored from sums is a part of the row, and one of the
        lane."""
        for stored in self.stored.values():
            places: dict[Label, Label] = {}
            for tile, own, place in stored.elements:
                if tile not in self.places:
                    continue
                instruction, *_ = self.places[tile]
                key = self._product(tile, own)
                assert key is not None, "it has a place"
                if places.setdefault(key, place) != place:
                    raise _misplaced(instruction, stored.buffer, key, place)
            if places:
                _check_parts(instruction, stored.buffer, places)


def _check_parts(instruction: Instruction, buffer: str, places: Mapping[Label, Label]) -> None:
    """Check that ``places``, by row and lane, are sums of one part for each, and differ."""
    row, lane = next(iter(places))
    taken: set[Label] = set()
    for (r, c), place in places.items():
        if place in taken:
            raise _misplaced(instruction, buffer, (r, c), place)
        taken.add(place)
        if {(r, lane), (row, c)} <= places.keys():
            parts = zip(place, places[r, lane], places[row, c], places[row, lane], strict=True)
            if any(own - along != across - first for own, along, across, first in parts):
                raise _misplaced(instruction, buffer, (r, c), place)


def _misplaced(
    instruction: Instruction, buffer: str, key: Label, place: Label
) -> IllegalScheduleError:
    why = f"the sum of row {key[0]} and lane {key[1]} goes to {list(place)}"
    return _refused(instruction, f"sums are stored to elements of {buffer} that are others'", why)


def _axis(begin: Label, other: Label) -> int:
    """The dim along which ``other`` is one further than ``begin``; the first if there is none."""
    steps = [b - a for a, b in zip(begin, other, strict=True)]
    return steps.index(1) if 1 in steps else 0


def _refused(instruction: Instruction, what: str, why: str = "") -> IllegalScheduleError:
    return IllegalScheduleError(
        "WEFT-E0428",
        f"{what}, by {instruction.name}",
        why=why,
        hint="leave out the register tile; if Weft made it, this is a bug in Weft",
    )
