"""The kinds of nodes that random models are made of: each function adds one, or a small block.

Choices are random but plausible; whatever onnxruntime refuses is dropped by the caller.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.end_to_end.random_models import F16, F32, F64, FLOATS, I64, Growing, RandomModel, Refused

UNARY = ("Relu", "Sigmoid", "Tanh", "Exp", "Abs", "Neg", "Erf", "Softplus", "HardSwish", "Elu",
         "LeakyRelu", "HardSigmoid", "Softsign", "Sin", "Identity", "Selu")  # fmt: skip
BINARY = ("Add", "Sub", "Mul", "Max", "Min", "Add", "Mul")
REDUCE = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceSumSquare",
          "ReduceLogSumExp", "ReduceL1")  # fmt: skip


def _floats(a: np.ndarray) -> bool:
    return a.dtype in FLOATS


def _image(a: np.ndarray) -> bool:
    return a.dtype == F32 and a.ndim in (3, 4, 5)


def _of_rank(low: int, high: int = 6) -> Callable[[np.ndarray], bool]:
    return lambda a: a.dtype == F32 and low <= a.ndim <= high


def _any_of_rank(low: int) -> Callable[[np.ndarray], bool]:
    return lambda a: a.ndim >= low and a.dtype != bool


def _divisor(g: Growing, number: int) -> int:
    return int(g.choice(*(d for d in range(1, number + 1) if number % d == 0)))


def _window(g: Growing, space: tuple[int, ...]) -> dict[str, list[int]]:
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
    x = g.pick(_image)
    channels, *space = g.values[x].shape[1:]
    window = _window(g, tuple(space))
    groups = _divisor(g, channels) if g.chance(0.4) else 1
    out = groups * (1 if g.chance(0.3) else g.size(11))
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
    x = g.pick(_image)
    channels, *space = g.values[x].shape[1:]
    window = _window(g, tuple(space))
    groups = _divisor(g, channels) if g.chance(0.3) else 1
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
    _batch_norm(g, g.pick(_of_rank(2)))


def pool(g: Growing) -> None:
    x = g.pick(_image)
    if g.chance(0.2):
        g.add(g.choice("GlobalAveragePool", "GlobalMaxPool"), x)
        return
    window: dict[str, object] = dict(_window(g, g.values[x].shape[2:]))
    window["ceil_mode"] = int(g.chance(0.4))
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
    y = g.weight((*batch, a.shape[-1], g.size()), a.shape[-1], a.dtype)
    (z,) = g.add("MatMul", x, y)
    if g.chance(0.5):
        g.add("Add", z, g.weight((g.values[z].shape[-1],), 1, a.dtype))


def gemm(g: Growing) -> None:
    x = g.pick(_of_rank(2, 2))
    trans_a, trans_b = int(g.chance(0.3)), int(g.chance(0.5))
    m, k = g.values[x].shape[::-1] if trans_a else g.values[x].shape
    n = g.size()
    reads = [x, g.weight((n, k) if trans_b else (k, n), k)]
    if g.chance(0.7):
        reads.append(g.weight(g.choice((n,), (m, n), (m, 1), (1, n), (1,))))
    alpha, beta = (float(g.choice(1.0, 0.5, -1.5)) for _ in range(2))
    g.add("Gemm", *reads, transA=trans_a, transB=trans_b, alpha=alpha, beta=beta)


def attention(g: Growing) -> None:
    x = g.pick(_of_rank(3, 3))
    batch, length, width = g.values[x].shape
    heads = _divisor(g, width)
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
    x = g.pick(lambda a: _image(a) and a.shape[1] <= 16)
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
    x = g.pick(lambda a: _floats(a) and a.ndim >= 1)
    axis = int(g.rng.integers(-g.values[x].ndim, g.values[x].ndim))
    g.add(g.choice("Softmax", "Softmax", "LogSoftmax"), x, axis=axis)


def layer_norm(g: Growing) -> None:
    x = g.pick(_of_rank(1))
    shape = g.values[x].shape
    axis = int(g.rng.integers(0, len(shape)))
    reads = [x, g.weight(shape[axis:])]
    if g.chance(0.7):
        reads.append(g.weight(shape[axis:]))
    g.add("LayerNormalization", *reads, axis=axis, epsilon=1e-3)


def instance_norm(g: Growing) -> None:
    x = g.pick(_image)
    channels = g.values[x].shape[1]
    g.add("InstanceNormalization", x, g.weight((channels,)), g.weight((channels,)), epsilon=1e-3)


def unary(g: Growing) -> None:
    g.add(g.choice(*UNARY), g.pick(_floats))


def gelu(g: Growing) -> None:
    x = g.pick()
    (y,) = g.add("Mul", x, g.constant(0.7071))
    (y,) = g.add("Erf", y)
    (y,) = g.add("Add", y, g.constant(1.0))
    (y,) = g.add("Mul", x, y)
    g.add("Mul", y, g.constant(0.5))


def binary(g: Growing) -> None:
    """Of two values where they broadcast, or of one and a weight that broadcasts with it."""
    x = g.pick(_floats)
    a = g.values[x]
    others = [n for n in g.values if n != x and n not in g.constants and _fits(a, g.values[n])]
    if others and g.chance(0.6):
        g.add(g.choice(*BINARY), *g.rng.permutation([x, g.choice(*others)]).tolist())
        return
    shape = [n if g.chance(0.6) else 1 for n in a.shape]
    y = g.weight(shape[int(g.rng.integers(0, len(shape) + 1)) :], 1, a.dtype)
    if g.chance(0.1):
        (y,) = g.add("Exp", y)
        g.add("Div", x, y)
    else:
        g.add(g.choice(*BINARY), *g.rng.permutation([x, y]).tolist())


def _fits(a: np.ndarray, b: np.ndarray) -> bool:
    pairs = zip(a.shape[::-1], b.shape[::-1], strict=False)
    return a.dtype == b.dtype and all(m == n or 1 in (m, n) for m, n in pairs)


def where(g: Growing) -> None:
    x = g.pick()
    shape = [n if g.chance(0.6) else 1 for n in g.values[x].shape]
    (mask,) = g.add(g.choice("Greater", "Less"), x, g.constant(g.array(shape, scale=0.5)))
    other = g.weight(shape) if g.chance(0.5) else g.constant(0.25)
    g.add("Where", *([mask, x, other] if g.chance(0.5) else [mask, other, x]))


def transpose(g: Growing) -> None:
    x = g.pick(_any_of_rank(2))
    g.add("Transpose", x, perm=[int(k) for k in g.rng.permutation(g.values[x].ndim)])


def reshape(g: Growing) -> None:
    x = g.pick(_any_of_rank(1))
    shape = list(g.values[x].shape)
    for _ in range(g.integers(1, 2, 1)[0]):
        k = int(g.rng.integers(len(shape)))
        if len(shape) > 1 and g.chance(0.6):
            k = min(k, len(shape) - 2)
            shape[k : k + 2] = [shape[k] * shape[k + 1]]
        else:
            d = _divisor(g, shape[k])
            shape[k : k + 1] = [d, shape[k] // d]
    if g.chance(0.3):
        shape[int(g.rng.integers(len(shape)))] = -1
    g.add("Reshape", x, g.constant(shape, I64))


def slices(g: Growing) -> None:
    x = g.pick(_any_of_rank(1))
    shape = g.values[x].shape
    axes = sorted(g.rng.permutation(len(shape))[: g.integers(1, 2, 1)[0]].tolist())
    starts, ends, steps = [], [], []
    for axis in axes:
        n, step = shape[axis], int(g.choice(1, 1, 2, 3, -1, -2))
        start, end = sorted((int(g.rng.integers(0, n)), int(g.rng.integers(1, n + 1))))
        end = max(end, start + 1)
        starts.append(start if step > 0 else end - 1)
        ends.append(end if step > 0 else (start - 1 if start else -n - 1))
        steps.append(step)
    g.add("Slice", x, *(g.constant(v, I64) for v in (starts, ends, axes, steps)))


def concat(g: Growing) -> None:
    x = g.pick(_any_of_rank(1))
    a = g.values[x]
    axis = int(g.rng.integers(a.ndim))
    parts = [x]
    for name, b in g.values.items():
        same = b.ndim == a.ndim and b.dtype == a.dtype and name not in g.constants
        if same and np.delete(b.shape, axis).tolist() == np.delete(a.shape, axis).tolist():
            parts.append(name)
    if len(parts) == 1:
        shape = [*a.shape]
        shape[axis] = g.size(5)
        parts.append(g.weight(shape, 1, a.dtype))
    order = g.rng.permutation(len(parts))[:3]
    g.add("Concat", *(parts[k] for k in order), axis=axis - (a.ndim if g.chance(0.3) else 0))


def pad(g: Growing) -> None:
    x = g.pick(_of_rank(1))
    shape = g.values[x].shape
    mode = g.choice("constant", "constant", "edge", "reflect")
    pads = [int(g.rng.integers(0, min(n, 3))) for n in (*shape, *shape)]
    reads = [x, g.constant(pads, I64)]
    if mode == "constant" and g.chance(0.5):
        reads.append(g.constant(1.5))
    g.add("Pad", *reads, mode=mode)


def gather(g: Growing) -> None:
    x = g.pick(_any_of_rank(1))
    a = g.values[x]
    axis = int(g.rng.integers(a.ndim))
    n = a.shape[axis]
    shape = g.choice((), (1,), (g.size(7),), (g.size(5), g.size(5)))
    numbers = g.rng.integers(-n, n, shape)
    if g.chance(0.5):
        indices = g.constant(numbers, I64)
    else:
        indices = g.input(shape, I64)
        g.values[indices] = np.asarray(numbers, I64)
    g.add("Gather", x, indices, axis=axis)


def split(g: Growing) -> None:
    x = g.pick(_any_of_rank(1))
    a = g.values[x]
    axis = int(g.rng.integers(a.ndim))
    n = a.shape[axis]
    if n < 2:
        raise Refused("nothing to split")
    first = int(g.rng.integers(1, n))
    parts = g.add("Split", x, g.constant([first, n - first], I64), outputs=2, axis=axis)
    if g.chance(0.3) and a.dtype == F32:
        (y,) = g.add("Sigmoid", parts[0])
        if first == n - first:
            g.add("Mul", parts[1], y)


def expand(g: Growing) -> None:
    x = g.pick(_any_of_rank(1))
    shape = [g.size(7) if n == 1 and g.chance(0.7) else n for n in g.values[x].shape]
    g.add("Expand", x, g.constant([g.size(4), *shape] if g.chance(0.3) else shape, I64))


def unsqueeze(g: Growing) -> None:
    x = g.pick(_any_of_rank(1))
    shape = g.values[x].shape
    ones = [k for k, n in enumerate(shape) if n == 1]
    if ones and g.chance(0.5):
        g.add("Squeeze", x, g.constant([g.choice(*ones)], I64))
    else:
        g.add("Unsqueeze", x, g.constant([int(g.rng.integers(len(shape) + 1))], I64))


def reduction(g: Growing) -> None:
    x = g.pick(lambda a: a.dtype in (F32, F64) and a.ndim >= 1)
    rank = g.values[x].ndim
    axes = sorted(g.rng.permutation(rank)[: g.integers(1, rank, 1)[0]].tolist())
    axes = [k - rank if g.chance(0.3) else k for k in axes]
    g.add(g.choice(*REDUCE), x, g.constant(axes, I64), keepdims=int(g.chance(0.6)))


def cumulative(g: Growing) -> None:
    x = g.pick(_of_rank(1))
    axis = g.constant(int(g.rng.integers(g.values[x].ndim)), I64)
    g.add("CumSum", x, axis, exclusive=int(g.chance(0.3)), reverse=int(g.chance(0.3)))


def precision(g: Growing) -> None:
    """Some of the computation in another floating type."""
    x = g.pick()
    kind = g.choice(F16, F64)
    (y,) = g.add("Cast", x, to={F16: 10, F64: 11}[kind])
    (y,) = g.add(g.choice("Tanh", "Sigmoid", "Abs") if kind == F16 else "Exp", y)
    (y,) = g.add("Mul", y, g.constant(g.array((g.values[y].shape[-1:])), kind))
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


def argument(g: Growing) -> None:
    x = g.inputs[0]
    axis = int(g.rng.integers(g.values[x].ndim))
    (y,) = g.add(g.choice("ArgMax", "ArgMin"), x, axis=axis, keepdims=int(g.chance(0.5)))
    if g.chance(0.5):
        g.add("Cast", y, to=1)


def recurrent(g: Growing) -> None:
    x = g.pick(_of_rank(3, 3))
    length, batch, width = g.values[x].shape
    if length > 16:
        raise Refused("a long sequence")
    op, gates = g.choice(("LSTM", 4), ("GRU", 3), ("RNN", 1))
    direction = g.choice("forward", "reverse", "bidirectional")
    n, hidden = (2 if direction == "bidirectional" else 1), g.size(8)
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
    x = g.pick(_of_rank(4, 4))
    n, c, h, w = g.values[x].shape
    sizes = g.constant([n, c, h * g.choice(1, 2), w * 2], I64)
    if g.chance(0.5):
        g.add("Resize", x, "", "", sizes, mode="nearest",
              coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip
    else:
        g.add("Resize", x, "", "", sizes, mode="linear")


COMMON = (conv, conv, conv, conv_transpose, batch_norm, pool, pool, matmul, matmul, gemm, softmax,
          layer_norm, instance_norm, unary, unary, unary, gelu, binary, binary, binary, where,
          transpose, transpose, reshape, reshape, slices, concat, concat, pad, gather, split,
          expand, unsqueeze, reduction, reduction, residual, attention)  # fmt: skip
RARE = (cumulative, precision, quantized, integers, argument, recurrent, recurrent, resize)


def random_model(seed: int) -> RandomModel:
    """The model of ``seed``: of 5 to 25 nodes, a few more where the last one is a block."""
    g = Growing(np.random.default_rng([seed, 8]))
    rank = g.choice(2, 3, 3, 4, 4, 4, 5)
    g.input([g.size(3), *(g.size(17 if rank < 5 else 7) for _ in range(rank - 1))])
    if g.chance(0.3):
        g.input([g.size() for _ in range(g.choice(1, 2, 3))])
    wanted = int(g.rng.integers(5, 26))
    for _ in range(20 * wanted):
        if len(g.nodes) >= wanted:
            break
        before = len(g.nodes)
        try:
            g.choice(*(RARE if g.chance(0.15) else COMMON))(g)
        except Refused:
            del g.nodes[before:]
            made = {name for node in g.nodes for name in node.output}
            for name in [n for n in g.values if n[0] == "v" and n not in made]:
                del g.values[name]
    return g.finished()
