"""What tilings cost, in closed form: thousands at once, without building one.

Each queue takes the sum of what its instructions take; the slowest one decides, and what they
cannot do at the same time comes on top: the first parts, which everything waits for, the last
results, and whatever has one slot only. A part is loaded again wherever more than its slots hold
comes in between (``tiling.slots_for``). Numbers are arrays over the tilings, of loops in one order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from weft.accel.abilities import Compute, Transfer
from weft.accel.accelerator import Accelerator
from weft.accel.cover import Node, nodes, turn_cycles
from weft.accel.mapping import Mapping as Mapped
from weft.accel.mapping import View
from weft.accel.tiling import views

Array = np.ndarray[Any, np.dtype[np.float64]]
WORDS = 64  # micro-operations of one instruction, about
RATES = 64  # elements from which the rate of a transfer is told


@dataclass(frozen=True, slots=True)
class Costs:
    """Of each tiling: cycles, with and without double buffering, bytes of main memory; inf where
    it does not fit."""

    cycles: Array
    bytes: Array


@dataclass(frozen=True, slots=True)
class Rates:
    """Cycles of a transfer: each instruction, each row, each element."""

    queue: str
    instruction: float
    element: float


def rates(transfer: Transfer) -> Rates:
    """Told from what instructions of few and of many elements take."""
    rows, columns = transfer.rows, transfer.columns
    long = columns if columns.size is not None else rows
    one = {} if rows.size is None else {rows.size: 1 - rows.offset}

    def cycles(count: int) -> int:
        size = {} if long.size is None else {long.size: count - long.offset}
        cost = transfer.operation.takes({**one, **size})
        return cost.latency + cost.beats + cost.cycles

    if long.size is None:  # so many at once, and no others
        whole = cycles(0)
        return Rates(transfer.operation.queue, 0.0, whole / (rows.offset * columns.offset))
    element = (cycles(2 * RATES) - cycles(RATES)) / RATES
    return Rates(transfer.operation.queue, cycles(RATES) - element * RATES, element)


class CostModel:
    """Of one mapping on one machine."""

    def __init__(self, mapped: Mapped, machine: Accelerator) -> None:
        self.mapped, self.machine = mapped, machine
        self.views = views(mapped)
        self.depths = {v.memory: float(machine.memory(v.memory).depth or 0) for v in self.views}
        self.rates = [None if v.transfer is None else rates(v.transfer) for v in self.views]
        assert mapped.write.transfer is not None, "results are stored"
        self.store = rates(mapped.write.transfer)
        self.moving = [{d for a in v.axes for d in a.coefficients} for v in self.views]
        self.trees = [*nodes(mapped.tree)]
        if isinstance(mapped.start, Node):
            self.trees += nodes(mapped.start)

    def costs(
        self,
        sizes: Mapping[str, Array],
        order: Sequence[str],
        spread: frozenset[int],
        buffers: int = 2,
    ) -> Costs:
        extents = self.mapped.extents
        trips = {d: np.ceil(extents[d] / sizes[d]) for d in extents}
        parts = [
            self._size(view, sizes, n in spread) * view.group for n, view in enumerate(self.views)
        ]
        live = self._live(trips, order)
        counts, fits = self._slots(parts, trips, order, live, buffers)
        loads = [self._loads(n, counts[n], trips, order) for n in range(len(self.views))]
        busy: dict[str, Array] = {queue.name: np.zeros_like(live) for queue in self.machine.queues}
        first = np.zeros_like(live)
        alone = np.zeros_like(live)
        moved = np.zeros_like(live)
        for n, rate in enumerate(self.rates):
            if rate is None:
                continue
            view = self.views[n]
            one = rate.instruction * self._moves(view, sizes) + rate.element * parts[n]
            busy[rate.queue] = busy[rate.queue] + one * loads[n]
            moved = moved + parts[n] * loads[n] * self._bytes(view)
            first = first + one
            alone = alone + np.where((counts[n] < 2) & (loads[n] > 1), one * (loads[n] - 1), 0.0)
        results = self._results(trips)
        results_size = self._size(self.mapped.write, sizes, False) * self.mapped.write.group
        compute = self._computing(sizes, trips, counts, results)
        for queue, cycles in compute.items():
            busy[queue] = busy[queue] + cycles
        one = (
            self.store.instruction * self._moves(self.mapped.write, sizes)
            + self.store.element * parts[0]
        )
        if self.mapped.compute is None:
            one = self.store.instruction + self.store.element * results_size
        busy[self.store.queue] = busy[self.store.queue] + one * results
        moved = moved + results_size * results * self._bytes(self.mapped.write)
        alone = alone + np.where(
            counts[0] < 2 * live, one * results / np.maximum(live, 1) * (results > live), 0.0
        )
        total = np.max(np.stack(list(busy.values())), axis=0) + first + one
        own = sum(compute.values())
        total = np.maximum(total, own + alone + first + one)
        return Costs(np.where(fits, total, np.inf), moved)

    # ---- footprints -------------------------------------------------------------------------

    def _size(self, view: View, sizes: Mapping[str, Array], spread: bool) -> Array:
        total: Array = np.ones_like(next(iter(sizes.values())))
        for n, axis in enumerate(view.axes):
            length: Array = np.zeros_like(total)
            step = 0
            for dim, c in axis.coefficients.items():
                length = length + abs(c) * (sizes[dim] - 1)
                step = gcd(step, abs(c)) if self.mapped.extents[dim] > 1 else step
            if n == len(view.axes) - 1 and not spread:
                step = 1
            total = total * (length // max(step, 1) + 1)
        return total

    def _moves(self, view: View, sizes: Mapping[str, Array]) -> Array:
        """Instructions that a part takes: all axes but the last two are gone through one by one."""
        total: Array = np.ones_like(next(iter(sizes.values())))
        whole = total > 0
        kept = 2.0 * np.ones_like(total)  # axes that one instruction still takes
        for axis in reversed(view.axes):
            count: Array = np.ones_like(total)
            for dim, c in axis.coefficients.items():
                count = count + abs(c) * (sizes[dim] - 1)
            many = count > 1
            joined = many & whole
            alone = many & ~joined & (kept <= 0)
            total = total * np.where(alone, count, 1.0)
            kept = kept - np.where(many & (~joined | (count < axis.size)), 1.0, 0.0)
            whole = whole & (count >= axis.size) & (len(axis.coefficients) < 2)
        return total

    def _bytes(self, view: View) -> int:
        assert view.transfer is not None, "it is moved"
        return self.machine.memory(view.transfer.main.memory).nbytes

    # ---- slots ------------------------------------------------------------------------------

    def _live(self, trips: Mapping[str, Array], order: Sequence[str]) -> Array:
        found: Array = np.ones_like(next(iter(trips.values())))
        inside = np.zeros_like(found, dtype=bool)
        for dim in order:
            if dim in self.mapped.folds:
                inside = inside | (trips[dim] > 1)
            else:
                found = found * np.where(inside, trips[dim], 1.0)
        return found

    def _window(self, n: int, trips: Mapping[str, Array], order: Sequence[str]) -> Array:
        """Parts between two uses of one (``tiling.reused``)."""
        found: Array = np.ones_like(next(iter(trips.values())))
        inside = np.zeros_like(found, dtype=bool)
        for dim in order:
            if dim in self.moving[n]:
                found = found * np.where(inside, trips[dim], 1.0)
            else:
                inside = inside | (trips[dim] > 1)
        return found

    def _slots(
        self,
        parts: Sequence[Array],
        trips: Mapping[str, Array],
        order: Sequence[str],
        live: Array,
        buffers: int,
    ) -> tuple[list[Array], Array]:
        """How many slots each view has; whether all have what they need."""
        wanted: list[list[Array]] = []
        for n in range(len(self.views)):
            every: Array = np.ones_like(live)
            for dim in order:
                if dim in self.moving[n]:
                    every = every * trips[dim]
            if n >= len(self.views) - len(self.mapped.moved):
                more = [np.minimum(float(buffers), every), np.ones_like(live)]
            elif n == 0:
                more = (
                    [live]
                    if buffers == 1
                    else [np.minimum(2 * live, np.maximum(every, live)), live]
                )
            else:
                window = self._window(n, trips, order)
                more = (
                    [window, np.ones_like(live)]
                    if buffers == 1
                    else [
                        np.minimum(each, every)
                        for each in (
                            every,
                            2 * window,
                            window + 1,
                            window,
                            2 * np.ones_like(live),
                            np.ones_like(live),
                        )
                    ]
                )
            wanted.append(more)
        sizes = [p if n or self.mapped.compute is not None else 0 * p for n, p in enumerate(parts)]
        counts = [more[-1] for more in wanted]
        room = {memory: np.full_like(live, depth) for memory, depth in self.depths.items()}
        for n, view in enumerate(self.views):
            room[view.memory] = room[view.memory] - sizes[n] * counts[n]
        fits = np.all(np.stack([r >= 0 for r in room.values()]), axis=0)
        for n in sorted(
            range(len(self.views)), key=lambda n: float(np.mean(sizes[n] * wanted[n][0]))
        ):
            memory = self.views[n].memory
            best = counts[n]
            done = np.zeros_like(fits)
            for count in wanted[n]:
                can = (
                    ~done & ((count - counts[n]) * sizes[n] <= room[memory]) & (count >= counts[n])
                )
                best = np.where(can, count, best)
                done = done | can
            room[memory] = room[memory] - (best - counts[n]) * sizes[n]
            counts[n] = best
        return counts, fits

    def _loads(
        self, n: int, count: Array, trips: Mapping[str, Array], order: Sequence[str]
    ) -> Array:
        """How often a part is loaded, all in all."""
        found: Array = np.ones_like(count)
        distinct: Array = np.ones_like(count)
        for dim in reversed(order):
            if dim in self.moving[n]:
                found = found * trips[dim]
                distinct = distinct * trips[dim]
            else:
                found = np.where(distinct <= count, found, found * trips[dim])
        return found

    # ---- computing --------------------------------------------------------------------------

    def _results(self, trips: Mapping[str, Array]) -> Array:
        """Tiles of results."""
        found: Array = np.ones_like(next(iter(trips.values())))
        for dim, count in trips.items():
            if dim not in self.mapped.folds:
                found = found * count
        return found

    def _computing(
        self,
        sizes: Mapping[str, Array],
        trips: Mapping[str, Array],
        counts: Sequence[Array],
        results: Array,
    ) -> dict[str, Array]:
        """Cycles of computing, by queue."""
        busy: dict[str, Array] = {}

        def add(compute: Compute, turns: float, instructions: Array, lists: Array) -> None:
            cycles = turns * turn_cycles(compute) + instructions * _overhead(compute) + lists
            queue = compute.operation.queue
            busy[queue] = busy.get(queue, 0.0) + cycles

        extents = self.mapped.extents
        elements = float(np.prod([n for d, n in extents.items() if d not in self.mapped.folds]))
        for node in self.trees:
            add(node.compute, elements, results, results * 0.0)
        if self.mapped.compute is not None:
            turns = float(np.prod(list(extents.values())))
            tiles = np.prod(np.stack(list(trips.values())), axis=0)
            inner = np.prod(np.stack(list(sizes.values())), axis=0)
            largest = np.sort(np.stack(list(sizes.values())), axis=0)
            turned = len(self.mapped.compute.turns)
            own = np.prod(largest[-turned:], axis=0) if turned else np.ones_like(inner)
            rest = inner / own
            words = WORDS if self.mapped.compute.words is not None else 1
            instructions = np.maximum(1.0, np.ceil(rest / words))
            lists = 0.0 * tiles
            if self.mapped.compute.words is not None:
                combined = np.ones_like(tiles)
                for count in counts[: 1 + len(self.mapped.operands)]:
                    combined = np.maximum(combined, count)
                lists = np.minimum(tiles, 2 * combined) * rest * 0.5
            add(self.mapped.compute, turns, tiles * instructions, lists)
        return busy


def _overhead(compute: Compute) -> int:
    """Cycles of an instruction beside its turns."""
    return max(0, compute.operation.takes(_once(compute)).cycles - turn_cycles(compute))


def _once(compute: Compute) -> dict[str, int]:
    fields = {turn.field: 1 - turn.offset for turn in compute.turns}
    if compute.words is not None:
        fields |= {compute.words.begin: 0, compute.words.end: 1}
    return fields
