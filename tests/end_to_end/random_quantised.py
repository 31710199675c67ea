"""Random nodes of com.microsoft: what onnxruntime's quantiser writes. Zero points are given, as the
oracle wants them."""

from __future__ import annotations

import numpy as np

from tests.end_to_end.random_models import F32, Growing
from tests.end_to_end.random_operators import makes
from tests.end_to_end.random_products import factor
from tests.end_to_end.random_windows import window

MICROSOFT = "com.microsoft"
I8, U8, I32 = np.dtype(np.int8), np.dtype(np.uint8), np.dtype(np.int32)


def small(g: Growing, low: int, high: int, *types: np.dtype) -> str:
    """A tensor of small integers that is there, or a new one."""
    allowed = types or (I8, U8)
    if g.chance(0.5):
        return g.pick(lambda a: a.dtype in allowed and low <= a.ndim <= high and a.size > 0)
    shape = g.shape(int(g.rng.integers(low, high + 1)), 7)
    return g.input(shape, g.choice(*allowed))


def floats(g: Growing, low: int, high: int) -> str:
    """A tensor in float32 that is there, or a new one."""
    if g.inputs and g.chance(0.7):
        return g.pick(lambda a: a.dtype == F32 and low <= a.ndim <= high and a.size > 0)
    return g.input(g.shape(int(g.rng.integers(low, high + 1)), 7))


def parameters(g: Growing, dtype: np.dtype, count: int = 0) -> list[str]:
    """A scale and a zero point, or so many."""
    shape = (count,) if count else ()
    scale = g.rng.uniform(0.05, 0.3, shape)
    return [g.fixed(scale), g.fixed(g.rng.integers(0, 9, shape), dtype)]


