"""A cost model of tilings in closed form, vectorised over thousands of tilings.

Between tiles, one of the outer loops advances; the parts that are not in a buffer
(``tiling.slots_for``) are loaded. With a second buffer the loads of a tile overlap the computation
of the tile before: a step takes the maximum of the two, and no queue or shared channel is faster
than the sum of its work. The first loads, the last stores and views with a single buffer are not
overlapped.

Columns of arrays are tilings (``tile_grid``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weft.accel.capabilities import Compute, Transfer
from weft.accel.hardware_loops import MAX_WORDS, WORD
from weft.accel.instruction_tree import Node, iteration_cycles, nodes
from weft.accel.mapping import View
from weft.accel.tile_footprints import Footprint, Tiles
from weft.accel.tile_grid import Array, Flags, Numbers
from weft.accel.tiling import views
from weft.ir.accelerator import Accelerator, Cost, Memory

AT_ONCE = 512  # micro-operations per transfer, estimated
LIST = 16  # cycles of latency of such a transfer, estimated
Columns = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Costs:
    """Cycles, inf if it does not fit; bytes of main-memory traffic."""

    cycles: Array
    bytes: Array


class CostModel:
    """Of the tilings ``tiles`` of one mapping, on the machine that it was made for or another with
    the same instructions. ``buffers``: as in ``tiling.slots_for``."""

    def __init__(
        self, tiles: Tiles, machine: Accelerator, packed: frozenset[int], buffers: int = 2
    ) -> None:
        self.tiles, self.machine, self.packed, self.buffers = tiles, machine, packed, buffers
        self.mapped = mapped = tiles.mapped
        self.views = views(mapped)
        self.moving = np.array(
            [
                [any(dim in axis.coefficients for axis in view.axes) for dim in tiles.dims]
                for view in self.views
            ]
        )
        self.folds = np.array([dim in mapped.folds for dim in tiles.dims])
        self.parts = [tiles.footprint(n, n in packed) for n in range(len(self.views))]
        assert mapped.write.transfer is not None, "results are stored"
        self.store = self._rates(mapped.write.transfer)
        self.rates = [None if v.transfer is None else self._rates(v.transfer) for v in self.views]
        # Results computed in the place of an operand have no buffers of their own.
        self.holds = [
            _taken(machine.memory(view.memory), part.whole)
            if n or mapped.compute is not None
            else 0 * part.whole
            for n, (part, view) in enumerate(zip(self.parts, self.views, strict=True))
        ]
        self.results: Array = np.prod(tiles.trips[~self.folds], axis=0)
        self.loading = [
            None if rate is None else rate.cycles(part)
            for rate, part in zip(self.rates, self.parts, strict=True)
        ]
        self.storing = self.store.cycles(tiles.written) * mapped.planes
        self.words, self.instructions = self._arranged()
        self.computing = self._computing()
        self.copying = self._copying()

    def _copying(self) -> dict[int, Array]:
        """Cycles of the copies that follow a load, by view, in the queue that computes; those of
        other queues are added to the load."""
        number = {id(view): n for n, view in enumerate(self.views)}
        found: dict[int, Array] = {}
        for view in self.views:
            source = view
            while source.source is not None:
                source = source.source
            n, own = number[id(source)], number[id(view)]
            elements = self.parts[n].whole / source.group
            for node in [] if view.copy is None else nodes(view.copy):
                cycles = elements * node.cycles + _overhead(node.compute)
                one = self.loading[n]
                assert one is not None, "it is loaded"
                if node.compute.operation.queue == self.queue:
                    found[own] = found.get(own, 0.0) + cycles
                else:
                    self.loading[n] = one + cycles
        return found

    def _rates(self, transfer: Transfer) -> Rates:
        """On this machine, whatever the mapping was made for."""
        return rates(replace(transfer, operation=self.machine.operation(transfer.operation.name)))

    # ---- all orders -------------------------------------------------------------------------

    def fits(self) -> Flags:
        """Tilings whose parts all fit once, and whose stores write results only."""
        found = self.tiles.solid
        for memory in {view.memory for view in self.views}:
            inside = [h for h, v in zip(self.holds, self.views, strict=True) if v.memory == memory]
            found &= sum(inside) <= (self.machine.memory(memory).depth or 0)
        return found

    def least(self) -> Array:
        """A lower bound on cycles for any loop order: everything is loaded once, first loads and
        last stores are not overlapped."""
        busy = {queue: work.copy() for queue, work in self.computing.items()}
        outside = self.storing
        for n, (rate, one) in enumerate(zip(self.rates, self.loading, strict=True)):
            if rate is not None and one is not None:
                parts = np.prod(self.tiles.trips[self.moving[n]], axis=0)
                again = parts if rate.queue == self.queue else parts - 1
                busy[rate.queue] = busy.get(rate.queue, 0.0) + one * again
                outside = outside + one
        stored = self.storing * (self.results - 1)
        busy[self.store.queue] = busy.get(self.store.queue, 0.0) + stored
        longest: Array = np.max(np.stack(list(busy.values())), axis=0)
        return longest + outside

    def costs(self, columns: Columns, orders: Numbers) -> Costs:
        """Of tilings ``columns``, with a loop order for each."""
        return _Ordered(self, columns, orders).costs()

    # ---- computing --------------------------------------------------------------------------

    def _computing(self) -> dict[str, Array]:
        """Cycles of computation, by queue."""
        busy: dict[str, Array] = {}
        extents = np.array(list(self.mapped.extents.values()), float)
        more = self.mapped.planes - 1

        def add(compute: Compute, trips: float, instructions: Array) -> None:
            own = self.machine.operation(compute.operation.name)
            compute = replace(compute, operation=own)
            cycles = trips * iteration_cycles(compute) + instructions * _overhead(compute)
            queue = compute.operation.queue
            busy[queue] = busy.get(queue, 0.0) + cycles

        elements = float(np.prod(extents[~self.folds]))
        start = nodes(self.mapped.start) if isinstance(self.mapped.start, Node) else []
        for node in (*nodes(self.mapped.tree), *start):
            add(node.compute, elements, self.results)
        if isinstance(self.mapped.start, View) and self.mapped.start.transfer is not None:
            rate = self._rates(self.mapped.start.transfer)
            loaded = rate.cycles(self.parts[0]) * self.results
            busy[rate.queue] = busy.get(rate.queue, 0.0) + loaded
        if self.mapped.between is not None:
            for node in nodes(self.mapped.between):
                add(node.compute, elements * more, self.results * more)
        self.finishing: Array = sum(busy.values(), np.zeros_like(self.results))
        self.summing: Array = np.zeros_like(self.results)
        if self.mapped.compute is not None:
            tiles = np.prod(self.tiles.trips, axis=0)
            add(self.mapped.compute, float(np.prod(extents)), tiles * self.instructions)
            every: Array = sum(busy.values(), np.zeros_like(self.results))
            self.summing = every - self.finishing
        return busy

    @property
    def queue(self) -> str:
        """The queue with the most computation."""
        return next(iter(self.computing), self.store.queue)

    def _arranged(self) -> tuple[Array, Array]:
        """(micro-operations, instructions) of a tile, as ``hardware_loops.arrange`` has them: the
        longest loops are hardware loops, and updates of an element are apart."""
        compute = self.mapped.compute
        sizes = self.tiles.sizes
        if compute is None:
            return np.zeros_like(self.results), np.zeros_like(self.results)
        own = len(compute.loops)
        by_size = np.argsort(-sizes, axis=0, kind="stable")
        ranked = np.take_along_axis(sizes, by_size, axis=0)[own:]
        folds = self.folds[by_size][own:]
        rest = np.prod(ranked, axis=0)
        if compute.words is None:
            return np.zeros_like(rest), rest
        inner = np.prod(np.where(folds, 1.0, ranked), axis=0)
        summed = np.prod(sizes[self.folds], axis=0)
        moved = np.prod(sizes[~self.folds], axis=0)
        apart = compute.operation.apart
        near = (summed > 1) & (inner < apart)
        # A loop is unrolled in part to keep them apart; if all of it is too short, each step of the
        # reduction is an instruction.
        cut = np.where(near & (moved >= apart), np.minimum(4.0, moved / inner), 1.0)
        alone = (summed > 1) & (moved < apart)
        words = np.where(alone, moved, rest * cut)
        return words, np.where(alone, summed, np.maximum(1.0, np.ceil(words / MAX_WORDS)))

    def lists(self, columns: Columns, counts: Array) -> Array:
        """Cycles of loading micro-operations: once for each buffer if all fit, otherwise each
        time."""
        compute = self.mapped.compute
        if compute is None or compute.words is None:
            return np.zeros(len(columns))
        tiles = np.prod(self.tiles.trips[:, columns], axis=0)
        operands = np.max(counts[1 : 1 + len(self.mapped.operands)], axis=0, initial=1.0)
        different = np.minimum(tiles, operands * counts[0])
        each = self.words[columns]
        room = self.machine.memory(compute.words.memory).depth or 0
        kept = different * each <= room
        loads = np.where(kept, np.ceil(different * each / AT_ONCE), tiles)
        cycles: Array = np.where(kept, different, tiles) * each * WORD + loads * LIST
        return cycles


class _Ordered:
    """Tilings with a loop order each: rows are loops, the outermost first."""

    def __init__(self, model: CostModel, columns: Columns, orders: Numbers) -> None:
        self.model, self.columns, self.orders = model, columns, orders
        self.trips = np.take_along_axis(model.tiles.trips[:, columns], orders, axis=0)
        self.folds = model.folds[orders]
        self.moving = [moving[orders] for moving in model.moving]
        self.tiles: Array = np.prod(self.trips, axis=0)
        self.results = model.results[columns]
        self.live: Array = self._inside(self.folds, ~self.folds)
        self.counts, self.fits = self._slots()

    def costs(self) -> Costs:
        model, columns = self.model, self.columns
        rows = steps(self.trips, *self._uneven())
        loads: list[Loading] = []
        finishing = model.finishing[columns]
        first, carried = np.zeros_like(self.live), np.zeros_like(self.live)
        moved: Array = model.tiles.written.elements[columns] * self.results * self._bytes(-1)
        for n, copied in model.copying.items():
            finishing = finishing + copied[columns] * (1 + np.sum(self._loads(n)[0], axis=0))
        for n, rate in enumerate(model.rates):
            one = model.loading[n]
            if rate is None or one is None:
                continue
            one = one[columns]
            found, fraction = self._loads(n)
            every = 1 + np.sum(found, axis=0)
            if rate.queue == model.queue:
                finishing = finishing + one * every
            else:
                loads.append(self._loading(n, rate, one, fraction, rows))
            first = first + one
            carried = carried + rate.carried(model.parts[n])[columns] * every
            moved = moved + model.parts[n].elements[columns] * every * self._bytes(n)
        summing = (model.summing[columns] + model.lists(columns, self.counts)) / self.tiles
        finishing = finishing / self.results
        total = pipelined(
            rows, summing * rows.computed, self._scaled(finishing, rows), self._finished(), loads
        )
        total = np.maximum(total + summing + finishing, carried)
        storing = model.storing[columns]
        waits = np.where(self.counts[0] < 2 * self.live, (self.results - 1) / self.live, 0.0)
        total = np.maximum(total + storing * waits, storing * (self.results - 1)) + first + storing
        return Costs(np.where(self.fits, np.rint(total), np.inf), moved)

    def _uneven(self) -> tuple[Array, Array]:
        """(full tiles along the innermost loop, the last one), relative to the mean."""
        tiles, inner = self.model.tiles, self.orders[-1]
        size, mean = tiles.sizes[inner, self.columns], tiles.mean[inner, self.columns]
        last = tiles.extents[inner, 0] - size * (self.trips[-1] - 1)
        return size / mean, last / mean

    def _scaled(self, finishing: Array, rows: Steps) -> Array:
        """Cycles of the epilogue, by row, in proportion to the size of the tile's results."""
        return finishing * np.where(self.folds[-1], 1.0, rows.computed)

    def _finished(self) -> Array:
        """The fraction of steps in which results were finished in the tile before, by row."""
        summed = _products_before(np.where(self.folds, self.trips, 1.0))
        found = np.where(self.folds, 0.0, 1.0 / summed)
        return _by_row(found)

    def _loading(self, n: int, rate: Rates, one: Array, fraction: Array, rows: Steps) -> Loading:
        scale = np.where(self.moving[n][-1], rows.loaded, 1.0)
        count = self.counts[n]
        ahead = np.maximum(count - 2, 0)
        return Loading(rate.queue, one * scale, _by_row(fraction), count < 2, ahead)

    def _bytes(self, number: int) -> int:
        view = self.model.views[number] if number >= 0 else self.model.mapped.write
        assert view.transfer is not None, "it is moved"
        return self.model.machine.memory(view.transfer.main.memory).nbytes

    # ---- buffers ----------------------------------------------------------------------------

    def _inside(self, opens: Flags, counted: Flags) -> Array:
        """Tiles along the ``counted`` loops inside the outermost of several tiles among
        ``opens``."""
        inside = np.cumsum(opens & (self.trips > 1), axis=0) > 0
        found: Array = np.prod(np.where(inside & counted, self.trips, 1.0), axis=0)
        return found

    def _slots(self) -> tuple[Array, Flags]:
        """(the number of buffers of each view, as ``tiling.slots_for``; whether all required ones
        fit)."""
        model = self.model
        memories = sorted({view.memory for view in model.views})
        home = np.array([memories.index(view.memory) for view in model.views])
        depths = [float(model.machine.memory(name).depth or 0) for name in memories]
        holds = np.stack([each[self.columns] for each in model.holds])
        wanted = np.stack([self._wanted(n) for n in range(len(model.views))])
        counts = wanted[:, -1].copy()
        room = np.repeat(np.array(depths)[:, None], len(self.columns), axis=1)
        for n, memory in enumerate(home):
            room[memory] -= holds[n] * counts[n]
        fits = np.all(room >= 0, axis=0)
        # Greedy, the smallest parts first.
        ranked = np.argsort(holds * np.max(wanted, axis=1), axis=0, kind="stable")
        every = np.arange(len(self.columns))
        for n in ranked:
            memory, size = home[n], holds[n, every]
            least = counts[n, every]
            more = wanted[n, :, every].T
            left = room[memory, every]
            best = np.max(np.where((more - least) * size <= left, more, least), axis=0)
            best = np.maximum(best, least)
            room[memory, every] = left - (best - least) * size
            counts[n, every] = best
        return counts, fits

    def _wanted(self, n: int) -> Array:
        """Useful numbers of buffers, descending; the last one is required."""
        live, one = self.live, np.ones_like(self.live)
        double = self.model.buffers > 1
        every: Array = np.prod(np.where(self.moving[n], self.trips, 1.0), axis=0)
        if n == 0:
            most = np.minimum(2 * live, np.maximum(every, live)) if double else live
            return np.stack([most, live, live, live, live, live])
        if n >= len(self.model.views) - len(self.model.mapped.moved):
            most = np.minimum(float(self.model.buffers), every)
            return np.stack([most, one, one, one, one, one])
        window = self._inside(~self.moving[n], self.moving[n])
        if not double:
            return np.stack([window, one, one, one, one, one])
        found = np.stack([every, 2 * window, window + 1, window, 2 * one, one])
        return np.minimum(found, every)

    def _loads(self, n: int) -> tuple[Array, Array]:
        """(number, fraction of steps) of the parts loaded in the steps of each loop, after the
        first tile's. A part is reused if the other parts of its loop fit into the buffers with it.
        """
        trips, moving = self.trips, self.moving[n]
        if n > len(self.model.mapped.operands):  # results that accumulate
            trips = np.where(self.folds, 1.0, trips)
        among = np.where(moving, trips, 1.0)
        inside = np.flip(_products_before(np.flip(among, axis=0)), axis=0)
        again = moving | (inside > self.counts[n])
        passes = _products_before(np.where(again, trips, 1.0))
        return passes * (trips - 1) * again, passes / _products_before(trips) * again


