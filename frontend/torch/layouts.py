"""Strides: how tensors of PyTorch lie in memory, and the dense order that Weft computes them in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from weft.frontend.torch.node_context import known_size


@dataclass(frozen=True, slots=True)
class Layout:
    """``shape``, ``strides`` and first ``offset`` of a tensor, in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def both(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return self.shape, self.strides

    @property
    def order(self) -> tuple[int, ...]:
        """Its dimensions, those of the largest strides first."""
        rank = range(len(self.shape))
        return tuple(sorted(rank, key=lambda d: (-self.strides[d], d)))

    @property
    def dense(self) -> tuple[int, ...]:
        """The strides that it has where what is repeated is stored once, without gaps between its
        elements, in the same order."""
        strides, step = [0] * len(self.shape), 1
        for d in reversed(self.order):
            if self.strides[d] != 0:
                strides[d] = step
                step *= max(self.shape[d], 1)
        return tuple(strides)


def layout_of(tensor: Any) -> Layout:
    """That of ``tensor``, whose sizes must be known (WEFT-E0273)."""
    shape, strides = (tuple(map(known_size, side)) for side in (tensor.shape, tensor.stride()))
    return Layout(shape, strides, known_size(tensor.storage_offset()))


def stored_order(layout: Layout) -> tuple[int, ...] | None:
    """The order of dimensions in which the tensor is contiguous, None where there is none."""
    matters = [d for d, size in enumerate(layout.shape) if size != 1]
    if 0 in layout.shape or any(layout.strides[d] != layout.dense[d] for d in matters):
        return None
    return layout.order
