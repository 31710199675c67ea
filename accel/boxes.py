"""Boxes: the elements of a tensor that a tile needs, and the transfers that load them.

    Box  ::= Side…                 of each axis of a view: count, from first on, step apart
    Move ::= local, main, rows, columns, step, padding of both

A box is dense in local memory, its axes in order. ``moves`` splits it into transfers: rows of
contiguous elements in main memory, a constant stride apart, with zero padding where the box exceeds
the tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import gcd, prod

from weft.accel.mapping import Axis, View

Ranges = Mapping[str, tuple[int, int]]  # dim → (first, count)


@dataclass(frozen=True, slots=True)
class Side:
    first: int
    count: int
    step: int
    size: int  # of the axis

    @property
    def before(self) -> int:
        """Elements before the beginning of the axis: padding."""
        return min(self.count, max(0, -(self.first // self.step)))

    @property
    def after(self) -> int:
        """Elements after its end."""
        inside = max(0, -((self.first - self.size) // self.step))
        return max(0, self.count - max(inside, self.before))

    @property
    def inside(self) -> int:
        return self.count - self.before - self.after


@dataclass(frozen=True, slots=True)
class Box:
    sides: tuple[Side, ...]

    @property
    def size(self) -> int:
        return prod(side.count for side in self.sides)

    @property
    def strides(self) -> tuple[int, ...]:
        """By axis, in local memory."""
        found, stride = [], 1
        for side in reversed(self.sides):
            found.append(stride)
            stride *= side.count
        return tuple(reversed(found))


@dataclass(frozen=True, slots=True)
class Move:
    """``local`` and ``main``: element offsets in the box and in the tensor; ``blank``: it reads
    zeros that lie in main memory for padding, not the tensor."""

    local: int
    main: int
    rows: int
    columns: int
    step: int
    rows_before: int = 0
    rows_after: int = 0
    columns_before: int = 0
    columns_after: int = 0
    blank: bool = False

    @property
    def size(self) -> int:
        """Elements in local memory."""
        width = self.columns_before + self.columns + self.columns_after
        return (self.rows_before + self.rows + self.rows_after) * width


def box(view: View, ranges: Ranges, packed: bool) -> Box:
    """The elements of ``view`` in ``ranges``. ``packed``: a strided last axis is loaded without the
    elements in between."""
    last = len(view.axes) - 1
    return Box(tuple(_side(axis, ranges, packed or n != last) for n, axis in enumerate(view.axes)))


def _side(axis: Axis, ranges: Ranges, skip: bool) -> Side:
    first, length, step = axis.constant, 0, 0
    for dim, c in axis.coefficients.items():
        begin, count = ranges[dim]
        first += c * (begin if c > 0 else begin + count - 1)
        if count > 1:
            length += abs(c) * (count - 1)
            step = gcd(step, abs(c))
    step = step if skip and step else 1
    return Side(first, length // step + 1, step, axis.size)


def steps(view: View, found: Box, dim: str) -> int:
    """How far the local address moves along ``dim``."""
    return sum(
        axis.coefficients.get(dim, 0) * stride // side.step
        for axis, side, stride in zip(view.axes, found.sides, found.strides, strict=True)
        if side.count > 1
    )


def origin(view: View, found: Box, ranges: Ranges) -> int:
    """The local address of the first point of ``ranges``."""
    place = 0
    for axis, side, stride in zip(view.axes, found.sides, found.strides, strict=True):
        index = axis.constant + sum(c * ranges[d][0] for d, c in axis.coefficients.items())
        place += (index - side.first) // side.step * stride
    return place


def moves(found: Box) -> Iterator[Move]:
    """The transfers of a box, in the order of local memory."""
    sides = found.sides
    sizes = [side.size for side in sides]
    main = [prod(sizes[n + 1 :]) for n in range(len(sides))]
    # Columns: the innermost axes that are whole, and the next one.
    column = len(sides) - 1
    while column > 0 and _whole(sides[column]):
        column -= 1
    inner = prod(sizes[column + 1 :])
    line = sides[column]
    if line.step > 1 and line.count > 1:
        column += 1  # each element is a row
        inner, line = prod(sizes[column:]), Side(0, 1, 1, 1)
    row = column - 1
    while row > 0 and sides[row].count == 1 and not sides[row].before and not sides[row].after:
        row -= 1
    outer = [n for n in range(len(sides)) if n < column and n != row]
    local = found.strides
    stack = sides[row] if row >= 0 else Side(0, 1, 1, 1)
    row_size = main[row] if row >= 0 else 0
    for index in product(*(range(sides[n].count) for n in outer)):
        at = sum(i * local[n] for i, n in zip(index, outer, strict=True))
        places = [sides[n].first + i * sides[n].step for i, n in zip(index, outer, strict=True)]
        off = any(not 0 <= p < sizes[n] for p, n in zip(places, outer, strict=True))
        width = line.count * inner
        if off or not stack.inside or not line.inside:
            yield Move(at, 0, 0, width, 0, rows_before=stack.count)
            continue
        begin = sum(p * main[n] for p, n in zip(places, outer, strict=True))
        begin += (stack.first + stack.before * stack.step) * row_size
        begin += (line.first + line.before) * inner
        yield Move(
            at,
            begin,
            stack.inside,
            line.inside * inner,
            stack.step * row_size,
            stack.before,
            stack.after,
            line.before * inner,
            line.after * inner,
        )


def _whole(side: Side) -> bool:
    return side.count == side.size and side.first == 0 and side.step == 1