def _by_row(loops: Array) -> Array:
    """As the rows of ``steps``: the innermost loop has two."""
    return np.concatenate([loops, loops[-1:]])


def _products_before(rows: Array) -> Array:
    """Exclusive cumulative products over rows."""
    found: Array = np.cumprod(np.concatenate([np.ones_like(rows[:1]), rows[:-1]]), axis=0)
    return found


def _overhead(compute: Compute) -> int:
    """Cycles of an instruction without its iterations."""
    return max(0, compute.operation.takes(_once(compute)).cycles - iteration_cycles(compute))


def _once(compute: Compute) -> dict[str, int]:
    fields = {loop.field: 1 - loop.offset for loop in compute.loops}
    if compute.words is not None:
        fields |= {compute.words.begin: 0, compute.words.end: 1}
    return fields


def _taken(memory: Memory, sizes: Array) -> Array:
    """``Memory.taken``, for arrays."""
    if not memory.bank:
        return sizes
    found: Array = np.where(sizes <= memory.bank, memory.bank, (memory.depth or 0) + 1.0)
    return found


# ---- Times of transfers: linear in instructions, elements and zeros.
#
# Fitted to the costs of instructions with few and with many elements, so that tilings are ranked
# without emitting instructions.


RATES = 64  # elements of the longer transfer that rates are fitted to


