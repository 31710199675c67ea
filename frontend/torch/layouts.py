"""Strides: how tensors of PyTorch lie in memory, and the dense order that Weft computes them in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from weft.frontend.torch.open_sizes import OpenSizes
from weft.ir.build import shape_of
from weft.ir.scalar_expr import Expr
from weft.ir.size_arithmetic import evaluate
from weft.ir.tensor_expr import Size, as_size, constant_size

_SOME = 1009  # an open size where dimensions are put in order: larger than most others, a prime


@dataclass(frozen=True, slots=True)
class Layout:
    """``shape``, ``strides`` and first ``offset`` of a tensor, in elements, and the ``order`` of
    its dimensions: those of the largest strides first."""

    shape: tuple[Size, ...]
    strides: tuple[Size, ...]
    offset: Size
    order: tuple[int, ...]

    @property
    def both(self) -> tuple[tuple[Size, ...], tuple[Size, ...]]:
        return self.shape, self.strides

    @property
    def dense(self) -> tuple[Size, ...]:
        """The strides that it has where what is repeated is stored once, without gaps between its
        elements, in the same order."""
        strides: list[Size] = [0] * len(self.shape)
        step: Size = 1
        for d in reversed(self.order):
            if self.strides[d] != 0:
                (strides[d],) = shape_of((step,))
                step = step * (self.shape[d] if constant_size(self.shape[d]) != 0 else 1)
        return tuple(strides)

    @property
    def is_open(self) -> bool:
        """Whether it depends on open sizes."""
        return any(isinstance(n, Expr) for n in (*self.shape, *self.strides, self.offset))

    def at(self, sizes: Mapping[str, int]) -> Layout:
        """The same for these values of open sizes."""
        if not self.is_open:
            return self
        shape, strides = (tuple(evaluate(as_size(n), sizes) for n in side) for side in self.both)
        return replace(
            self, shape=shape, strides=strides, offset=evaluate(as_size(self.offset), sizes)
        )


def layout_of(tensor: Any, sizes: OpenSizes | None = None) -> Layout:
    """That of ``tensor``, over the size symbols of ``sizes``."""
    known = sizes or OpenSizes()
    shape = tuple(map(known.size, tensor.shape))
    strides = tuple(map(known.stride, tensor.stride()))
    some = dict.fromkeys(known.ranges, _SOME)
    steps = [evaluate(as_size(stride), some) for stride in strides]
    order = tuple(sorted(range(len(shape)), key=lambda d: (-steps[d], d)))
    return Layout(shape, strides, known.size(tensor.storage_offset()), order)


def stored_order(layout: Layout) -> tuple[int, ...] | None:
    """The order of dimensions in which the tensor is contiguous, None where there is none."""
    matters = [d for d, size in enumerate(layout.shape) if size != 1]
    if 0 in layout.shape or any(layout.strides[d] != layout.dense[d] for d in matters):
        return None
    return layout.order
