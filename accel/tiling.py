"""A tiling: tile sizes, the order of the loops over tiles, buffers in local memories.

    Tiling ::= mapping, sizes: dim -> extent of a tile, order: dim…, slots: Slots…
    Slots  ::= view, begin, size, count

Each tensor has ``count`` buffers (slots) in its memory, of the size of a tile's part. A part is
loaded unless a buffer has it, round robin. With a second buffer the next part is loaded while the
last one is in use: double buffering (virtual threads).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from weft.accel.boxes import Box, Ranges, box, steps
from weft.accel.hardware_loops import Loop
from weft.accel.mapping import Mapping as Mapped
from weft.accel.mapping import View
from weft.ir.accelerator import Accelerator


@dataclass(frozen=True, slots=True)
class Slots:
    begin: int
    size: int
    count: int


@dataclass(frozen=True, slots=True)
class Tiling:
    """``slots``: by number of the view in ``views``."""

    mapped: Mapped
    sizes: Mapping[str, int]
    order: tuple[str, ...]
    slots: tuple[Slots, ...]
    packed: frozenset[int]  # views whose strided last axis is loaded without the gaps

    def tiles(self) -> Iterator[Ranges]:
        """All tiles in order: dim → (first, count)."""
        yield from _tiles(self.mapped.extents, self.sizes, self.order, 0, {})

    def trips(self, dim: str) -> int:
        return -(-self.mapped.extents[dim] // self.sizes[dim])


def _tiles(
    extents: Mapping[str, int],
    sizes: Mapping[str, int],
    order: tuple[str, ...],
    depth: int,
    chosen: dict[str, tuple[int, int]],
) -> Iterator[Ranges]:
    if depth == len(order):
        yield {d: chosen.get(d, (0, n)) for d, n in extents.items()}
        return
    dim = order[depth]
    for first in range(0, extents[dim], sizes[dim]):
        chosen[dim] = first, min(sizes[dim], extents[dim] - first)
        yield from _tiles(extents, sizes, order, depth + 1, chosen)


def views(mapped: Mapped) -> tuple[View, ...]:
    """The views with buffers: results, operands, reads of the epilogue, results that move, sources
    of copies."""
    moved = (view for _, view in mapped.moved)
    return (mapped.target, *mapped.operands, *mapped.reads.values(), *moved, *_sources(mapped))


def _sources(mapped: Mapped) -> list[View]:
    found = []
    for view in (*mapped.operands, *mapped.reads.values()):
        while view.source is not None:
            view = view.source
            found.append(view)
    return found


def parts_of(mapped: Mapped, view: View, order: tuple[str, ...], trips: Mapping[str, int]) -> int:
    """The number of distinct parts of ``view`` over the loops of ``order``."""
    moving = {d for axis in view.axes for d in axis.coefficients}
    return prod(trips[d] for d in order if d in moving)


def loops_over(
    mapped: Mapped, found: tuple[View, ...], boxes: tuple[Box, ...], ranges: Ranges
) -> tuple[Loop, ...]:
    """The loops inside of a tile that any of ``found`` moves along, with their steps."""
    moving = {d for view in found for axis in view.axes for d in axis.coefficients}
    return tuple(
        Loop(
            count,
            tuple(v.group * steps(v, b, dim) for v, b in zip(found, boxes, strict=True)),
        )
        for dim, (_, count) in ranges.items()
        if dim in moving
    )


def first_tile(mapped: Mapped, sizes: Mapping[str, int]) -> Ranges:
    return {d: (0, min(sizes[d], n)) for d, n in mapped.extents.items()}


def live(mapped: Mapped, order: tuple[str, ...], trips: Mapping[str, int]) -> int:
    """The number of live parts of the results: those inside a reduction loop over tiles."""
    outer = next((n for n, d in enumerate(order) if d in mapped.folds), len(order))
    return prod(trips[d] for d in order[outer:] if d not in mapped.folds)


def reused(view: View, order: tuple[str, ...], trips: Mapping[str, int]) -> int:
    """The reuse distance of a part, in parts: the buffers it takes to load it once."""
    moving = {d for axis in view.axes for d in axis.coefficients}
    outer = next(
        (
            n
            for n, d in enumerate(order)
            if d not in moving and any(o in moving for o in order[n + 1 :])
        ),
        None,
    )
    if outer is None:
        return 1
    return prod(trips[d] for d in order[outer + 1 :] if d in moving)


def slots_for(
    mapped: Mapped,
    machine: Accelerator,
    sizes: Mapping[str, int],
    order: tuple[str, ...],
    packed: frozenset[int],
    buffers: int,
) -> tuple[Slots, ...] | None:
    """The buffers of each view; None if they do not fit, or if more than results would be stored.
    ``buffers``: 1 leaves out double buffering."""
    trips = {d: -(-n // sizes[d]) for d, n in mapped.extents.items()}
    found = views(mapped)
    ranges = first_tile(mapped, sizes)
    if not _solid(mapped.write, ranges):
        return None
    size = [
        machine.memory(view.memory).taken(box(view, ranges, n in packed).size * view.group)
        for n, view in enumerate(found)
    ]
    if mapped.compute is None:
        size[0] = 0  # computed in the place of an operand
    last = 1 + len(mapped.operands) + len(mapped.reads)
    wanted = [
        _wanted(mapped, view, order, trips, buffers, n == 0)
        if n < last
        else [min(buffers, parts_of(mapped, view, order, trips)), 1]
        for n, view in enumerate(found)
    ]
    least = [counts[-1] for counts in wanted]
    counts = list(least)
    room: dict[str, int] = {}
    for memory in {view.memory for view in found}:
        depth = machine.memory(memory).depth
        assert depth is not None, "a local memory"
        inside = [n for n, view in enumerate(found) if view.memory == memory]
        room[memory] = depth - sum(size[n] * least[n] for n in inside)
        if room[memory] < 0:
            return None
    # Greedy, the smallest parts first.
    for n in sorted(range(len(found)), key=lambda n: (size[n] * wanted[n][0], n)):
        memory = found[n].memory
        for count in wanted[n]:
            more = (count - counts[n]) * size[n]
            if 0 < more <= room[memory]:
                room[memory] -= more
                counts[n] = count
                break
    begin = dict.fromkeys(room, 0)
    made = []
    for n, view in enumerate(found):
        made.append(Slots(begin[view.memory], size[n], counts[n]))
        begin[view.memory] += size[n] * counts[n]
    return tuple(made)


def smallest_needs(mapped: Mapped) -> dict[str, int]:
    """Elements of each memory that the smallest tile needs."""
    ranges = first_tile(mapped, dict.fromkeys(mapped.extents, 1))
    needed: dict[str, int] = {}
    for number, view in enumerate(views(mapped)):
        size = box(view, ranges, False).size * view.group
        if number == 0 and mapped.compute is None:
            size = 0
        needed[view.memory] = needed.get(view.memory, 0) + size
    return needed


def _solid(write: View, ranges: Ranges) -> bool:
    """Whether a part consists of results only: of loops that share an axis, the outer one may leave
    gaps."""
    moving = {d for axis in write.axes for d in axis.coefficients}
    return box(write, ranges, False).size == prod(ranges[d][1] for d in moving)


def _wanted(
    mapped: Mapped,
    view: View,
    order: tuple[str, ...],
    trips: Mapping[str, int],
    buffers: int,
    is_target: bool,
) -> list[int]:
    """Useful numbers of buffers, descending; the last one is required."""
    every = parts_of(mapped, view, order, trips)
    if is_target:
        least = live(mapped, order, trips)
        return [least] if buffers == 1 else [min(2 * least, max(every, least)), least]
    window = reused(view, order, trips)
    if buffers == 1:
        return [window, 1]
    found = [every, 2 * window, window + 1, window, 2, 1]
    return sorted({min(n, every) for n in found}, reverse=True)
