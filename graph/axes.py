"""Axes of rewritten operations: fresh ones, and those of a correlation with each slide, i + k, as
one index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.graph.correlation import Correlation, Slide, positioned, variables
from weft.ir import dtypes
from weft.ir.build import shape_of
from weft.ir.scalar_expr import Expr, literal
from weft.ir.scalar_simplify import simplify
from weft.ir.tensor_expr import Axis, Compute, Size, Tensor, as_size


class FreshAxes:
    """Axes from 0, with names that ``c`` does not use."""

    def __init__(self, c: Correlation) -> None:
        self.taken = {v for value in c.operation.values for v in variables(value)}
        self.taken |= {a.name for a in (*c.operation.axes, *c.fold.axes)}

    def axis(self, name: str, extent: Size) -> Axis:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return Axis(name, dtypes.int64, literal(0), as_size(extent))


@dataclass(frozen=True, slots=True)
class WindowIndices:
    """The indices of x by name, in the order of its dimensions.

    ``places``: the axis of each slide; ``axes``: those of a tensor with all of them; ``read``:
    their values in the sum; ``shifted``: the other loops in terms of these axes.
    """

    places: Mapping[Slide, Axis]
    axes: Mapping[str, Axis]
    read: Mapping[str, Expr]
    shifted: dict[str, Expr]


def window_indices(c: Correlation, names: FreshAxes) -> WindowIndices:
    places = {s: names.axis(f"{s.axis.name}_at", s.outputs + s.taps - 1) for s in c.windows}
    loops = {axis.name: axis for axis in (*c.operation.axes, *c.fold.axes)}
    read = {name: from_0(axis) for name, axis in loops.items()}
    read |= {place.name: within(s) for s, place in places.items()}
    order = [n for n in variables(positioned(c.x, places)) if n in read]
    own = {place.name: place for place in places.values()}
    axes = {n: own[n] if n in own else names.axis(n, loops[n].extent) for n in order}
    shifted = {n: axes[n] + loops[n].lower for n in order if n in loops}
    return WindowIndices(places, axes, read, shifted)


def within(s: Slide) -> Expr:
    """The position of x in the window of ``s``, counted from 0."""
    return simplify((s.axis + s.tap if s.sign > 0 else s.axis - s.tap) - s.base)


def from_0(axis: Axis) -> Expr:
    """``axis`` counted from 0."""
    return simplify(axis - axis.lower)


def tensor_of(name: str, axes: Sequence[Axis], value: Expr) -> Tensor:
    """The tensor computed by ``value`` over ``axes``."""
    operation = Compute(name, tuple(axes), (value,))
    return Tensor(name, shape_of([a.extent for a in axes]), value.dtype, operation)
