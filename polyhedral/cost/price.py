"""The price of a scheduled program on a machine: an estimate in cycles, and a bound.

    price(scheduled, machine, threads, sizes)          one
    prices(candidates, machine, threads, sizes)        many: those of one shape at once

``Price.estimate`` says what is likely, and ranks candidates (``estimate.py``); ``Price.bound``
holds by construction and says how much is left at most (``bound.py``). They are never mixed, except
that no estimate is below its bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weft.ir.machine import Machine
from weft.ir.scop import Scop
from weft.ir.size_arithmetic import evaluate
from weft.polyhedral.cost.bound import bound_of
from weft.polyhedral.cost.estimate import Estimate, estimate
from weft.polyhedral.cost.forms import outline_of_scop, outline_of_tree, unpriced
from weft.polyhedral.cost.nest import Mixed
from weft.polyhedral.cost.parts import Parts
from weft.polyhedral.transform.scheduled import Scheduled

Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Price:
    """``estimate`` and ``bound`` in cycles of ``frequency`` Hz. ``parts`` of the estimate, as if
    each were alone, in cycles; ``bounds``: cycles that each resource is busy at least, of which the
    longest is the bound, 0 where nothing is known. ``operations``: arithmetic, two for a fused one;
    ``moved``: bytes into L1, L2, …, first touches included; ``runs``: of neighbouring lines, into
    L1; ``pages``: translations that are looked up."""

    frequency: float
    estimate: float
    parts: Mapping[str, float]
    bounds: Mapping[str, float]
    operations: float
    moved: Mapping[str, float]
    runs: float
    pages: float

    @property
    def bound(self) -> float:
        return max(self.bounds.values(), default=0.0)

    @property
    def limit(self) -> str:
        """The resource that the bound comes from; '' without one."""
        return max(self.bounds, key=lambda name: self.bounds[name]) if self.bound else ""

    @property
    def seconds(self) -> float:
        """The estimate in seconds."""
        return self.estimate / self.frequency


def price(
    scheduled: Scheduled, machine: Machine, threads: int = 1, sizes: Sizes | None = None
) -> Price:
    """What ``scheduled`` costs on ``threads`` of ``machine``, with values of all its parameters.

    Raises CompileError (WEFT-E0480) where a size is not known, or data alone bound a loop.
    """
    return prices([scheduled], machine, threads, sizes)[0]


def prices(
    candidates: Sequence[Scheduled],
    machine: Machine,
    threads: int = 1,
    sizes: Sizes | None = None,
) -> list[Price]:
    """``price`` of each, in their order; those of one shape together. Raises as ``price`` does."""
    trees = [outline_of_tree(c.tree) for c in candidates]
    distinct = {id(c.scop): c for c in candidates}
    scops = {key: outline_of_scop(c.scop) for key, c in distinct.items()}
    known = {key: _all_sizes(c.scop, sizes or {}) for key, c in distinct.items()}
    bounds = {key: bound_of(c, machine, threads, known[key]) for key, c in distinct.items()}
    groups: dict[object, list[int]] = {}
    for n, c in enumerate(candidates):
        shape = tuple(trees[n].shape), tuple(scops[id(c.scop)].shape)
        groups.setdefault(shape, []).append(n)

    def estimated(members: Sequence[int]) -> list[Price]:
        chosen = [candidates[n] for n in members]
        keys = [id(c.scop) for c in chosen]
        rows = [scops[key] for key in (keys if len(set(keys)) > 1 else keys[:1])]
        numbers = [trees[n].numbers for n in members], [row.numbers for row in rows]
        try:
            parts = Parts(chosen, *numbers, known[keys[0]])
        except Mixed:
            return [made for n in members for made in estimated([n])]
        own = [bounds[key] for key in keys]
        return _priced(estimate(parts, machine, threads), own, machine.frequency)

    made = {n: p for members in groups.values()
            for n, p in zip(members, estimated(members), strict=True)}  # fmt: skip
    return [made[n] for n in range(len(candidates))]


def _priced(
    found: Estimate, bounds: Sequence[Mapping[str, float]], frequency: float
) -> list[Price]:
    """A price for each candidate, of which ``bounds`` has the seconds of its resources."""
    names, levels = list(found.parts), list(found.moved)
    columns = [found.cycles, found.operations, found.runs, found.pages]
    columns += [*found.parts.values(), *found.moved.values(), np.zeros(len(bounds))]
    table = np.stack(np.broadcast_arrays(*columns)).T.tolist()
    prices_ = []
    for row, seconds in zip(table, bounds, strict=True):
        cycles, operations, runs, pages, *rest = row
        least = {name: value * frequency for name, value in seconds.items()}
        parts = dict(zip(names, rest, strict=False))
        moved = dict(zip(levels, rest[len(names) :], strict=False))
        most = max([cycles, *least.values()])
        prices_.append(Price(frequency, most, parts, least, operations, moved, runs, pages))
    return prices_


def _all_sizes(scop: Scop, sizes: Sizes) -> Sizes:
    """With derived sizes. Raises CompileError (WEFT-E0480) where one is missing."""
    found = dict(sizes)
    derived = dict(scop.derived)
    missing = [name for name in scop.parameters if name not in found and name not in derived]
    if missing:
        raise unpriced(f"no value is given for {', '.join(missing)}", "give sizes")
    for name, value in scop.derived:
        found.setdefault(name, evaluate(value, found))
    return found
