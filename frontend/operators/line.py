"""Folding some dimensions of a tensor away and coming back: softmax, norms, losses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from weft.frontend.operators.sizes import axes_over, normal_axes, total_size
from weft.ir.build import compute
from weft.ir.scalar_expr import Expr, literal
from weft.ir.tensor_expr import Axis, Size, Tensor, as_size

T = TypeVar("T")


class Line:
    """The split of x's dimensions into ``axes``, folded together, and the outer rest."""

    __slots__ = ("axes", "outer_shape", "taps", "x")

    def __init__(self, x: Tensor, axes: Sequence[int]) -> None:
        self.x = x
        self.axes = normal_axes(axes, x.rank)
        self.taps: tuple[Axis, ...] = axes_over(
            [x.shape[a] for a in self.axes], [f"k{a}" for a in self.axes]
        )
        self.outer_shape: tuple[Size, ...] = self.outer(x.shape)

    def outer(self, per_dimension: Sequence[T]) -> tuple[T, ...]:
        """What ``per_dimension`` has for the outer dimensions."""
        return tuple(v for d, v in enumerate(per_dimension) if d not in self.axes)

    def index(self, outer: Sequence[Expr]) -> tuple[Expr, ...]:
        """The index of the folded element: ``outer``, with the taps at their dimensions."""
        rest, taps = iter(outer), iter(self.taps)
        return tuple(next(taps) if d in self.axes else next(rest) for d in range(self.x.rank))

    def position(self, along: Sequence[Expr]) -> Expr:
        """Indices along ``axes`` as one row-major number."""
        flat: Expr = literal(0)
        for axis, index in zip(self.axes, along, strict=True):
            flat = flat * as_size(self.x.shape[axis]) + index
        return flat

    @property
    def count(self) -> Expr:
        """How many elements are folded into one."""
        return total_size([self.x.shape[a] for a in self.axes])

    def fold(
        self,
        name: str,
        element: Callable[[tuple[Expr, ...]], Expr],
        how: Callable[[Expr, Sequence[Axis]], Expr],
        finish: Callable[[Expr], Expr] = lambda value: value,
    ) -> Tensor:
        """The tensor over the outer dimensions of ``finish(how(element(index)))``."""
        return compute(
            self.outer_shape, lambda *o: finish(how(element(self.index(o)), self.taps)), name=name
        )
