"""Sums over windows in many layouts, for the tests of what makes fewer multiplications of them."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from weft.ir.build import compute, placeholder, reduce_axis, select, sum
from weft.ir.tensor_expr import Program, Size, Tensor

LAYOUTS = tuple(permutations("chw"))


def convolution(
    batch: Size,
    channels: int,
    filters: int,
    height: int,
    width: int,
    taps: tuple[int, int] = (3, 3),
    *,
    layout: str = "chw",
    pads: tuple[int, int] = (0, 0),
    stride: int = 1,
    dilation: int = 1,
    dtype: str = "float32",
    flipped: bool = False,
) -> Program:
    """y over x (batch, ``layout``) and w (filters, channels, taps…), padded by ``select``.

    ``flipped``: w is read backwards, as by a transposed convolution.
    """
    sizes = {"c": channels, "h": height, "w": width}
    x = placeholder((batch, *(sizes[d] for d in layout)), dtype, name="picture")
    w = placeholder((filters, channels, *taps), dtype, name="stencil")
    spans = [(t - 1) * dilation + 1 for t in taps]
    rows, columns = (
        (size + 2 * pad - span) // stride + 1
        for size, pad, span in zip((height, width), pads, spans, strict=True)
    )
    q = reduce_axis((0, channels), name="q")
    a, b = reduce_axis((0, taps[0]), name="a"), reduce_axis((0, taps[1]), name="b")

    def body(*loops):  # n and, in the order of the layout, filter, row and column
        at = dict(zip(layout, loops[1:], strict=True))
        i = at["h"] * stride + a * dilation - pads[0]
        j = at["w"] * stride + b * dilation - pads[1]
        place = {"c": q, "h": i, "w": j}
        pixel = x[(loops[0], *(place[d] for d in layout))]
        if any(pads):
            pixel = select((i >= 0) & (i < height) & (j >= 0) & (j < width), pixel, 0)
        tap = (taps[0] - 1 - a, taps[1] - 1 - b) if flipped else (a, b)
        return sum(pixel * w[(at["c"], q, *tap)], (b, q, a))

    extent = {"c": filters, "h": rows, "w": columns}
    y = compute((batch, *(extent[d] for d in layout)), body, name="y")
    return Program("own", (x, w), (y,))


def data(program: Program, seed: int = 0) -> list[np.ndarray]:
    """Numbers between -1 and 1, or small integers, for each input."""
    random = np.random.default_rng(seed)
    return [_numbers(random, tensor) for tensor in program.inputs]


def _numbers(random: np.random.Generator, tensor: Tensor) -> np.ndarray:
    shape = tuple(int(size) for size in tensor.shape)  # type: ignore[arg-type]
    if not tensor.dtype.is_float:
        return random.integers(-5, 6, shape).astype(tensor.dtype.numpy)
    return random.uniform(-1, 1, shape).astype(tensor.dtype.numpy)
