"""Closed-form choice of the vector loop and register tile of a group. No isl, no measuring.

The cost of a candidate is an estimate in cycles from three throughputs of the machine record:
vector operations, vector loads (a strided one is as many as it has lanes), and the latency of a
chain of dependent multiply-adds. In the spirit of the analytical BLIS model (Low et al., 2016).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import ceil, prod

from weft.polyhedral.analysis.linear import box, extent, mentions, stride
from weft.polyhedral.analysis.work import operations
from weft.polyhedral.grouping import ENOUGH_PARALLELISM, Group, recurrent_dims
from weft.polyhedral.machine import Machine
from weft.polyhedral.scop import Access, Scop, Statement
from weft.polyhedral.transform.edit import outer_dims
from weft.polyhedral.transform.pack_operand import why_not_pack

MAX_UNROLL = 16
MIN_REUSE_TO_PACK = 8  # times each packed element is read
GATHER_LANE = 0.75  # cost of one lane of a strided access, in vector loads
STEP_OVERHEAD = 0.5  # cycles of loop control in each step of a reduction
LOAD_OVERHEAD = 0.125  # cycles by which each vector load delays a busy pipeline
CHUNK_VECTORS = 64  # of a long elementwise loop, so that threads share it
BROADCAST = 0.5  # cost of a uniform operand: it folds into the arithmetic instruction


@dataclass(frozen=True, slots=True)
class Pack:
    statement: str
    operand: int
    dim: str


@dataclass(frozen=True, slots=True)
class TileChoice:
    """How the loops of a group run.

    ``vector`` indexes ``group.shared`` (None: every statement vectorises a loop of its own, see
    ``inner``); ``tiles`` gives tile sizes by shared index, the vector's in elements; ``inner``
    names the vector dim of each statement that has one. ``cycles`` is the estimate.
    """

    vector: int | None
    tiles: Mapping[int, int]
    inner: Mapping[str, str]
    packs: tuple[Pack, ...]
    cycles: float


def choose_tiles(scop: Scop, group: Group, machine: Machine) -> TileChoice:
    """The cheapest of: vectorise along a shared loop, or along each statement's own loops."""
    candidates = [_inner(scop, group, machine)]
    for v in range(len(group.shared)):
        if group.shared[v].extent > 1:
            candidates.append(_along(scop, group, v, machine))
    return min(candidates, key=lambda c: c.cycles)