@makes("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def binary(g: Growing, op_type: str) -> None:
    x = small(g, 0, 4)
    dtype = g.values[x].dtype
    shape = [n if g.chance(0.7) else 1 for n in g.values[x].shape]
    y = g.weight(shape[g.choice(0, 0, 1) :], 1, dtype)
    pairs = [x, *parameters(g, dtype), y, *parameters(g, dtype)]
    if g.chance(0.5):
        pairs = pairs[3:] + pairs[:3]
    g.contributed(op_type, *pairs, *parameters(g, dtype))


@makes("QLinearSigmoid", "QLinearLeakyRelu", "QLinearGlobalAveragePool", domain=MICROSOFT)
def unary(g: Growing, op_type: str) -> None:
    x = small(g, 3 if "Global" in op_type else 0, 5)
    dtype = g.values[x].dtype
    more = g.some(alpha=0.3) if "Leaky" in op_type else {}
    g.contributed(op_type, x, *parameters(g, dtype), *parameters(g, dtype), **more)


@makes("QLinearAveragePool", domain=MICROSOFT)
def average_pool(g: Growing, op_type: str) -> None:
    x = small(g, 3, 5)
    dtype = g.values[x].dtype
    found = window(g, list(g.values[x].shape[2:]))
    found.pop("dilations", None)
    found |= g.some(count_include_pad=int(g.chance(0.5)))
    g.contributed(op_type, x, *parameters(g, dtype), *parameters(g, dtype), **found)


@makes("QLinearSoftmax", domain=MICROSOFT)
def softmax(g: Growing, op_type: str) -> None:
    x = small(g, 1, 4)
    result = [g.fixed(1 / 256), g.fixed(0, g.values[x].dtype)]
    how = {"axis": g.axis(x), "opset": g.choice(12, 13)}
    g.contributed(op_type, x, *parameters(g, g.values[x].dtype), *result, **how)


@makes("QLinearWhere", domain=MICROSOFT)
def where(g: Growing, op_type: str) -> None:
    """onnxruntime reads nowhere (SIGSEGV) where some zero points are constants and some are not."""
    x = small(g, 0, 4)
    dtype, shape = g.values[x].dtype, g.values[x].shape
    keep = g.weight(shape[g.choice(0, 1) :], 1, np.dtype(bool))
    y = g.weight(shape, 1, dtype)
    scales, zeros = g.rng.uniform(0.05, 0.3, 3), g.rng.integers(0, 9, 3)
    fixed = [(g.constant(s), g.constant(z, dtype)) for s, z in zip(scales, zeros, strict=True)]
    g.contributed(op_type, keep, x, *fixed[0], y, *fixed[1], *fixed[2])


@makes("QLinearConcat", domain=MICROSOFT)
def concat(g: Growing, op_type: str) -> None:
    x = small(g, 1, 4)
    dtype, axis = g.values[x].dtype, g.axis(x)
    reads = [*parameters(g, dtype), x, *parameters(g, dtype)]
    for _ in range(g.choice(0, 1, 2)):
        shape = list(g.values[x].shape)
        shape[axis] = g.size(7)
        reads += [g.weight(shape, 1, dtype), *parameters(g, dtype)]
    g.contributed(op_type, *reads, axis=axis)


@makes("QGemm", domain=MICROSOFT)
def gemm(g: Growing, op_type: str) -> None:
    x = small(g, 2, 2)
    dtype, kind = g.values[x].dtype, I8 if g.values[x].dtype == I8 else g.choice(I8, U8)
    left, right = int(g.chance(0.3)), int(g.chance(0.5))
    m, k = g.values[x].shape[:: -1 if left else 1]
    n = g.size(23)
    weights = g.weight((n, k) if right else (k, n), 1, kind)
    reads = [x, *parameters(g, dtype), weights, *parameters(g, kind, n if g.chance(0.5) else 0)]
    reads.append(g.weight(g.choice((n,), (m, n), (m, 1), ()), 1, I32) if g.chance(0.7) else "")
    reads += parameters(g, dtype) if g.chance(0.7) else []
    g.contributed(op_type, *reads, transA=left, transB=right, **g.some(alpha=0.5))


@makes("MatMulIntegerToFloat", "DynamicQuantizeMatMul", domain=MICROSOFT)
def product(g: Growing, op_type: str) -> None:
    kind, dynamic = g.choice(I8, U8), op_type.startswith("Dynamic")
    x = floats(g, 2, 4) if dynamic else small(g, 2, 4, U8)
    y = factor(g, x, kind)
    scale, zero_point = parameters(g, kind)
    bias = [g.weight([g.values[y].shape[-1]])] if g.chance(0.5) and g.values[y].ndim > 1 else []
    if dynamic:
        g.contributed(op_type, x, y, scale, zero_point, *bias)
    else:
        x_scale, x_zero_point = parameters(g, U8)
        g.contributed(op_type, x, y, x_scale, scale, x_zero_point, zero_point, *bias)


@makes("QAttention", domain=MICROSOFT)
def attention(g: Growing, op_type: str) -> None:
    x, kind = small(g, 3, 3, U8), g.choice(I8, U8)
    heads, size = g.choice(1, 2, 3), g.size(5)
    batch, length, width = g.values[x].shape
    columns = 3 * heads * size
    x_scale, x_zero_point = parameters(g, U8)
    scale, zero_point = parameters(g, kind, columns if g.chance(0.5) else 0)
    mask = g.fixed(g.rng.integers(0, 2, (batch, length)) | (np.arange(length) < 1), I32)
    reads = [x, g.weight((width, columns), 1, kind), g.weight((columns,)), x_scale, scale]
    reads += [mask if g.chance(0.5) else "", x_zero_point, zero_point]
    how = g.some(unidirectional=int(g.chance(0.5)))
    g.contributed(op_type, *reads, num_heads=heads, **how)


@makes("QuantizeLinear", "DequantizeLinear", domain=MICROSOFT)
def quantise(g: Growing, op_type: str) -> None:
    kind = g.choice(I8, U8)
    x = floats(g, 1, 4) if op_type[0] == "Q" else small(g, 1, 4)
    kind = kind if op_type[0] == "Q" else g.values[x].dtype
    axis = g.axis(x)
    count = g.values[x].shape[axis] if g.chance(0.5) else 0
    g.contributed(op_type, x, *parameters(g, kind, count), axis=axis)