@dataclass(frozen=True, slots=True)
class Rates:
    """Cycles per instruction, per element, per zero; ``beats``: of the channel, per element."""

    queue: str
    channel: str
    instruction: float
    element: float
    zero: float
    beats: float

    def cycles(self, found: Footprint) -> Array:
        """Of a part."""
        elements = found.elements * self.element
        if self.element < 1:  # each row starts a new beat
            elements = np.maximum(elements, found.rows * np.ceil(elements / found.rows))
        cycles: Array = self.instruction * found.moves + elements + self.zero * found.zeros
        return cycles

    def carried(self, found: Footprint) -> Array:
        """Beats of a part."""
        return found.elements * self.beats


def rates(transfer: Transfer) -> Rates:
    """Fitted to the costs of instructions with few and with many elements."""
    rows, columns = transfer.rows, transfer.columns
    queue = transfer.operation.queue
    long = columns if columns.size is not None else rows
    one = {} if rows.size is None else {rows.size: 1 - rows.offset}

    def takes(count: int, **more: int) -> Cost:
        size = {} if long.size is None else {long.size: count - long.offset}
        return transfer.operation.takes({**one, **size, **more})

    few, many = takes(RATES), takes(2 * RATES)
    if long.size is None:  # a fixed number of elements
        several = rows.offset * columns.offset
        whole = few.latency + few.beats + few.cycles
        return Rates(queue, few.channel, 0.0, whole / several, 0.0, few.beats / several)
    element = (many.beats + many.cycles - few.beats - few.cycles) / RATES
    zero = 0
    if columns.before is not None:
        padded = takes(RATES, **{columns.before: 1})
        zero = padded.beats + padded.cycles - few.beats - few.cycles
    return Rates(
        queue,
        few.channel,
        few.latency + few.beats + few.cycles - element * RATES,
        element,
        zero,
        (many.beats - few.beats) / RATES if few.channel else 0.0,
    )


