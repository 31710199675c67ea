"""Cycles that programs take, about, and what these consist of.

Nests run one after the other. In each, arithmetic overlaps with what passes between memories, and
transfers between different memories overlap by half; the first block of a run, which no prefetcher
foretells, waits for its latency, shared by all misses in flight. What as a whole stays in a cache
is taken to be there: programs are called more than once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weft.ir.machine import Machine
from weft.ir.schedule_tree import Sequence as TreeSequence
from weft.ir.schedule_tree import Tree, statements_below
from weft.polyhedral.cost.bound import instances, whole_statements
from weft.polyhedral.cost.compute import Core, core_of, tiled_core
from weft.polyhedral.cost.forms import ONE, ZERO, Array, Flags, total
from weft.polyhedral.cost.operation_counts import flops, operation_counts
from weft.polyhedral.cost.parts import Part, Parts
from weft.polyhedral.cost.traffic import Memories, Moved, Traffic, Work

COMPUTING = ("arithmetic", "latency", "instructions")
PORTS = "loads and stores"


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """``cycles`` and their ``parts``, each as if it were alone; ``moved``: bytes by level."""

    cycles: Array
    parts: Mapping[str, Array]
    operations: Array
    moved: Mapping[str, Array]
    runs: Array
    pages: Array


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """Memories of one kind by name: cycles for a block that comes, and more for the first of a
    run, a row per level; ``stays``: where all that is touched does."""

    names: Sequence[str]
    traffic: Traffic
    cycles: Array
    wait: Array
    stays: Flags
    moved: list[Moved]

    def passing(self, tree: Tree) -> Array:
        """Cycles of the transfers of ``tree``, a row per level."""
        self.moved.append(self.traffic.of(tree))
        cycles = self.moved[-1].blocks * self.cycles + self.moved[-1].runs * self.wait
        return np.where(self.stays, 0.0, cycles)

    def rows(self, amounts: Array) -> Array:
        return np.broadcast_to(amounts, (len(self.names), amounts.shape[-1]))


def estimate(of: Parts, machine: Machine, threads: int) -> Estimate:
    """Of all candidates of ``of``."""
    times = _instances(of)
    cores = {name: _core(part, times[name], machine) for name, part in of.parts.items()}
    caches, pages = _caches(of, machine), _translations(of, machine)
    names = (*COMPUTING, PORTS, *caches.names, *pages.names, "loops", "threads")
    parts: dict[str, Array] = dict.fromkeys(names, ZERO)
    cycles = ZERO
    for tree in _nests(of.tree):
        below = [name for name in statements_below(tree) if name in cores]
        own = [cores[name] for name in below]
        share, shared, meeting = _threads([of.parts[name] for name in below], machine, threads)
        loops, ports = total(c.loops for c in own), total(c.ports for c in own)
        computing = [total(c.arithmetic for c in own), total(c.chain for c in own)]
        computing.append(total(c.issue for c in own))
        passing, looking = caches.passing(tree), pages.passing(tree)
        ways = [ports / share, *passing[:-1] / share, passing[-1] / shared, *looking / share]
        stacked = np.stack(np.broadcast_arrays(*ways))
        longest = stacked.max(axis=0)
        moving = longest + (stacked.sum(axis=0) - longest) * (1 - machine.overlap)
        busy = np.maximum.reduce(np.broadcast_arrays(*computing)) / share
        cycles = cycles + np.maximum(busy, moving) + loops / share + meeting
        every = (*computing, ports, *passing, *looking, loops, meeting)
        parts = {name: parts[name] + more for name, more in zip(names, every, strict=True)}
    moved, runs = _all_moved(caches)
    done = total(times[n] * flops(operation_counts(p.statement)) for n, p in of.parts.items())
    looked = total(pages.rows(each.blocks)[0] for each in pages.moved)
    return Estimate(cycles, parts, done, moved, runs, looked)


def _instances(of: Parts) -> dict[str, Array]:
    """Of each statement: those of all parts of one together exactly, where that is known; as many
    more in another candidate as its domain has more points."""
    found: dict[str, Array] = {}
    for whole, names in whole_statements(of.scheduled):
        points = {name: of.parts[name].nest.points for name in names if name in of.parts}
        exact = instances(whole.dims, whole.domain, of.sizes) if points else None
        about = max(float(total(points.values())[0]), 1e-9)
        scale = 1.0 if exact is None else exact / about
        found |= {name: own * scale for name, own in points.items()}
    return found


def _core(part: Part, times: Array, machine: Machine) -> Core:
    if part.tile is not None:
        return tiled_core(part, part.tile, times, machine)
    return core_of(part, times, machine)


def _nests(tree: Tree) -> list[Tree]:
    """The parts that run one after the other."""
    if not isinstance(tree, TreeSequence):
        return [tree]
    return [nest for child in tree.children for nest in _nests(child)]


# ---- memories -----------------------------------------------------------------------------------


def _caches(of: Parts, machine: Machine) -> _Side:
    line, frequency = machine.caches[0].line, machine.frequency
    beyond = [(c.bandwidth, c.latency) for c in machine.caches[1:]]
    beyond.append((machine.memory_bandwidth / frequency, machine.memory_latency * frequency))
    ways = [cache.ways for cache in machine.caches]
    sets = [max(1, cache.size // (line * cache.ways)) for cache in machine.caches]
    names = [f"L{k}" for k in range(1, len(ways) + 1)]
    cycles = [line / speed for speed, _ in beyond]
    wait = [latency / machine.misses for _, latency in beyond]
    return _side(of, names, Memories(line, _column(sets), _column(ways)), cycles, wait)


def _translations(of: Parts, machine: Machine) -> _Side:
    entries = [tlb.entries for tlb in machine.tlbs]
    names = [f"TLB{k}" for k in range(1, len(entries) + 1)]
    memories = Memories(machine.page, _column([1] * len(entries)), _column(entries), 1)
    return _side(of, names, memories, [tlb.cycles for tlb in machine.tlbs], [0] * len(entries))


def _side(
    of: Parts,
    names: Sequence[str],
    memories: Memories,
    cycles: Sequence[float],
    wait: Sequence[float],
) -> _Side:
    works = {name: Work(part.nest, part.groups()) for name, part in of.parts.items()}
    traffic = Traffic(works, of.stored, memories)
    stays = traffic.fits(list(works), 0)
    return _Side(names, traffic, _column(cycles), _column(wait), stays, [])


def _column(values: Sequence[float]) -> Array:
    return np.array(values, float)[:, None]


def _all_moved(caches: _Side) -> tuple[dict[str, Array], Array]:
    """Bytes into each level, and runs of lines into the first; what stays comes once."""
    whole = caches.traffic.whole()
    blocks = sum((each.blocks for each in caches.moved), ZERO)
    runs = sum((each.runs for each in caches.moved), ZERO)
    blocks = np.where(caches.stays, np.minimum(blocks, whole.blocks), blocks)
    runs = np.where(caches.stays, np.minimum(runs, whole.runs), runs)
    amounts = caches.rows(blocks) * caches.traffic.memories.block
    return dict(zip(caches.names, amounts, strict=True)), caches.rows(runs)[0]


# ---- threads ------------------------------------------------------------------------------------


def _threads(parts: Sequence[Part], machine: Machine, threads: int) -> tuple[Array, Array, Array]:
    """How many times faster than on one thread the loops of a nest are, and its transfers out of
    memory; cycles of waking up and of meeting."""
    share, starts = ONE, ZERO
    for part in parts if threads > 1 else ():
        kinds, nest = part.kinds, part.nest
        first = next((d for d, kind in enumerate(kinds) if kind == "parallel"), None)
        if first is not None:
            after = next(
                (d for d in range(first, len(kinds)) if kinds[d] != "parallel"), len(kinds)
            )
            begun = nest.iterations(first)
            turns = nest.iterations(after) / np.maximum(begun, 1e-9)
            share = np.maximum(share, turns / np.maximum(np.ceil(turns / threads), 1.0))
            starts = np.maximum(starts, begun)
    most = max(1.0, machine.shared_bandwidth / machine.memory_bandwidth)
    meeting = starts * machine.barrier + (starts > 0) * machine.wake
    return share, np.minimum(share, most), meeting * machine.frequency
