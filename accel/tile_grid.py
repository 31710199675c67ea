"""Thousands of tilings as arrays: tile sizes and loop orders.

Each column is a tiling. Rows are the loops of a mapping (``sizes``) or positions from outermost to
innermost (``orders``). Loops with a single tile have no position: orders that differ in these alone
are equal, and ``orders_of`` has one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]

SIZES = 10  # of tiles along one loop, at most
GRID = 40_000  # combinations of sizes by default
PERMUTED = 4  # innermost loops whose order is searched


def grid(extents: Mapping[str, int], most: int = GRID) -> Array:
    """About ``most`` combinations of sizes: a row for each loop."""
    sizes = {dim: _sizes(extent) for dim, extent in extents.items()}
    while np.prod([len(s) for s in sizes.values()]) > most:
        longest = max(sizes, key=lambda dim: len(sizes[dim]))
        sizes[longest] = _thinned(sizes[longest])
    mesh = np.meshgrid(*[np.array(s, float) for s in sizes.values()], indexing="ij")
    return np.stack([each.reshape(-1) for each in mesh])


def _sizes(extent: int) -> list[int]:
    """At most ``SIZES`` sizes that divide ``extent`` into about equal parts."""
    every = sorted({-(-extent // parts) for parts in range(1, extent + 1)})
    whole = [s for s in every if extent % s == 0]
    found = whole if len(whole) > 3 else every
    while len(found) > SIZES:
        found = _thinned(found)
    return found


def _thinned(sizes: list[int]) -> list[int]:
    """Every other size, the first and the last included."""
    return [*sizes[:-1:2], sizes[-1]] if len(sizes) > 2 else sizes[-1:]


def orders_of(trips: Array) -> tuple[Numbers, Numbers]:
    """Each column of ``trips`` with each order of its loops: (numbers of columns, orders)."""
    columns: list[Numbers] = []
    found: list[Numbers] = []
    many = trips > 1
    kinds, inverse = np.unique(many, axis=1, return_inverse=True)
    inverse = np.asarray(inverse).reshape(-1)
    for kind in range(kinds.shape[1]):
        (inside,) = np.nonzero(inverse == kind)
        orders = _orders(kinds[:, kind].tolist())
        columns.append(np.repeat(inside, len(orders)))
        found.append(np.tile(np.array(orders, np.int64).T, (1, len(inside))))
    if not columns:
        return np.zeros(0, np.int64), np.zeros((len(trips), 0), np.int64)
    return np.concatenate(columns), np.concatenate(found, axis=1)


def _orders(many: Sequence[bool]) -> list[tuple[int, ...]]:
    """Single-tile loops first, in their order; of the others the innermost few in any order."""
    single = [n for n, more in enumerate(many) if not more]
    cut = [n for n, more in enumerate(many) if more]
    fixed, free = cut[:-PERMUTED], cut[-PERMUTED:]
    return [(*single, *fixed, *order) for order in permutations(free)]