# ---- How long the steps from tile to tile take, where the next tile is loaded while one is
# computed.
#
# Columns are tilings. Rows are kinds of steps: by the loop that advances, the outermost first;
# the innermost one's steps are two rows, as what is loaded then is a full tile or, once, the last
# one. Every row has one pattern of what is computed and loaded, but for what happens in a
# fraction of its steps: parts that are in memory from an earlier pass, results that are finished.


@dataclass(frozen=True, slots=True)
class Steps:
    """``count`` of each row. ``computed`` and ``loaded``: the sizes of the tile computed, and of
    the part loaded along the innermost loop, relative to the mean."""

    count: Array
    computed: Array
    loaded: Array


@dataclass(frozen=True, slots=True)
class Loading:
    """One view: ``queue``; cycles, and the fraction of steps in which a part is loaded, by row;
    whether it has a single buffer, and how many steps ahead others are loaded."""

    queue: str
    cycles: Array
    fraction: Array
    single: Flags
    ahead: Array


def steps(trips: Array, full: Array, last: Array) -> Steps:
    """Of the loops ``trips``; tiles along the innermost are ``full`` of a mean one, the last is
    ``last`` of it."""
    before = np.cumprod(np.concatenate([np.ones_like(trips[:1]), trips[:-1]]), axis=0)
    count = before * (trips - 1)
    ends = np.where(trips[-1] > 1, before[-1], 0.0)
    return Steps(
        np.concatenate([count[:-1], [count[-1] - ends], [ends]]),
        np.concatenate([np.ones_like(count[:-1]) * last, [full], [full]]),
        np.concatenate([np.ones_like(count[:-1]) * full, [full], [last]]),
    )


