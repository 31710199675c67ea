"""Tensors of PyTorch and arrays over the same memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from weft.frontend.torch.layouts import Layout, stored_order
from weft.frontend.torch.torch_module import dtype_of, torch
from weft.ir.dtypes import as_dtype


def is_tensor(value: object) -> bool:
    """Whether ``value`` is a tensor of PyTorch's."""
    return isinstance(value, torch().Tensor)


def array_of(tensor: Any) -> np.ndarray:
    """The elements of ``tensor`` where they lie; those of one that stands for others (a lazy
    negation, a tensor that requires gradients) as they would be read."""
    dtype = dtype_of(tensor.dtype)
    if dtype is None or tensor.dtype.is_floating_point is False or dtype.bits >= 32:
        return tensor.numpy(force=True)  # type: ignore[no-any-return]
    if tensor.dtype == torch().float16:
        return tensor.numpy(force=True)  # type: ignore[no-any-return]
    bits = torch().int16 if dtype.bits == 16 else torch().uint8  # NumPy alone has no such type
    return tensor.detach().view(bits).numpy(force=True).view(dtype.numpy)  # type: ignore[no-any-return]


def tensor_of(array: np.ndarray) -> Any:
    """``array`` as a tensor over the same memory."""
    dtype = as_dtype(array.dtype)
    if dtype.is_float and dtype.bits < 32 and dtype.name != "float16":
        bits = array.view(np.int16 if dtype.bits == 16 else np.uint8)
        return torch().from_numpy(bits).view(getattr(torch(), dtype.name))
    return torch().from_numpy(array)


def laid_out(tensor: Any, layout: Layout) -> Any:
    """``tensor``, or where its strides are not those of ``layout``, a copy that has them."""
    strides = zip(tensor.stride(), layout.both[1], layout.shape, strict=True)
    if all(own == wanted for own, wanted, size in strides if size != 1):
        return tensor
    copy = torch().empty_strided(layout.shape, layout.strides, dtype=tensor.dtype)
    return copy.copy_(tensor)


Place = Callable[[np.ndarray], Any]


def placing(layouts: Sequence[Layout]) -> Callable[[Mapping[str, int]], Sequence[Place]]:
    """From the values of open sizes to what makes a tensor of each of ``layouts`` of an array, as
    ``importer`` has graphs return it."""
    fixed = [_place(x) if not x.is_open or _is_plain(x) else None for x in layouts]
    known = [place for place in fixed if place is not None]
    if len(known) == len(fixed):
        return lambda _: known
    pairs = list(zip(layouts, fixed, strict=True))
    return lambda sizes: [place or _place(layout.at(sizes)) for layout, place in pairs]


def _is_plain(layout: Layout) -> bool:
    """Whether nothing of it is repeated, and nothing lies between its elements."""
    repeated = any(n != 1 and s == 0 for n, s in zip(*layout.both, strict=True))
    return not repeated and (0 in layout.shape or stored_order(layout) is not None)


def _place(layout: Layout) -> Place:
    order = layout.order
    inverse = tuple(order.index(d) for d in range(len(order)))
    if _is_plain(layout):
        if inverse == tuple(range(len(order))):
            return tensor_of
        return lambda array: tensor_of(array).permute(inverse)
    repeated = any(n != 1 and s == 0 for n, s in zip(*layout.both, strict=True))

    def placed(array: np.ndarray) -> Any:
        tensor = tensor_of(array).permute(inverse)
        if repeated or 0 in layout.shape:
            return tensor.expand(layout.shape)
        wider = torch().empty_strided(layout.shape, layout.strides, dtype=tensor.dtype)
        return wider.copy_(tensor)

    return placed