def group_lanes(scop: Scop, group: Group, machine: Machine) -> int:
    """Vector length of the group: set by the widest element that its statements touch."""
    used = {a.tensor for s in group.statements for a in (*s.writes, *s.reads)}
    widest = max((t.dtype.itemsize for t in scop.tensors if t.name in used), default=4)
    return max(1, machine.vector_bytes // widest)


# ---- each statement along a loop of its own -----------------------------------------------------


def _inner(scop: Scop, group: Group, machine: Machine) -> TileChoice:
    lanes = group_lanes(scop, group, machine)
    inner: dict[str, str] = {}
    total = 0.0
    for s in group.statements:
        taken = {d.dims[s.name] for d in group.shared} | recurrent_dims(s)
        taken |= set(outer_dims(s, group.level))
        options = [(_statement_cycles(scop, s, d, lanes), d) for d in s.dims if d not in taken]
        best = min(options, default=None)
        scalar = _statement_cycles(scop, s, None, lanes)
        if best is not None and best[0] < scalar:
            inner[s.name] = best[1]
        total += min(scalar, best[0] if best else scalar)
    return TileChoice(None, {}, inner, (), total)


def _statement_cycles(scop: Scop, s: Statement, dim: str | None, lanes: int) -> float:
    """One statement, no register reuse, vectorised along ``dim`` (None: scalar)."""
    extents = _extents(s)
    instances = prod(extents.values())
    work = max(1.0, operations(s))
    if dim is None:
        return instances * (work + len(s.reads) + len(s.writes))
    vectors = instances / max(1, extents[dim]) * ceil(extents[dim] / lanes)
    memory = sum(_access_cost(scop, a, dim, lanes) for a in (*s.reads, *s.writes))
    return vectors * (work / 2 + memory)


# ---- all statements along one shared loop -------------------------------------------------------


def _along(scop: Scop, group: Group, v: int, machine: Machine) -> TileChoice:
    lanes = group_lanes(scop, group, machine)
    reductions = [s for s in group.statements if s.update is not None]
    packs = tuple(p for s in reductions for p in _packs(scop, group, s, v))
    best: dict[int, int] = {}
    cycles = 0.0
    if reductions:
        folds = [_fold(scop, group, s, v, packs, lanes) for s in reductions]
        best, cycles = _register_tile(group, v, folds, lanes, machine)
    elif len(group.statements) > 1:
        best = {v: lanes * min(4, ceil(group.shared[v].extent / lanes))}
    elif (
        group.parallelism < ENOUGH_PARALLELISM * group.shared[v].extent
        and group.shared[v].extent >= 4 * CHUNK_VECTORS * lanes
    ):
        best = {v: CHUNK_VECTORS * lanes}
    for s in group.statements:
        if s.update is None:
            cycles += _statement_cycles(scop, s, group.shared[v].dims[s.name], lanes)
    return TileChoice(v, best, {}, packs, cycles)


def _packs(scop: Scop, group: Group, s: Statement, v: int) -> tuple[Pack, ...]:
    """Operands that the vector loop would gather and that are read often enough to copy first."""
    dim = group.shared[v].dims[s.name]
    extents = _extents(s)
    within = {w.tensor for t in group.statements for w in t.writes}
    found = []
    for k, access in enumerate(s.reads):
        tensor = scop.tensor(access.tensor)
        if access.tensor in within:  # a copy would have to run in the middle of the group
            continue
        if stride(access.indices, tensor.shape, dim) in (0, 1):
            continue
        reuse = prod(
            e for d, e in extents.items() if not any(mentions(i, (d,)) for i in access.indices)
        )
        if tensor.role != "constant" and reuse < MIN_REUSE_TO_PACK:
            continue
        if not why_not_pack(scop, s.name, k, dim):
            found.append(Pack(s.name, k, dim))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Operand:
    """One read of the reduction: which tile dims it varies along, and the cost of one vector."""

    along: frozenset[int]
    cost: float


@dataclass(frozen=True, slots=True)
class _Fold:
    """A reduction as a register tile sees it: operands, arithmetic of a step, number of steps."""

    operands: tuple[_Operand, ...]
    work: float
    steps: int


def _fold(
    scop: Scop, group: Group, s: Statement, v: int, packs: tuple[Pack, ...], lanes: int
) -> _Fold:
    packed = {p.operand for p in packs if p.statement == s.name}
    operands = tuple(
        _operand(scop, group, s, v, access, lanes, k in packed) for k, access in enumerate(s.reads)
    )
    shared = {d.dims[s.name] for d in group.shared}
    steps = prod(e for d, e in _extents(s).items() if d not in shared)
    return _Fold(operands, max(1.0, operations(s) - 1), steps)


def _register_tile(
    group: Group, v: int, folds: list[_Fold], lanes: int, machine: Machine
) -> tuple[dict[int, int], float]:
    """The tile sizes by shared index that are best for all ``folds``, and their cycles."""
    best: tuple[float, dict[int, int]] | None = None
    outside = prod(d.extent for d in group.shared)
    for tile in _candidates(group, v, lanes, machine):
        cycles = 0.0
        covered = prod(group.shared[d].extent for d in tile)
        for parts in product(*(_parts(group.shared[d].extent, size) for d, size in tile.items())):
            count = prod(c for c, _ in parts)
            sizes = {d: n for d, (_, n) in zip(tile, parts, strict=True)}
            if count:
                cycles += count * sum(_tile_cycles(sizes, v, f, lanes, machine) for f in folds)
        cycles *= outside / max(1, covered)
        if best is None or cycles < best[0] * 0.999:
            best = (cycles, tile)
    assert best is not None
    return best[1], best[0]


def _candidates(group: Group, v: int, lanes: int, machine: Machine) -> Iterator[dict[int, int]]:
    """Register tiles that fit the register file: vectors along ``v``, up to two unrolled dims."""
    room = machine.vector_registers - 3
    # Innermost first, so that of equal tiles the one with contiguous rows wins.
    others = [
        d for d in reversed(range(len(group.shared))) if d != v and group.shared[d].extent > 1
    ]
    most = ceil(group.shared[v].extent / lanes)
    for vectors in range(1, min(8, most) + 1):
        yield {v: vectors * lanes}
        for d in others:
            limit = min(MAX_UNROLL, group.shared[d].extent, (room - vectors) // vectors)
            for size in range(2, limit + 1):
                yield {d: size, v: vectors * lanes}
                if size == group.shared[d].extent:
                    for e in others:
                        for second in range(2, min(group.shared[e].extent, limit // size) + 1):
                            if e != d:
                                yield {e: second, d: size, v: vectors * lanes}


def _parts(size: int, tile: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """(how many tiles, of what size): the full ones and the remainder."""
    return (size // tile, tile), (1 if size % tile else 0, size % tile)


def _tile_cycles(
    sizes: Mapping[int, int], v: int, fold: _Fold, lanes: int, machine: Machine
) -> float:
    """Cycles of one register tile over all steps of its reduction."""
    count = {d: ceil(n / lanes) if d == v else n for d, n in sizes.items()}
    accumulators = prod(count.values())
    loads = sum(o.cost * prod(n for d, n in count.items() if d in o.along) for o in fold.operands)
    arithmetic = accumulators * fold.work / machine.fma_per_cycle
    step = max(arithmetic, loads / machine.loads_per_cycle, machine.fma_latency)
    return (step + STEP_OVERHEAD + LOAD_OVERHEAD * loads) * fold.steps + 2 * accumulators


def _operand(
    scop: Scop, group: Group, s: Statement, v: int, access: Access, lanes: int, packed: bool
) -> _Operand:
    along = frozenset(
        d
        for d, shared in enumerate(group.shared)
        if access.may or any(mentions(i, (shared.dims[s.name],)) for i in access.indices)
    )
    cost = 1.0 if packed else _access_cost(scop, access, group.shared[v].dims[s.name], lanes)
    return _Operand(along, cost)


# ---- the pieces ---------------------------------------------------------------------------------


def _access_cost(scop: Scop, access: Access, dim: str, lanes: int) -> float:
    """One vector of an access along ``dim``, in vector loads."""
    if access.may:
        return GATHER_LANE * lanes
    step = stride(access.indices, scop.tensor(access.tensor).shape, dim)
    if step == 0:
        return BROADCAST
    return 1.0 if step == 1 else GATHER_LANE * lanes


def _extents(s: Statement) -> dict[str, int]:
    bounds = box(s)
    return {d: extent(bounds[d]) if d in bounds else 16 for d in s.dims}
