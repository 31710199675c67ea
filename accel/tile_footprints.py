"""Footprints of tiles in each tensor, in closed form: elements, transfers, rows. Columns are
tilings (``tile_grid``). They depend on the mapping alone: machines with equal mappings share them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.accel.mapping import Axis, View
from weft.accel.mapping import Mapping as Mapped
from weft.accel.tile_grid import Array, Flags
from weft.accel.tiling import views


@dataclass(frozen=True, slots=True)
class Footprint:
    """Of one view. ``whole``: elements of a full tile's part. The others are means over tiles:
    ``elements`` in the tensor, ``zeros`` of padding, ``moves`` (instructions without a limit on
    rows), ``rows``."""

    whole: Array
    elements: Array
    zeros: Array
    moves: Array
    rows: Array


@dataclass(frozen=True, slots=True)
class _Side:
    """Of an axis: elements of a full tile, of the mean one, padding, stride."""

    full: Array
    mean: Array
    outside: Array
    step: Array


class Tiles:
    """``sizes``: a row for each loop of ``mapped``."""

    def __init__(self, mapped: Mapped, sizes: Array) -> None:
        self.mapped, self.sizes = mapped, sizes
        self.dims = {dim: n for n, dim in enumerate(mapped.extents)}
        self.extents = np.array(list(mapped.extents.values()), float)[:, None]
        self.trips = np.ceil(self.extents / sizes)
        self.mean = self.extents / self.trips
        self._found: dict[tuple[int, bool], Footprint] = {}

    def footprint(self, number: int, packed: bool) -> Footprint:
        """Of view ``number`` of ``tiling.views``."""
        return self._footprint(number, views(self.mapped)[number], packed)

    @property
    def written(self) -> Footprint:
        """Of the stored view."""
        return self._footprint(-1, self.mapped.write, False)

    @property
    def solid(self) -> Flags:
        """Whether parts consist of results only: nothing else would be stored with them."""
        view = self.mapped.write
        moving = {d for axis in view.axes for d in axis.coefficients}
        own = [self.sizes[n] for dim, n in self.dims.items() if dim in moving]
        found: Flags = self.written.whole == view.group * np.prod(np.array(own), axis=0)
        return found

    def _footprint(self, number: int, view: View, packed: bool) -> Footprint:
        key = number, packed
        if key not in self._found:
            self._found[key] = self._made(view, packed)
        return self._found[key]

    def _made(self, view: View, packed: bool) -> Footprint:
        last = len(view.axes) - 1
        sides = [self._side(axis, packed or n != last) for n, axis in enumerate(view.axes)]
        one: Array = np.ones(self.sizes.shape[1])
        whole, every, inside = one, one, one
        for side in sides:
            whole = whole * side.full
            every = every * side.mean
            inside = inside * (side.mean - side.outside)
        moves, rows = _moves(view, sides)
        group = view.group
        return Footprint(whole * group, inside * group, (every - inside) * group, moves, rows)

    def _side(self, axis: Axis, skip: bool) -> _Side:
        full: Array = np.zeros(self.sizes.shape[1])
        mean, tiles = full, full + 1
        low = high = axis.constant
        step = np.zeros(self.sizes.shape[1], np.int64)
        for dim, c in axis.coefficients.items():
            n, extent = self.dims[dim], self.mapped.extents[dim]
            full = full + abs(c) * (self.sizes[n] - 1)
            mean = mean + abs(c) * (self.mean[n] - 1)
            tiles = tiles * self.trips[n]
            step = np.where(self.sizes[n] > 1, np.gcd(step, abs(c)), step)
            low, high = low + min(0, c * (extent - 1)), high + max(0, c * (extent - 1))
        step = np.where(skip, np.maximum(step, 1), 1)
        outside = max(0, -low) + max(0, high - axis.size + 1)
        mean = mean / step + 1
        return _Side(full // step + 1, mean, np.minimum(outside / step / tiles, mean), step)


def _moves(view: View, sides: list[_Side]) -> tuple[Array, Array]:
    """(transfers, rows) of a part, as in ``boxes.moves``: the innermost whole axes and one more are
    a row, the next axis its rows; the others are separate transfers."""
    moves: Array = np.ones_like(sides[0].mean) if sides else np.ones(1)
    rows = moves
    in_row = moves > 0
    in_rows = moves > 0
    for axis, side in zip(reversed(view.axes), reversed(sides), strict=True):
        many = side.full > 1
        # With a stride, each element is a row.
        starts = in_row & (side.step > 1) & many
        in_row = in_row & ~starts
        ends = in_row & ((side.full != axis.size) | (side.outside > 0))
        outer = ~in_row & many
        rows = rows * np.where(outer, side.mean, 1.0)
        moves = moves * np.where(outer & ~in_rows, side.mean, 1.0)
        in_rows = in_rows & ~outer
        in_row = in_row & ~ends
    return moves, rows
