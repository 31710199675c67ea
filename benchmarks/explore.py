"""``python -m benchmarks explore``: the front of ``weft explore`` beside that of brute force, and
closed forms of tilings beside their streams, for layers of ResNet-18."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from weft.accel.machines.vta import Config, vta
from weft.accel.machines.vta_space import vta_space
from weft.accel.mapping import Mapping as Mapped
from weft.accel.place import place
from weft.accel.refusal import Refusal
from weft.accel.tile_costs import CostModel
from weft.accel.tile_footprints import Tiles
from weft.accel.tiling import Tiling, slots_for
from weft.accel.timing import timing
from weft.frontend.operators.conv import convolve, kernel_window
from weft.ir import dtypes
from weft.ir.build import compute, maximum, minimum, placeholder
from weft.ir.scalar_expr import cast, literal
from weft.ir.scop import Scop
from weft.ir.tensor_expr import Program
from weft.offload.explore import Explored, Layer, explore, front, simulated
from weft.offload.offload import Target, ways
from weft.polyhedral.from_tensor_expr import lower
from weft.tuner.confirm import spearman
from weft.workers.forked import forked

# Channels, size, outputs, window, stride, padding, occurrences.
LAYERS: Mapping[str, tuple[int, int, int, int, int, int, int]] = {
    "C2": (64, 56, 64, 3, 1, 1, 4),
    "C5": (128, 28, 128, 3, 1, 1, 3),
    "C7": (128, 28, 256, 1, 2, 0, 1),
    "C9": (256, 14, 512, 3, 2, 1, 1),
}
CONFIGURATIONS = {
    "default": Config(),
    "small": Config(
        log_uop_buff_size=12, log_inp_buff_size=13, log_wgt_buff_size=15, log_acc_buff_size=15
    ),
    "block 32": Config(log_block=5),
}
SUBSPACE = {
    "block": (8, 16),
    "batch": (1,),
    "inp": (16, 32),
    "wgt": (64, 128, 256),
    "acc": (64, 128),
    "bus": (8, 16),
    "alu_cycles": (1, 2),
}
TILES = 300  # of a tiling, at most
NONE: frozenset[int] = frozenset()


def convolution(channels: int, size: int, outputs: int, window: int, stride: int, pad: int) -> Scop:
    """With bias, shift and clip."""
    x = placeholder((1, channels, size, size), dtypes.int8, name="x")
    w = placeholder((outputs, channels, window, window), dtypes.int8, name="w")
    bias = placeholder((outputs,), dtypes.int32, name="bias")
    sums = convolve(x, w, kernel_window(x, w, (stride, stride), (pad,) * 4, None), 1)

    def finished(*i: Any) -> Any:
        low, high = literal(0, dtypes.int32), literal(127, dtypes.int32)
        return cast(minimum(maximum((sums[i] + bias[i[1]]) >> 8, low), high), dtypes.int8)

    y = compute(sums.shape, finished, name="y")
    return lower(Program("convolution", (x, w, bias), (y,)), "convolution")


def run(processes: int, quick: bool) -> Iterator[dict[str, Any]]:
    """Rows: each says whether it is ``right``."""
    yield brute_force(processes, quick)
    names = ["C5"] if quick else list(LAYERS)
    for label, config in CONFIGURATIONS.items():
        for name in names:
            yield ranking(label, config, name, 30 if quick else 200)


def brute_force(processes: int, quick: bool) -> dict[str, Any]:
    """All configurations of a sub-space simulated, and those that exploration takes."""
    space = vta_space({**SUBSPACE, **({"bus": (8,), "alu_cycles": (1,)} if quick else {})})
    layers = [
        Layer(name, convolution(*shape), times)
        for name, (*shape, times) in LAYERS.items()
        if not quick or name == "C7"
    ]
    started = time.perf_counter()
    found = explore(space, layers, processes=processes)
    seconds = time.perf_counter() - started
    points = [each.point for each in found.explored]
    cycles = forked(partial(simulated, space, layers), points, processes)
    every = [
        Explored(e.point, e.area, e.estimate, c)
        for e, c in zip(found.explored, cycles, strict=True)
    ]
    return {
        "name": "front beside brute force",
        "count": len(every),
        "simulated": sum(e.cycles is not None for e in found.explored),
        "front": len(found.front),
        "seconds": round(seconds, 1),
        "right": found.front == front([e for e in every if e.cycles is not None]),
    }


def ranking(label: str, config: Config, name: str, count: int) -> dict[str, Any]:
    """Spearman's correlation of closed forms and simulated cycles, of random tilings."""
    target = Target.of(vta(config))
    best = ways(convolution(*LAYERS[name][:-1]), target)[0]
    machines = target.machine, target.plain
    made, cycles = [], []
    for tiling in _random(best, target, count):
        try:
            placed = place(*machines, target.capabilities, tiling, {}, target.arranged)
        except Refusal:
            continue
        made.append(tiling)
        cycles.append(timing(placed.artifact.stream).cycles)
    guessed = estimates(best, target, made)
    found = spearman(guessed, cycles)
    return {
        "name": f"{name}, {label}",
        "count": len(made),
        "spearman": round(found, 3),
        "median": round(float(np.median(guessed / np.array(cycles))), 3),
        "right": found >= 0.8,
    }


def _random(best: Mapped, target: Target, count: int) -> list[Tiling]:
    """Different tilings that fit, their sizes and orders at random."""
    pick = random.Random(count)
    found: dict[object, Tiling] = {}
    for _ in range(100 * count):
        sizes = {
            dim: pick.choice((n, n, -(-n // pick.randint(1, min(n, 8))), pick.randint(1, n)))
            for dim, n in best.extents.items()
        }
        order = [dim for dim, n in best.extents.items() if sizes[dim] < n]
        if np.prod([-(-n // sizes[dim]) for dim, n in best.extents.items()]) > TILES:
            continue
        pick.shuffle(order)
        slots = slots_for(best, target.plain, sizes, tuple(order), NONE, 2)
        if slots is not None:
            tiling = Tiling(best, sizes, tuple(order), slots, NONE)
            found[(*sizes.values(), *order)] = tiling
        if len(found) == count:
            break
    return list(found.values())


def estimates(best: Mapped, target: Target, made: list[Tiling]) -> np.ndarray[Any, Any]:
    """Cycles of each tiling in closed form."""
    dims = list(best.extents)
    tiles = Tiles(best, np.array([[t.sizes[d] for t in made] for d in dims], float))
    orders = [[*(d for d in dims if d not in t.order), *t.order] for t in made]
    numbers = np.array([[dims.index(d) for d in order] for order in orders]).T
    return CostModel(tiles, target.plain, NONE).costs(np.arange(len(made)), numbers).cycles
