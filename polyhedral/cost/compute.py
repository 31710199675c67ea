"""What the core does: cycles of arithmetic, of loads and stores, of chains and of loops.

The innermost loop issues vectors where its kind is "vector", else numbers one by one: nothing
vectorises behind the schedule's back. A step takes as long as its arithmetic, the instructions
that it issues, or the chain through a sum; its loads and stores are apart, since transfers between
caches do not overlap with them on some cores (Stengel, Treibig, Hager, Wellein, "Quantifying
performance bottlenecks of stencil computations using the execution-cache-memory model", 2015).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from weft.ir.instruction import Instruction
from weft.ir.machine import Loops, Machine, outer_product
from weft.ir.schedule_tree import RegisterTile
from weft.ir.scop import Statement
from weft.polyhedral.cost.forms import ONE, ZERO, Array, total
from weft.polyhedral.cost.operation_counts import computing, operation_counts
from weft.polyhedral.cost.parts import Part, Tile, Touch

SUMS = 4  # chains that a sum along a vector loop is kept in


@dataclass(frozen=True, slots=True, eq=False)
class Core:
    """Cycles of all instances of a statement on one core."""

    arithmetic: Array
    chain: Array
    issue: Array
    ports: Array
    loops: Array


def core_of(part: Part, times: Array, machine: Machine) -> Core:
    """Of ``times`` instances."""
    step = _Step(part, machine)
    inner, lanes, jammed = step.inner, step.lanes, step.jammed
    folds, counts = part.statement.update is not None, operation_counts(part.statement)
    loads = total(map(step.issued, (*part.reads, *(part.writes if folds else ()))))
    stores = total(map(step.issued, part.writes))
    arithmetic = computing(counts, machine)
    instructions = loads + stores + sum(counts.values()) + machine.loops.control / jammed
    stays = np.full(1, folds and bool(step.loops))
    for touch in part.writes:
        stays = stays & (touch.along(inner.at) == 0)
    # A sum that stays where it is is one chain, or as many as are jammed; chains of short loops run
    # side by side as far as the core looks ahead.
    summed = inner is step.across
    ahead = np.maximum(machine.window / np.maximum(instructions * step.turns, 1.0), 1.0)
    waits = np.where(stays, 1 / (jammed * (SUMS if summed else 1)), part.chain()) / ahead
    loops = machine.loops
    foreseen = 0.0 if part.nest.is_box else loops.surprise
    often = np.where(inner.trips <= loops.foreseen, foreseen, loops.surprise)
    ends = np.where(step.turns > 1, machine.mispredict * often, 0.0)
    if summed:  # lanes and chains are added up
        ends = ends + np.where(stays, 2 * np.log2(lanes * SUMS) / machine.issue, 0.0)
    steps = times / lanes * step.tails
    return Core(
        steps * arithmetic,
        steps * waits * machine.fma_latency,
        steps * instructions / machine.issue,
        steps * np.maximum(loads / machine.loads_per_cycle, stores / machine.stores_per_cycle),
        _begun(part, len(part.kinds), loops) + (inner.entries * ends if step.loops else 0.0),
    )


class _Step:
    """What runs at once: ``lanes`` along the loop ``across``, if one is of vectors; ``jammed``
    turns of unrolled loops. ``tails``: how many vectors there are for each full one."""

    def __init__(self, part: Part, machine: Machine) -> None:
        self.loops = [_Loop(part, d) for d, kind in enumerate(part.kinds) if kind != "unrolled"]
        self.inner = self.loops[-1] if self.loops else _Loop(part, None)
        self.across = next((x for x in self.loops if x.kind == "vector"), None)
        self.lanes, self.tails, self.jammed = 1, ONE, ONE
        if self.across is not None:
            widest = max(touch.item for touch in (*part.reads, *part.writes))
            self.lanes = max(1, machine.vector_bytes // widest)
            full = np.maximum(self.across.trips, 1e-9) / self.lanes
            self.tails = np.ceil(full) / full
        for d, kind in enumerate(part.kinds):
            if kind == "unrolled":
                self.jammed = self.jammed * np.maximum(_Loop(part, d).trips, 1.0)
        vectors = self.lanes if self.inner is self.across else 1
        self.turns = np.maximum(self.inner.trips / vectors, 1.0)  # of the innermost loop
        self.gather = machine.accesses.gather

    def issued(self, touch: Touch) -> Array:
        """Loads, or stores: what the innermost loop does not move, once for all its turns."""
        if touch.held:
            return ZERO
        near = self.across is None or touch.along(self.across.at) <= touch.item
        # Vectors across rows go through transposed blocks, where a loop runs along the rows.
        rows = [touch.along(x.at) == touch.item for x in self.loops if x is not self.across]
        blocks = np.any(np.broadcast_arrays(*rows, np.zeros(1, bool)), axis=0)
        across = np.where(blocks, 1.0 + np.log2(self.lanes), self.lanes * self.gather)
        own = np.where(near, 1.0, across)
        return np.where(touch.along(self.inner.at) == 0, own / self.turns, own)


class _Loop:
    """The loop at ``depth`` of a nest, or none: how often it begins, and turns each time."""

    def __init__(self, part: Part, depth: int | None) -> None:
        self.entries, self.trips, self.at, self.kind = ONE, ONE, None, ""
        if depth is not None:
            self.entries = part.nest.iterations(depth)
            self.trips = part.nest.iterations(depth + 1) / np.maximum(self.entries, 1e-9)
            self.at, self.kind = part.nest.fixed[depth], part.kinds[depth]


def _begun(part: Part, depth: int, loops: Loops) -> Array:
    """Cycles of beginning the first ``depth`` loops, each time."""
    return total(part.nest.iterations(d) for d in range(depth)) * loops.entry


def tiled_core(part: Part, tile: Tile, times: Array, machine: Machine) -> Core:
    """Of ``times`` instances in register tiles; those at edges are smaller, of whole vectors."""
    nest, outside = part.nest, tile.outside
    instruction = instruction_of(part.statement, tile.payload, machine)
    first = len(part.kinds) - 1 - len(tile.rows)  # the loops: streams, rows, lane
    at = nest.fixed[first:]
    widths = nest.widths(outside)
    own = [ONE if c is None else widths[c[0]] for c in at]
    tall = [np.minimum(w, size) for w, size in zip(own[:-1], tile.rows, strict=True)]
    vectors = np.ceil(np.minimum(own[-1], tile.lanes) / instruction.lanes)
    words = instruction.depth // instruction.word  # vectors of them, for each of a step's lanes
    tiles = nest.iterations(outside) * times / np.maximum(nest.points, 1e-9)
    streams = nest.iterations(first) / np.maximum(nest.iterations(outside), 1e-9)
    steps = tiles * np.ceil(streams / instruction.depth)
    issues = vectors * np.ceil(prod(tall, start=ONE) / instruction.rows)
    loads = lane_operands = ZERO
    for touch in part.reads:
        moved = [touch.along(c) != 0 for c in at]
        each = np.where(moved[-1], vectors * words, 1.0)
        for moves, size in zip(moved[:-1], tall, strict=True):
            each = each * np.where(moves, size, 1.0)
        loads = loads + each
        lane_operands = lane_operands + np.where(moved[-1], vectors * words, 0.0)
    # Sums beyond the registers are loaded and stored in each step, the others once for each tile.
    spilled = np.maximum(registers(issues, lane_operands) - instruction.registers, 0.0)
    stored = tiles * issues + steps * spilled
    loads = loads + spilled
    ports = steps * loads / machine.loads_per_cycle + stored / machine.stores_per_cycle
    return Core(
        steps * issues * instruction.cycles,
        steps * machine.fma_latency,
        steps * (issues + loads + spilled + machine.loops.control) / machine.issue,
        ports,
        _begun(part, outside + 1, machine.loops)
        + tiles * machine.mispredict * machine.loops.surprise,
    )


def registers(issues: Array, lane_operands: Array) -> Array:
    """What a tile needs: its sums, operands along the lanes, and one that is broadcast."""
    return issues + lane_operands + 1


def instruction_of(statement: Statement, tile: RegisterTile, machine: Machine) -> Instruction:
    """What the steps of ``tile`` are made of."""
    update = statement.update
    assert update is not None, "register tiles are of updates"
    if tile.instruction is not None:
        return tile.instruction
    dtype = update.monoid.dtypes[0]
    return outer_product(machine, dtype, any_update=update.monoid.name != "add")
