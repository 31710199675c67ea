"""Random blocks of nodes as networks have them: layers with weights, activations of several nodes,
attention, quantisation.

Each function adds one block. Choices are random but plausible; whatever the oracle refuses is
dropped by the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.end_to_end.random_models import F16, F32, F64, I64, Growing


def image(a: np.ndarray) -> bool:
    return a.dtype == F32 and a.ndim in (3, 4, 5)


def of_rank(low: int, high: int = 6) -> Callable[[np.ndarray], bool]:
    return lambda a: a.dtype == F32 and low <= a.ndim <= high


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


def _batch_norm(g: Growing, x: str) -> list[str]:
    channels = g.values[x].shape[1]
    scale, bias, mean = (g.constant(g.array((channels,))) for _ in range(3))
    variance = g.constant(g.rng.random(channels) + 0.5)
    return g.add("BatchNormalization", x, scale, bias, mean, variance)


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


def matmul(g: Growing) -> None:
    x = g.pick(lambda a: a.dtype in (F32, F64) and a.ndim >= 2)
    a = g.values[x]
    batch = [n if g.chance(0.5) else 1 for n in a.shape[:-2]]
    batch = batch[int(g.rng.integers(0, len(batch) + 1)) :]
    y = g.weight((*batch, a.shape[-1], g.size(128)), a.shape[-1], a.dtype)
    (z,) = g.add("MatMul", x, y)
    if g.chance(0.5):
        g.add("Add", z, g.weight((g.values[z].shape[-1],), 1, a.dtype))


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


def gelu(g: Growing) -> None:
    x = g.pick()
    (y,) = g.add("Mul", x, g.constant(0.7071))
    (y,) = g.add("Erf", y)
    (y,) = g.add("Add", y, g.constant(1.0))
    (y,) = g.add("Mul", x, y)
    g.add("Mul", y, g.constant(0.5))


def precision(g: Growing) -> None:
    """Some of the computation in another floating type."""
    x = g.pick()
    kind = g.choice(F16, F64)
    (y,) = g.add("Cast", x, to={F16: 10, F64: 11}[kind])
    (y,) = g.add(g.choice("Tanh", "Sigmoid", "Abs") if kind == F16 else "Exp", y)
    (y,) = g.add("Mul", y, g.constant(g.array(g.values[y].shape[-1:]), kind))
    if g.chance(0.8):
        g.add("Cast", y, to=1)


def quantized(g: Growing) -> None:
    """Linear quantisation and back, of what is exact in float32."""
    x = g.input([g.size(11) for _ in range(g.integers(1, 4, 1)[0])])
    kind = np.dtype(g.choice(np.int8, np.uint8))
    scale, zero = g.constant(0.03125), g.constant(g.choice(0, 3), kind)
    (q,) = g.add("QuantizeLinear", x, scale, zero)
    if g.chance(0.4):
        (q,) = g.add("Reshape", q, g.constant([-1, g.values[q].shape[-1]], I64))
        w = g.constant(g.rng.integers(-9, 9, (g.values[q].shape[-1], g.size())), np.dtype(np.int8))
        (y,) = g.add("MatMulInteger", q, w, zero)
        (y,) = g.add("Cast", y, to=1)
        g.add("Mul", y, g.constant(0.001))
    else:
        g.add("DequantizeLinear", q, scale, zero)


def quantized_conv(g: Growing) -> None:
    """A convolution of integers; scales are powers of two, so that rounding has one answer."""
    channels, *space = [g.size(11) for _ in range(3)]
    x = g.input((g.size(3), channels, *space), np.dtype(np.uint8))
    out, kernel = g.size(11), [min(n, 3) for n in space]
    weights = g.rng.integers(-20, 20, (out, channels, *kernel))
    w = g.constant(weights, np.dtype(np.int8))
    zero, scale = g.constant(3, np.dtype(np.uint8)), g.constant(0.0625)
    reads = [x, scale, zero, w, scale, g.constant(0, np.dtype(np.int8)), scale, zero]
    (q,) = g.add("QLinearConv", *reads, pads=[1, 0, 0, 1], strides=g.integers(1, 2, 2))
    g.add("DequantizeLinear", q, scale, zero)


def dynamic_quantized(g: Growing) -> None:
    """A product whose left side is quantised on the way, as quantised transformers do."""
    x = g.input((g.size(4), g.size(), g.size()))
    q, scale, zero = g.add("DynamicQuantizeLinear", x, outputs=3)
    shape = (g.values[x].shape[-1], g.size())
    w = g.constant(g.rng.integers(-5, 6, shape), np.dtype(np.int8))
    (y,) = g.add("MatMulInteger", q, w, zero)
    (y,) = g.add("Cast", y, to=1)
    (scale,) = g.add("Mul", scale, g.constant(0.01))
    g.add("Mul", y, scale)


def integers(g: Growing) -> None:
    """Arithmetic on integers, and back to floats."""
    kind = np.dtype(g.choice(np.int64, np.int32))
    x = g.input([g.size(11) for _ in range(g.integers(1, 3, 1)[0])], kind)
    y = g.constant(g.array(g.values[x].shape[-1:], kind), kind)
    (z,) = g.add(g.choice("Add", "Mul", "Sub", "Max"), x, y)
    if g.chance(0.5):
        (z,) = g.add("ReduceSum", z, g.constant([0], I64), keepdims=1)
    (z,) = g.add("Cast", z, to=1)
    g.add("Mul", z, g.constant(0.05))
