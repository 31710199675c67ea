"""The cheapest register tile for a product of known sizes: an analytical model, no isl, no timing.

A tile of rows by vectors of lanes takes one step of the reduction in as many cycles as its
multiply-adds, its loads or the latency of one accumulator need, whichever is most. Edge tiles are
smaller, in whole vectors. Operands that are strided along the lanes are packed first: constants
when compiling, others at run time, or, where few tiles use them, interleaved in registers. In the
spirit of the analytical BLIS model (Low et al., 2016).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, inf, prod

from weft.ir.instruction import Tiles
from weft.ir.machine import Machine
from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Literal
from weft.ir.scop import Access, Scop, Statement, Tensor
from weft.polyhedral.analysis.linear import (
    hull_extent,
    mentions,
    moves,
    part_extent,
    typical_extent,
)
from weft.polyhedral.map_instruction import Assignment
from weft.polyhedral.policy.lanes import strided

MAX_ROWS, MAX_VECTORS = 16, 4  # of a register tile that is looked at
CANDIDATES = 16  # register tiles that a plan may choose among
WAYS_OF_LANES = 2  # ways of L1 that the lane operand takes


@dataclass(frozen=True, slots=True)
class Choice:
    """A register tile: ``rows``, sizes by dim; ``lanes``, their dim and number; ``cycles`` of the
    whole statement; ``mixed``, numbers of the reads that are interleaved in registers."""

    rows: Mapping[str, int]
    lanes: tuple[str, int]
    cycles: float
    mixed: tuple[int, ...] = ()


def cheapest(
    scop: Scop,
    statement: Statement,
    assignment: Assignment,
    dims: tuple[str, str],
    machine: Machine,
) -> list[Choice]:
    """The best tiles for ``statement``, mapped by ``assignment`` with these two dims as row and
    lane, the cheapest first; none where a size of theirs or of the sum is open, unless it is a part
    of a size: of (w + 31) // 32 columns a tile of lanes may be empty but for a few. Other open
    sizes count how often there are tiles."""
    inside = {*dims, *assignment.streams}
    extent = {
        d: hull_extent(statement, d)
        or (part_extent if d in inside else typical_extent)(statement, d)
        for d in statement.dims
    }
    sizes = {dim: size for dim, size in extent.items() if size is not None}
    if len(sizes) < len(extent):
        return []
    accesses = tuple(_moving(a, statement.dims) for a in statement.accesses)
    cost = _Cost(scop, statement, assignment, machine, sizes, accesses)
    found = (replace(c, cycles=cost.of(c)) for c in _tiles(cost, *dims))
    best = sorted(found, key=lambda c: c.cycles)[:CANDIDATES]
    return [replace(c, mixed=cost.mixed(c)) for c in best]


def extents(statement: Statement) -> dict[str, int] | None:
    """The extent of each dim; None unless all are constants."""
    found = {dim: hull_extent(statement, dim) for dim in statement.dims}
    known = {dim: size for dim, size in found.items() if size is not None}
    return known if len(known) == len(found) else None


@dataclass(frozen=True, slots=True)
class _Moving:
    """The dims along which an access moves at all, and along its last index."""

    dims: frozenset[str]
    last: frozenset[str]


def _moving(access: Access, dims: Sequence[str]) -> _Moving:
    every = [{d for d in dims if mentions(i, (d,))} for i in access.indices]
    return _Moving(frozenset[str]().union(*every), frozenset(every[-1] if every else ()))


@dataclass(frozen=True, slots=True)
class _Cost:
    scop: Scop
    statement: Statement
    assignment: Assignment
    machine: Machine
    sizes: Mapping[str, int]
    accesses: tuple[_Moving, ...]  # reads, then writes

    @property
    def inside(self) -> frozenset[str]:
        """The row and lane dims."""
        own = self.assignment.instruction
        names = [d for d in own.semantics.dims if d not in own.summed]
        return frozenset(d for name in names for d in self.assignment.dims[name])

    @property
    def vector(self) -> int:
        """Lanes of one issue."""
        return self.assignment.instruction.lanes

    def depth(self, dim: str) -> int:
        """How many steps of a reduction along ``dim`` one issue takes."""
        instruction, dims = self.assignment.instruction, self.assignment.dims
        inside = any(dim in dims[name] for name in instruction.summed)
        return instruction.depth if inside else 1

    def of(self, c: Choice) -> float:
        """Cycles of all of ``statement`` in tiles of this choice."""
        inside = {*self.assignment.streams, *c.rows, c.lanes[0]}
        count = prod(size for d, size in self.sizes.items() if d not in inside)
        return count * sum(n * self.tile(t) for n, t in self.tiles(c)) + sum(
            map(self.copy, self.packed())
        )

    def tiles(self, c: Choice) -> Iterator[tuple[int, Choice]]:
        """The number of tiles of each shape: of the full one and of those at the edges."""
        dim, lanes = c.lanes
        parts = [_parts(self.sizes[d], n) for d, n in (*c.rows.items(), c.lanes)]
        for kind in product(*parts):
            *rows, (_, lanes) = kind
            sizes = {d: size for d, (_, size) in zip(c.rows, rows, strict=True)}
            yield prod(n for n, _ in kind), replace(c, rows=sizes, lanes=(dim, lanes))

    def tile(self, c: Choice) -> float:
        """Cycles of one tile."""
        dim, lanes = c.lanes
        own, accesses, moved = (
            self.assignment.instruction,
            self.machine.accesses,
            self.machine.moves,
        )
        rows, vectors = prod(c.rows.values()), ceil(lanes / self.vector)
        accumulators = vectors * rows
        # A matrix unit has whole rows of an operand, and a vector for each word of the other one.
        one, words = (1.0, own.depth // own.word) if own.unit else (accesses.broadcast, 1)
        loads = 0.0
        for read in self.accesses[: len(self.statement.reads)]:
            along = [d for d in (*c.rows, dim) if d in read.dims]
            each = vectors * words if dim in along else one
            loads += each * prod(c.rows[d] for d in along if d != dim)
        arithmetic = vectors * ceil(rows / own.rows) * own.cycles
        step = max(arithmetic, loads / self.machine.loads_per_cycle, self.machine.fma_latency)
        steps = prod(ceil(self.sizes[d] / self.depth(d)) for d in self.assignment.streams)
        turned = moved.transpose * any(misfit.number is None for misfit in self.assignment.packs)
        step += self.machine.loops.step + accesses.delay * loads + self.conflicts(c)
        return step * steps + (moved.sums + turned) * accumulators + self.alone(c)

    def alone(self, c: Choice) -> float:
        """Cycles of a tile for cache lines of which it uses one element."""
        packed = {misfit.number for misfit in self.assignment.packs}
        inside = {**c.rows, c.lanes[0]: c.lanes[1]}
        inside |= {d: self.sizes[d] for d in self.assignment.streams}
        total = 0.0
        for number, access in enumerate(self.accesses):
            if number not in packed and access.last and inside.keys().isdisjoint(access.last):
                total += self.machine.accesses.lone * prod(inside.get(d, 1) for d in access.dims)
        return total

    def conflicts(self, c: Choice) -> float:
        """Extra cycles of a step for rows that are whole ways apart, whose lines map to one set of
        L1, beside those of the lanes. None on a matrix unit, which takes all that it wants of a
        line at once."""
        if self.assignment.instruction.unit:
            return 0.0
        first = self.machine.caches[0]
        packed = {misfit.number for misfit in self.assignment.packs}
        total = 0.0
        for number, read in enumerate(self.statement.reads):
            tensor = self.scop.tensor(read.tensor)
            if number in packed or tensor.role == "constant":
                continue
            for dim, rows in c.rows.items():
                if rows > first.ways - WAYS_OF_LANES and stride(tensor, read, dim) % first.way == 0:
                    total += self.machine.accesses.conflict * rows
        return total

    def mixed(self, c: Choice) -> tuple[int, ...]:
        """The reads for which interleaving in registers is cheaper than packing. No tile shape is
        chosen for that: narrow ones would read pieces of lines."""
        return tuple(n for n in self.packed() if self.mix(n, c) < self.copy(n))

    def packed(self) -> list[int]:
        """The reads that are strided along the lanes and no constants."""
        numbers = dict.fromkeys(misfit.number for misfit in self.assignment.packs)
        tensors = {n: self.statement.reads[n].tensor for n in numbers if n is not None}
        return [n for n, name in tensors.items() if self.scop.tensor(name).role != "constant"]

    def copy(self, number: int) -> float:
        """Cycles to pack a read once."""
        near = self.accesses[number].last & {*self.inside, *self.assignment.streams}
        moved = self.machine.moves
        return (moved.pack if near else moved.scatter) * self.words(number)

    def mix(self, number: int, c: Choice) -> float:
        """Cycles to interleave a read in all tiles that use it; infinite unless an instruction
        takes words of an operand that is contiguous along the lanes."""
        own = self.assignment.instruction
        if own.emission is None or own.unit or strided(self.statement.reads[number], c.lanes[0]):
            return inf
        other = self.sizes.keys() - self.accesses[number].dims
        again = prod(ceil(self.sizes[d] / c.rows.get(d, 1)) for d in other)
        return self.machine.moves.interleave * again * self.words(number) / self.vector

    def words(self, number: int) -> int:
        """How many words, of elements that are side by side in panels, a read has."""
        own, dims = self.assignment.instruction, self.accesses[number].dims
        return prod(ceil(self.sizes[d] / min(self.depth(d), own.word)) for d in dims)


def _parts(total: int, size: int) -> list[tuple[int, int]]:
    """``total`` in parts of ``size`` and what is left: how many of each."""
    parts = [(total // size, size), (1, total % size)]
    return [(n, part) for n, part in parts if n * part]


def stride(tensor: Tensor, read: Access, dim: str) -> int:
    """Bytes between what neighbours along ``dim`` read; 1 where that is not one number."""
    total = 0
    step = tensor.dtype.itemsize
    for index, size in reversed(list(zip(read.indices, tensor.shape, strict=True))):
        form = to_affine(index)
        if form is None or any(not isinstance(t, str) for t, _ in form.terms):
            return 1
        total += form.coefficient(dim) * step
        if not isinstance(size, Literal):
            return 1 if any(mentions(i, (dim,)) for i in read.indices[:-1]) else total
        step *= int(size.value)
    return total or 1


def _blocks(cost: _Cost, unit: Tiles, row: str, lane: str) -> Iterator[Choice]:
    """Tiles of a matrix unit's blocks within its registers: for the sums, one block of rows, and
    the lanes of all blocks if several rows use them."""
    rows = cost.assignment.instruction.rows
    down, across = ceil(cost.sizes[row] / rows), ceil(cost.sizes[lane] / cost.vector)
    for r, c in product(range(1, unit.registers), repeat=2):
        if r <= down and c <= across and r * c + 1 + (c if r > 1 else 1) <= unit.registers:
            yield Choice({row: min(r * rows, cost.sizes[row])}, (lane, c * cost.vector), 0.0)


def _tiles(cost: _Cost, row: str, lane: str) -> Iterator[Choice]:
    """Tiles that leave registers for operands: vectors along the lanes, one or two dims of rows."""
    unit = cost.assignment.instruction.unit
    if unit is not None:
        yield from _blocks(cost, unit, row, lane)
        return
    registers = cost.machine.vector_registers - max(1, cost.machine.vector_registers // 10)
    most = ceil(cost.sizes[lane] / cost.vector)
    for vectors in range(1, min(MAX_VECTORS, most) + 1):
        lanes = (lane, min(vectors * cost.vector, cost.sizes[lane]))
        limit = min(MAX_ROWS, (registers - vectors) // vectors)
        for size in range(1, min(limit, cost.sizes[row]) + 1):
            yield Choice({row: size}, lanes, 0.0)
        if cost.sizes[row] > limit // 2:
            continue
        for other in _more_rows(cost, lane):
            for size in range(2, min(limit // cost.sizes[row], cost.sizes[other]) + 1):
                yield Choice({other: size, row: cost.sizes[row]}, lanes, 0.0)


def _more_rows(cost: _Cost, lane: str) -> list[str]:
    """Outer dims that could be rows as well: the lane operand does not move along them. Open ones
    only where there are no others: they may be 1, and most of a tile empty."""
    across = [i for r in cost.statement.reads if moves(r, lane) for i in r.indices]
    found = [d for d in cost.assignment.outer if not any(mentions(i, (d,)) for i in across)]
    known = [d for d in found if hull_extent(cost.statement, d) is not None]
    return known or found
