"""Operators that PyTorch computes by kernels alone, by other operators of PyTorch's: what PyTorch's
own definitions leave out, written as these are. They are traced for AOTAutograd and exports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.frontend.torch.antialiasing import CUBIC, LANCZOS, LINEAR, resizing, resizing_backward
from weft.frontend.torch.torch_module import torch

Tensor = Any  # torch.Tensor


def definitions() -> dict[Any, Callable[..., Any]]:
    """torch._ops.OpOverload -> its definition."""
    aten = torch().ops.aten
    return {
        aten._trilinear.default: _trilinear,
        aten._pdist_forward.default: _pairwise_distances,
        aten.embedding_renorm.default: _renormalised,
        aten._embedding_bag_forward_only.default: _bags,
        aten._upsample_bilinear2d_aa.default: resizing(LINEAR),
        aten._upsample_bilinear2d_aa_backward.default: resizing_backward(LINEAR),
        aten._upsample_bicubic2d_aa.default: resizing(CUBIC),
        aten._upsample_bicubic2d_aa_backward.default: resizing_backward(CUBIC),
        aten._upsample_lanczos2d_aa.default: resizing(LANCZOS),
    }


def _trilinear(
    a: Tensor, b: Tensor, c: Tensor,
    expand_a: Sequence[int], expand_b: Sequence[int], expand_c: Sequence[int],
    over: Sequence[int], unroll: int = 1,
) -> Tensor:  # fmt: skip
    """The product of three tensors with new dimensions, summed ``over`` some."""
    for dim in sorted(expand_a):
        a = a.unsqueeze(dim)
    for dim in sorted(expand_b):
        b = b.unsqueeze(dim)
    for dim in sorted(expand_c):
        c = c.unsqueeze(dim)
    product = a * b * c
    return product.sum(over) if over else product


def _pairwise_distances(x: Tensor, p: float = 2.0) -> Tensor:
    """The norm of the difference of each two rows, those of the first row first."""
    first, second = torch().triu_indices(x.shape[0], x.shape[0], 1)
    return torch().linalg.vector_norm(x[first] - x[second], p, 1)


def _renormalised(weight: Tensor, indices: Tensor, most: float, p: float) -> Tensor:
    """``weight`` with those rows that ``indices`` name scaled to a norm of ``most`` that are
    longer."""
    norms = torch().linalg.vector_norm(weight, p, 1)
    named = torch().zeros_like(norms, dtype=torch().bool)
    named = named.index_fill(0, indices.reshape(-1), True)
    scale = torch().where(named & (norms > most), most / (norms + 1e-7), 1.0)
    return weight * scale[:, None]


def _bags(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False,
    mode: int = 0, sparse: bool = False, factors: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int = -1,
) -> Any:  # fmt: skip
    """The rows of ``weight`` that ``indices`` name, times ``factors``: sums (mode 0) or means (1)
    of those from each of ``offsets`` up to the next, without those that ``padding_idx`` names; the
    bag of each, how many are in each bag, and what only maxima have."""
    if mode not in (0, 1):
        return NotImplemented
    begins = offsets[:-1] if include_last_offset else offsets
    places = torch().arange(indices.shape[0], device=indices.device)
    bags = (places[:, None] >= begins).sum(1) - 1
    counts = indices != padding_idx
    rows = weight[indices] if factors is None else weight[indices] * factors[:, None]
    rows = torch().where(counts[:, None], rows, 0.0)
    sums = weight.new_zeros(begins.shape[0], weight.shape[1]).index_add(0, bags, rows)
    sizes = torch().zeros_like(begins).index_add(0, bags, counts.to(begins.dtype))
    found = sums / sizes.clamp(min=1)[:, None] if mode == 1 else sums
    return found, bags, sizes, sizes
