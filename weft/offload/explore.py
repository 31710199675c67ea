"""Hardware exploration: which machines of a space are worth their silicon for a model.

All points of the space are ranked by closed forms (``accel/tile_costs.py``). Then points are
compiled and simulated: those that the closed forms have on the Pareto front of cycles and area, and
after them any that may still be on it, as far off as closed forms have been seen to be. So the
front is that of simulating every point, unless closed forms are further off elsewhere, or the
budget ends before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from weft.accel.banks import flatten_banks
from weft.accel.normalise_scop import inline_scalars
from weft.accel.place import place
from weft.accel.rank_tilings import ranked, with_slots
from weft.accel.refusal import Refusal
from weft.accel.space import Point, Space
from weft.accel.tile_footprints import Tiles
from weft.accel.tile_grid import grid
from weft.accel.timing import timing
from weft.ir.accelerator import Accelerator
from weft.ir.errors import CompileError
from weft.ir.scop import Scop
from weft.offload.offload import Target, cheapest, prepared, ways
from weft.workers.forked import forked

MARGIN = 0.02  # by which closed forms are too high at least, for all that we know
GRID = 1000  # combinations of sizes that a point's closed forms choose from
BATCH = 8  # points that are simulated before it is asked again which may be on the front


@dataclass(frozen=True, slots=True)
class Layer:
    """What the accelerator computes, so many times."""

    name: str
    scop: Scop
    occurrences: int


@dataclass(frozen=True, slots=True)
class Budget:
    """Points that are simulated, seconds after which no more are; None: any."""

    points: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Explored:
    """A point: ``estimate`` by closed forms, ``cycles`` simulated or None; both of the model."""

    point: Point
    area: float
    estimate: float
    cycles: int | None = None


@dataclass(frozen=True, slots=True)
class Exploration:
    """``explored``: the points that can compute the model, by area. ``refused``: why others
    cannot. ``complete``: whether all were simulated that may be on the front."""

    space: Space
    explored: tuple[Explored, ...]
    refused: Mapping[str, int]
    complete: bool
    seconds: float = field(compare=False)

    @property
    def front(self) -> tuple[Explored, ...]:
        """Of what was simulated: those that no other one beats in both cycles and area."""
        return front([each for each in self.explored if each.cycles is not None])


def front(found: Sequence[Explored]) -> tuple[Explored, ...]:
    """Of simulated points, by area; equal ones all belong to it."""
    best: list[Explored] = []
    for each in sorted(found, key=lambda e: (e.area, cycles_of(e))):
        if not best or cycles_of(each) < cycles_of(best[-1]) or _same(each, best[-1]):
            best.append(each)
    return tuple(best)


def cycles_of(explored: Explored) -> float:
    """As simulated, or else as estimated."""
    return explored.estimate if explored.cycles is None else explored.cycles


def _same(one: Explored, other: Explored) -> bool:
    return (one.area, cycles_of(one)) == (other.area, cycles_of(other))


def explore(
    space: Space,
    layers: Sequence[Layer],
    budget: Budget = Budget(),
    *,
    processes: int = 1,
    advance: Callable[[str], None] = lambda _: None,
) -> Exploration:
    """The front of ``space`` for a model of ``layers``. The result is the same for any number of
    ``processes``, and for any machine if the budget is no time.

    Raises ``CompileError`` (WEFT-E1047) where no point of the space can compute the model.
    """
    began = time.monotonic()
    deadline = None if budget.seconds is None else began + budget.seconds
    points = space.machines()
    kinds = _by_kind(space, points)
    told = forked(
        partial(_ranked_kind, space, layers), kinds, processes, lambda: advance("closed forms")
    )
    explored: list[Explored] = []
    refused: dict[str, int] = {}
    for kind, answers in zip(kinds, told, strict=True):
        for point, answer in zip(kind, answers, strict=True):
            if isinstance(answer, str):
                refused[answer] = refused.get(answer, 0) + 1
            else:
                explored.append(Explored(point, space.area(point), answer))
    if not explored:
        raise CompileError(
            "WEFT-E1047",
            f"no machine of the space {space.name} computes the model",
            why="; ".join(list(refused)[:3]) or "none of its points is a machine",
        )
    explored.sort(key=lambda e: (e.area, e.estimate, sorted(e.point.items())))
    simulate = partial(simulated, space, layers)
    left = budget.points
    while True:
        wanted = _wanted(explored)
        if not wanted or left == 0 or (deadline is not None and time.monotonic() >= deadline):
            break
        wanted = wanted[: BATCH if left is None else min(BATCH, left)]
        found = forked(
            simulate, [explored[n].point for n in wanted], processes, lambda: advance("simulated")
        )
        for n, cycles in zip(wanted, found, strict=True):
            explored[n] = replace(explored[n], cycles=cycles)
        left = None if left is None else left - len(wanted)
    return Exploration(
        space, tuple(explored), refused, not _wanted(explored), time.monotonic() - began
    )


def _by_kind(space: Space, points: Sequence[Point]) -> list[list[Point]]:
    """Points whose machines compute the same, in parts that several processes can share."""
    kinds: dict[tuple[int, ...], list[Point]] = {}
    for point in points:
        kinds.setdefault(space.kind(point), []).append(point)
    part = max(1, min(64, -(-len(points) // 16)))
    return [
        kind[first : first + part] for kind in kinds.values() for first in range(0, len(kind), part)
    ]


# ---- closed forms --------------------------------------------------------------------------------


def _ranked_kind(
    space: Space, layers: Sequence[Layer], points: Sequence[Point]
) -> list[float | str]:
    """Cycles of the model on the machines of ``points``, which compute the same; or why not."""
    target = Target.of(space.machine(points[0]))
    tiles: list[list[Tiles]] = []
    for layer in layers:
        try:
            every = ways(layer.scop, target)
        except Refusal as refusal:
            return [f"{layer.name}: {refusal}"] * len(points)
        tiles.append([Tiles(way, grid(way.extents, GRID)) for way in every])
    return [_estimate(_plain(space.machine(point), target), layers, tiles) for point in points]


def _plain(machine: Accelerator, target: Target) -> Accelerator:
    """``machine``, which computes as ``target`` does, with one address for each element."""
    if target.plain is target.machine:
        return machine
    kernels = target.semantics.kernels
    return flatten_banks(
        machine, {n: prepared(inline_scalars(k.scop)) for n, k in kernels.items()}
    )[0]


def _estimate(
    machine: Accelerator, layers: Sequence[Layer], tiles: Sequence[Sequence[Tiles]]
) -> float | str:
    total = 0.0
    for layer, every in zip(layers, tiles, strict=True):
        best = [each.cycles for way in every for each in ranked(way, machine, 1)]
        if not best:
            return f"{layer.name}: not even its smallest tile fits"
        total += layer.occurrences * min(best)
    return total


# ---- simulation ----------------------------------------------------------------------------------


def simulated(space: Space, layers: Sequence[Layer], point: Point) -> int | None:
    """Cycles of the model by the streams of its layers, the best by closed forms each; None where
    one cannot be emitted."""
    target = Target.of(space.machine(point))
    total = 0
    for layer in layers:
        try:
            every = ways(layer.scop, target)
            tiling = next(with_slots(cheapest(every, target, 1)[:1], target.plain))
            made = place(
                target.machine, target.plain, target.capabilities, tiling, {}, target.arranged
            )
        except (Refusal, StopIteration):
            return None
        total += layer.occurrences * timing(made.artifact.stream).cycles
    return total


def _wanted(explored: Sequence[Explored]) -> list[int]:
    """Points that may be on the front and were not simulated, the most likely first: ``explored``
    is sorted by area. Equal estimates mean equal tilings: of two such points the smaller one
    stands for both."""
    off = max([1.0, *(e.estimate / e.cycles for e in explored if e.cycles)]) + MARGIN
    found: list[tuple[float, int]] = []
    best, known = float("inf"), float("inf")
    smaller: dict[float, float] = {}  # estimate -> the least area
    for n, each in enumerate(explored):
        stands = smaller.setdefault(each.estimate, each.area) < each.area
        if each.cycles is not None:
            known = min(known, each.cycles)
        elif each.estimate / off < known and not stands:
            found.append((max(1.0, each.estimate / best), n))
        best = min(best, each.estimate)
    return [n for _, n in sorted(found)]