def pipelined(
    found: Steps, summing: Array, finishing: Array, finished: Array, loads: list[Loading]
) -> Array:
    """Cycles of all steps. ``summing``, ``finishing``: cycles of reduction and of epilogue in a
    step, by row, the latter in a fraction ``finished`` of them."""
    if not loads:
        return np.asarray(np.sum(found.count * (summing + finishing * finished), axis=0))
    fractions = np.stack([each.fraction for each in loads])
    rank = np.argsort(np.argsort(-fractions, axis=0, kind="stable"), axis=0)
    ranked = -np.sort(-fractions, axis=0)
    # Rarer events are assumed to coincide with more frequent ones.
    some = np.concatenate([np.ones_like(ranked[:1]), ranked, np.zeros_like(ranked[:1])])
    total: Array = np.zeros_like(found.count)
    usual = sum(each.cycles[-2] * each.fraction[-2] for each in loads)
    for phase in range(len(loads) + 1):
        weight = some[phase] - some[phase + 1]
        if not weight.any():
            continue
        inside = [rank[n] < phase for n in range(len(loads))]
        queued, alone = _queued(loads, inside)
        for finishes, share in ((0.0, 1 - finished), (1.0, finished)):
            own = summing + finishes * finishing
            step = np.maximum(own, queued)
            slack = np.maximum(0.0, summing[-2] + finishing[-2] * finished[-2] - usual)
            hidden = np.minimum(step - own, slack * _ahead(loads, inside))
            # The epilogue needs no operands: the next ones are loaded meanwhile.
            total = total + weight * share * np.maximum(step - hidden, summing + alone)
    return np.asarray(np.sum(total * found.count, axis=0))


