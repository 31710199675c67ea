"""Resizing with antialiasing, in PyTorch's own operators: each element of the result is a weighted
mean of a window of the input, which grows as the picture shrinks.

Heights and widths have to be numbers: how many elements a window has follows from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from weft.frontend.torch.torch_module import torch

Tensor = Any  # torch.Tensor


@dataclass(frozen=True, slots=True)
class Filter:
    """The weight of what lies ``distance`` away; 0 from ``support`` on."""

    support: int
    weight: Callable[[Tensor], Tensor]


def _linear(distance: Tensor) -> Tensor:
    return 1 - distance


def _cubic(distance: Tensor) -> Tensor:
    """Keys' with a = -0.5."""
    near = (1.5 * distance - 2.5) * distance**2 + 1
    far = ((-0.5 * distance + 2.5) * distance - 4) * distance + 2
    return torch().where(distance < 1, near, far)


def _lanczos(distance: Tensor) -> Tensor:
    return torch().sinc(distance) * torch().sinc(distance / 3)


LINEAR, CUBIC, LANCZOS = Filter(1, _linear), Filter(2, _cubic), Filter(3, _lanczos)


def resizing(kernel: Filter) -> Callable[..., Any]:
    """The definition of an operator that resizes by ``kernel``."""

    def definition(
        x: Tensor, size: Sequence[int], align_corners: bool,
        scale_h: float | None = None, scale_w: float | None = None,
    ) -> Any:  # fmt: skip
        if not _applies(x, (*size, *x.shape[2:])):
            return NotImplemented
        high = _Line(kernel, x.shape[2], size[0], align_corners, scale_h)
        wide = _Line(kernel, x.shape[3], size[1], align_corners, scale_w)
        return high.resized(wide.resized(x, 3), 2)

    return definition


def resizing_backward(kernel: Filter) -> Callable[..., Any]:
    """The definition of the gradient of an operator that resizes by ``kernel``."""

    def definition(
        gradient: Tensor, size: Sequence[int], given: Sequence[int], align_corners: bool,
        scale_h: float | None = None, scale_w: float | None = None,
    ) -> Any:  # fmt: skip
        if not _applies(gradient, (*size, *given[2:])):
            return NotImplemented
        high = _Line(kernel, given[2], size[0], align_corners, scale_h)
        wide = _Line(kernel, given[3], size[1], align_corners, scale_w)
        return high.weights(gradient).t() @ (gradient @ wide.weights(gradient))

    return definition


def _applies(x: Tensor, sizes: Sequence[Any]) -> bool:
    floats = torch().float32, torch().float64  # PyTorch's kernels have no narrower ones
    return x.dtype in floats and all(isinstance(n, int) for n in sizes)


@dataclass(frozen=True, slots=True)
class _Line:
    """One dimension of ``given`` elements resized to ``made``; ``factor``: what the caller says
    that these are apart."""

    kernel: Filter
    given: int
    made: int
    align_corners: bool
    factor: float | None

    @property
    def step(self) -> float:
        """Between the centres of neighbouring windows."""
        if self.align_corners:
            return (self.given - 1) / (self.made - 1) if self.made > 1 else 0.0
        return 1 / self.factor if self.factor else self.given / self.made

    @property
    def reach(self) -> float:
        """Half a window."""
        return self.kernel.support * max(self.step, 1.0)

    def resized(self, x: Tensor, dim: int) -> Tensor:
        """Dimension ``dim`` of ``x``, each window gathered."""
        first, _ = self._window(x)
        taps = torch().arange(2 * math.ceil(self.reach) + 1, device=x.device)
        places = first[:, None] + taps
        there = places.clamp(max=self.given - 1)
        weights = torch().where(places < self.given, self.weights(x).gather(1, there), 0.0)
        return (x.movedim(dim, -1)[..., there] * weights).sum(-1).movedim(-1, dim)

    def weights(self, x: Tensor) -> Tensor:
        """Of each element (columns) for each that is made (rows)."""
        first, end = self._window(x)
        places = torch().arange(self.given, device=x.device)
        apart = (places + 0.5 - self._centres(x)[:, None]) / max(self.step, 1.0)
        distance = apart.abs()
        inside = (places >= first[:, None]) & (places < end[:, None])
        inside = inside & (distance < self.kernel.support)
        found = torch().where(inside, self.kernel.weight(distance), 0.0)
        return (found / found.sum(1, keepdim=True)).to(x.dtype)

    def _centres(self, x: Tensor) -> Tensor:
        made = torch().arange(self.made, device=x.device, dtype=torch().float64)
        return self.step * (made + 0.5)

    def _window(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The first element of each window, and the one after its last."""
        centres, whole = self._centres(x), torch().int64
        first = (centres - self.reach + 0.5).to(whole).clamp(min=0)
        end = (centres + self.reach + 0.5).to(whole).clamp(max=self.given)
        return first, end
