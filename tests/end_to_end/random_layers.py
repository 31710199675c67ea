"""The layers of random models: what has weights, windows or a whole axis to normalise.

Each function adds one layer, or a small block. Choices are random but plausible; whatever
onnxruntime refuses is dropped by the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.end_to_end.random_models import F32, F64, FLOATS, I64, Growing, Refused


def floats(a: np.ndarray) -> bool:
    return a.dtype in FLOATS


def image(a: np.ndarray) -> bool:
    return a.dtype == F32 and a.ndim in (3, 4, 5)


def of_rank(low: int, high: int = 6) -> Callable[[np.ndarray], bool]:
    return lambda a: a.dtype == F32 and low <= a.ndim <= high


def any_of_rank(low: int) -> Callable[[np.ndarray], bool]:
    return lambda a: a.ndim >= low and a.dtype != bool


def divisor(g: Growing, number: int) -> int:
    return int(g.choice(*(d for d in range(1, number + 1) if number % d == 0)))


def _window(g: Growing, space: tuple[int, ...]) -> dict[str, Any]:
    """Kernel, strides, dilations and pads, none larger than makes sense for ``space``."""
    n = len(space)
    kernel = [int(g.choice(*range(1, min(k, 5) + 1))) for k in space]
    pads = [int(g.rng.integers(0, k)) if g.chance(0.6) else 0 for k in (*kernel, *kernel)]
    return {
        "kernel_shape": kernel,
        "strides": g.integers(1, 3, n) if g.chance(0.5) else [1] * n,
        "dilations": g.integers(1, 2, n) if g.chance(0.3) else [1] * n,
        "pads": pads,
    }


def conv(g: Growing) -> None:
    x = g.pick(image)
    channels, *space = g.values[x].shape[1:]
    window = _window(g, tuple(space))
    groups = divisor(g, channels) if g.chance(0.4) else 1
    out = groups * (1 if g.chance(0.3) else g.size(48))
    shape = (out, channels // groups, *window["kernel_shape"])
    reads = [x, g.weight(shape, int(np.prod(shape[1:])))]
    if g.chance(0.7):
        reads.append(g.weight((out,)))
    (y,) = g.add("Conv", *reads, group=groups, **window)
    if g.chance(0.5):
        (y,) = _batch_norm(g, y)
    if g.chance(0.5):
        g.add("Relu", y)


def conv_transpose(g: Growing) -> None:
    x = g.pick(image)
    channels, *space = g.values[x].shape[1:]
    window = _window(g, tuple(space))
    groups = divisor(g, channels) if g.chance(0.3) else 1
    out = 1 if g.chance(0.2) else g.size(8)
    shape = (channels, out, *window["kernel_shape"])
    reads = [x, g.weight(shape, int(np.prod(shape)) // out)]
    if g.chance(0.5):
        reads.append(g.weight((out * groups,)))
    g.add("ConvTranspose", *reads, group=groups, **window)


def _batch_norm(g: Growing, x: str) -> list[str]:
    channels = g.values[x].shape[1]
    scale, bias, mean = (g.constant(g.array((channels,))) for _ in range(3))
    variance = g.constant(g.rng.random(channels) + 0.5)
    return g.add("BatchNormalization", x, scale, bias, mean, variance)


def batch_norm(g: Growing) -> None:
    _batch_norm(g, g.pick(of_rank(2)))


def pool(g: Growing) -> None:
    x = g.pick(image)
    if g.chance(0.2):
        g.add(g.choice("GlobalAveragePool", "GlobalMaxPool"), x)
        return
    window = _window(g, g.values[x].shape[2:]) | {"ceil_mode": int(g.chance(0.4))}
    if g.chance(0.5):
        window.pop("dilations")
        g.add("AveragePool", x, count_include_pad=int(g.chance(0.5)), **window)
    else:
        g.add("MaxPool", x, **window)


def matmul(g: Growing) -> None:
    x = g.pick(lambda a: a.dtype in (F32, F64) and a.ndim >= 2)
    a = g.values[x]
    batch = [n if g.chance(0.5) else 1 for n in a.shape[:-2]]
    batch = batch[int(g.rng.integers(0, len(batch) + 1)) :]
    y = g.weight((*batch, a.shape[-1], g.size(128)), a.shape[-1], a.dtype)
    (z,) = g.add("MatMul", x, y)
    if g.chance(0.5):
        g.add("Add", z, g.weight((g.values[z].shape[-1],), 1, a.dtype))


def gemm(g: Growing) -> None:
    x = g.pick(of_rank(2, 2))
    trans_a, trans_b = int(g.chance(0.3)), int(g.chance(0.5))
    m, k = g.values[x].shape[::-1] if trans_a else g.values[x].shape
    n = g.size(128)
    reads = [x, g.weight((n, k) if trans_b else (k, n), k)]
    if g.chance(0.7):
        reads.append(g.weight(g.choice((n,), (m, n), (m, 1), (1, n), (1,))))
    alpha, beta = (float(g.choice(1.0, 0.5, -1.5)) for _ in range(2))
    g.add("Gemm", *reads, transA=trans_a, transB=trans_b, alpha=alpha, beta=beta)


def attention(g: Growing) -> None:
    x = g.pick(of_rank(3, 3))
    batch, length, width = g.values[x].shape
    heads = divisor(g, width)
    parts = []
    for order in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)):
        (y,) = g.add("MatMul", x, g.weight((width, width), width))
        (y,) = g.add("Reshape", y, g.constant([0, 0, heads, width // heads], I64))
        parts += g.add("Transpose", y, perm=order)
    (scores,) = g.add("MatMul", parts[0], parts[1])
    (scores,) = g.add("Mul", scores, g.constant((width // heads) ** -0.5))
    if g.chance(0.5):
        (scores,) = g.add("Add", scores, g.weight((batch, 1, 1, length)))
    (weights,) = g.add("Softmax", scores, axis=-1)
    (y,) = g.add("MatMul", weights, parts[2])
    (y,) = g.add("Transpose", y, perm=(0, 2, 1, 3))
    (y,) = g.add("Reshape", y, g.constant([batch, length, width], I64))
    g.add("Add", x, y)


def residual(g: Growing) -> None:
    x = g.pick(lambda a: image(a) and a.shape[1] <= 16)
    channels, *space = g.values[x].shape[1:]
    y = x
    for _ in range(2):
        shape = (channels, channels, *[3] * len(space))
        pads = [1] * (2 * len(space))
        (y,) = g.add("Conv", y, g.weight(shape, int(np.prod(shape[1:]))), pads=pads)
        if g.chance(0.5):
            (y,) = _batch_norm(g, y)
        (y,) = g.add("Relu", y)
    g.add("Add", x, y)


def softmax(g: Growing) -> None:
    x = g.pick(lambda a: floats(a) and a.ndim >= 1)
    axis = int(g.rng.integers(-g.values[x].ndim, g.values[x].ndim))
    g.add(g.choice("Softmax", "Softmax", "LogSoftmax"), x, axis=axis)


def layer_norm(g: Growing) -> None:
    x = g.pick(of_rank(1))
    shape = g.values[x].shape
    axis = int(g.rng.integers(0, len(shape)))
    reads = [x, g.weight(shape[axis:])]
    if g.chance(0.7):
        reads.append(g.weight(shape[axis:]))
    g.add("LayerNormalization", *reads, axis=axis, epsilon=1e-3)


def instance_norm(g: Growing) -> None:
    x = g.pick(image)
    channels = g.values[x].shape[1]
    g.add("InstanceNormalization", x, g.weight((channels,)), g.weight((channels,)), epsilon=1e-3)


def einsum(g: Growing) -> None:
    x = g.pick(of_rank(3, 3))
    b, i, j = g.values[x].shape
    k = g.size(67)
    other, equation = g.choice(
        ((b, j, k), "bij,bjk->bik"), ((j, k), "bij,jk->kbi"), ((b, k, j), "bij,bkj->bik"),
        ((b, i, k), "bij,bik->bjk"), ((i, j), "bij,ij->b"),
    )  # fmt: skip
    g.add("Einsum", x, g.weight(other, j), equation=equation)


def recurrent(g: Growing) -> None:
    x = g.pick(of_rank(3, 3))
    length, _, width = g.values[x].shape
    if length > 16:
        raise Refused("a long sequence")
    op, gates = g.choice(("LSTM", 4), ("GRU", 3), ("RNN", 1))
    direction = g.choice("forward", "reverse", "bidirectional")
    n, hidden = (2 if direction == "bidirectional" else 1), g.size(37)
    reads = [
        x,
        g.weight((n, gates * hidden, width), width),
        g.weight((n, gates * hidden, hidden), hidden),
        g.weight((n, 2 * gates * hidden)),
    ]
    extra = {"linear_before_reset": int(g.chance(0.5))} if op == "GRU" else {}
    y = g.add(
        op, *reads, outputs=3 if op == "LSTM" else 2, hidden_size=hidden, direction=direction,
        **extra,
    )  # fmt: skip
    if n == 1 and g.chance(0.7):
        g.add("Squeeze", y[0], g.constant([1], I64))


def resize(g: Growing) -> None:
    x = g.pick(of_rank(4, 4))
    n, c, h, w = g.values[x].shape
    sizes = g.constant([n, c, h * g.choice(1, 2), w * 2], I64)
    if g.chance(0.5):
        g.add("Resize", x, "", "", sizes, mode="nearest",
              coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip
    else:
        g.add("Resize", x, "", "", sizes, mode="linear")