def _queued(loads: list[Loading], inside: list[Flags]) -> tuple[Array, Array]:
    """(cycles of the busiest queue, of loads that wait for the tile before): views with a single
    buffer, and later loads in their queue."""
    busy: dict[str, Array] = {}
    waits: dict[str, Array] = {}
    blocked: dict[str, Flags] = {}
    for each, here in zip(loads, inside, strict=True):
        work = each.cycles * here
        blocked[each.queue] = blocked.get(each.queue, False) | (here & each.single)
        busy[each.queue] = busy.get(each.queue, 0.0) + work
        waits[each.queue] = waits.get(each.queue, 0.0) + work * blocked[each.queue]
    most = np.max(np.stack(list(busy.values())), axis=0)
    return most, np.max(np.stack(list(waits.values())), axis=0)


def _ahead(loads: list[Loading], inside: list[Flags]) -> Array:
    """Steps before the last one in which a step's loads are complete, by row: 0 for those of the
    innermost loop, which set the pace."""
    found: Array = np.full_like(loads[0].cycles, np.inf)
    for each, here in zip(loads, inside, strict=True):
        limits = here | (each.fraction[-2] > 0)
        found = np.where(limits, np.minimum(found, each.ahead), found)
    found = np.where(np.isfinite(found), found, 0.0)
    found[-2:] = 0.0
    return found
