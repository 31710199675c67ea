"""How long the steps from tile to tile take, where the next tile is loaded while one is computed.

Columns are tilings. Rows are kinds of steps: by the loop that advances, the outermost first; the
innermost one's steps are two rows, as what is loaded then is a full tile or, once, the last one.
Every row has one pattern of what is computed and loaded, but for what happens in a fraction of its
steps: parts that are in memory from an earlier pass, results that are finished.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.accel.tile_grid import Array, Flags


@dataclass(frozen=True, slots=True)
class Steps:
    """``count`` of each row. ``computed`` and ``full``, ``last``: how much of a mean tile is
    computed; what of a part that moves along the innermost loop is loaded."""

    count: Array
    computed: Array
    loaded: Array


@dataclass(frozen=True, slots=True)
class Loading:
    """One part: ``queue``; cycles, and the fraction of steps in which it is loaded, by row;
    whether it has one slot only, and how many steps ahead others come."""

    queue: str
    cycles: Array
    fraction: Array
    single: Flags
    ahead: Array


def steps(trips: Array, full: Array, last: Array) -> Steps:
    """Of the loops ``trips``, where tiles along the innermost are ``full`` of a mean one, and the
    last is ``last`` of it."""
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
    """Cycles of all steps. ``summing``, ``finishing``: cycles in a step, by row, the latter in a
    fraction ``finished`` of them."""
    if not loads:
        return np.asarray(np.sum(found.count * (summing + finishing * finished), axis=0))
    fractions = np.stack([each.fraction for each in loads])
    rank = np.argsort(np.argsort(-fractions, axis=0, kind="stable"), axis=0)
    ranked = -np.sort(-fractions, axis=0)
    # What happens in fewer steps is taken to happen in steps of what happens in more.
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
            # What becomes of results needs no operands: the next ones come meanwhile.
            total = total + weight * share * np.maximum(step - hidden, summing + alone)
    return np.asarray(np.sum(total * found.count, axis=0))


def _queued(loads: list[Loading], inside: list[Flags]) -> tuple[Array, Array]:
    """Cycles of the busiest queue, and those that have to wait for the tile before: what has one
    slot only, and what is behind it in the queue."""
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
    """Steps before the last one in which what a step needs is loaded already, by row: none for
    those of the innermost loop, which set the pace."""
    found: Array = np.full_like(loads[0].cycles, np.inf)
    for each, here in zip(loads, inside, strict=True):
        limits = here | (each.fraction[-2] > 0)
        found = np.where(limits, np.minimum(found, each.ahead), found)
    found = np.where(np.isfinite(found), found, 0.0)
    found[-2:] = 0.0
    return found
