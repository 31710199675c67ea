"""The kinds of nodes that random models are made of, and the models themselves.

Choices are random but plausible; whatever onnxruntime refuses is dropped by the caller.
"""

from __future__ import annotations

import numpy as np

from tests.end_to_end import random_layers as layers
from tests.end_to_end.random_layers import any_of_rank, divisor, floats, of_rank
from tests.end_to_end.random_models import F16, F32, F64, I64, Growing, RandomModel, Refused

UNARY = ("Relu", "Sigmoid", "Tanh", "Exp", "Abs", "Neg", "Erf", "Softplus", "HardSwish", "Elu",
         "LeakyRelu", "HardSigmoid", "Softsign", "Sin", "Identity", "Selu")  # fmt: skip
BINARY = ("Add", "Sub", "Mul", "Max", "Min", "Add", "Mul")
REDUCE = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceSumSquare",
          "ReduceLogSumExp", "ReduceL1")  # fmt: skip


def unary(g: Growing) -> None:
    g.add(g.choice(*UNARY), g.pick(floats))


def gelu(g: Growing) -> None:
    x = g.pick()
    (y,) = g.add("Mul", x, g.constant(0.7071))
    (y,) = g.add("Erf", y)
    (y,) = g.add("Add", y, g.constant(1.0))
    (y,) = g.add("Mul", x, y)
    g.add("Mul", y, g.constant(0.5))


def binary(g: Growing) -> None:
    """Of two values where they broadcast, or of one and a weight that broadcasts with it."""
    x = g.pick(floats)
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
    x = g.pick(any_of_rank(2))
    g.add("Transpose", x, perm=[int(k) for k in g.rng.permutation(g.values[x].ndim)])


def reshape(g: Growing) -> None:
    x = g.pick(any_of_rank(1))
    shape = list(g.values[x].shape)
    for _ in range(g.integers(1, 2, 1)[0]):
        k = int(g.rng.integers(len(shape)))
        if len(shape) > 1 and g.chance(0.6):
            k = min(k, len(shape) - 2)
            shape[k : k + 2] = [shape[k] * shape[k + 1]]
        else:
            d = divisor(g, shape[k])
            shape[k : k + 1] = [d, shape[k] // d]
    if g.chance(0.3):
        shape[int(g.rng.integers(len(shape)))] = -1
    g.add("Reshape", x, g.constant(shape, I64))


def slices(g: Growing) -> None:
    x = g.pick(any_of_rank(1))
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
    x = g.pick(any_of_rank(1))
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
    x = g.pick(of_rank(1))
    shape = g.values[x].shape
    mode = g.choice("constant", "constant", "edge", "reflect")
    pads = [int(g.rng.integers(0, min(n, 3))) for n in (*shape, *shape)]
    reads = [x, g.constant(pads, I64)]
    if mode == "constant" and g.chance(0.5):
        reads.append(g.constant(1.5))
    g.add("Pad", *reads, mode=mode)


def gather(g: Growing) -> None:
    x = g.pick(any_of_rank(1))
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
    x = g.pick(any_of_rank(1))
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
    x = g.pick(any_of_rank(1))
    shape = [g.size(7) if n == 1 and g.chance(0.7) else n for n in g.values[x].shape]
    g.add("Expand", x, g.constant([g.size(4), *shape] if g.chance(0.3) else shape, I64))


def unsqueeze(g: Growing) -> None:
    x = g.pick(any_of_rank(1))
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
    x = g.pick(of_rank(1))
    axis = g.constant(int(g.rng.integers(g.values[x].ndim)), I64)
    g.add("CumSum", x, axis, exclusive=int(g.chance(0.3)), reverse=int(g.chance(0.3)))


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


def argument(g: Growing) -> None:
    x = g.inputs[0]
    axis = int(g.rng.integers(g.values[x].ndim))
    (y,) = g.add(g.choice("ArgMax", "ArgMin"), x, axis=axis, keepdims=int(g.chance(0.5)))
    if g.chance(0.5):
        g.add("Cast", y, to=1)


def rearranged(g: Growing) -> None:
    """Other ways to move elements about."""
    x = g.pick(of_rank(2))
    shape = g.values[x].shape
    match g.choice("Tile", "Space", "Trilu", "GatherElements", "ScatterElements", "TopK"):
        case "Tile":
            g.add("Tile", x, g.constant([int(g.choice(1, 1, 2, 3)) for _ in shape], I64))
        case "Space":
            g.add(g.choice("DepthToSpace", "SpaceToDepth"), x, blocksize=2)
        case "Trilu":
            g.add("Trilu", x, g.constant(g.integers(-2, 2, 1)[0], I64), upper=int(g.chance(0.5)))
        case "GatherElements":
            indices = g.rng.integers(0, shape[-1], [*shape[:-1], g.size(7)])
            g.add("GatherElements", x, g.constant(indices, I64), axis=-1)
        case "ScatterElements":
            rows = g.rng.permutation(shape[0])[: g.integers(1, shape[0], 1)[0]]
            column = rows.reshape(-1, *[1] * (len(shape) - 1))
            indices = np.broadcast_to(column, (len(rows), *shape[1:]))
            g.add("ScatterElements", x, g.constant(indices, I64), g.weight(indices.shape), axis=0)
        case "TopK":
            k = g.constant([g.integers(1, shape[-1], 1)[0]], I64)
            g.add("TopK", g.inputs[0], k, outputs=2, axis=-1, largest=int(g.chance(0.5)))


def clipped(g: Growing) -> None:
    x = g.pick(lambda a: floats(a) and a.ndim >= 1)
    a = g.values[x]
    if g.chance(0.5):
        low = "" if g.chance(0.3) else g.constant(-0.7, a.dtype)
        g.add("Clip", x, low, g.constant(1.1, a.dtype))
    else:
        g.add("PRelu", x, g.weight([n if g.chance(0.5) else 1 for n in a.shape], 1, a.dtype))


LAYERS = (
    *(layers.conv, layers.conv, layers.conv, layers.conv_transpose, layers.batch_norm),
    *(layers.pool, layers.pool, layers.matmul, layers.matmul, layers.gemm, layers.softmax),
    *(layers.layer_norm, layers.instance_norm, layers.residual, layers.attention),
)
COMMON = (
    *(unary, unary, unary, gelu, binary, binary, binary, where, transpose, transpose),
    *(reshape, reshape, slices, concat, concat, pad, gather, split, expand, unsqueeze),
    *(reduction, reduction, *LAYERS),
)
RARE = (
    *(cumulative, precision, quantized, integers, argument, rearranged, rearranged, clipped),
    *(quantized_conv, dynamic_quantized),
    *(layers.recurrent, layers.recurrent, layers.resize, layers.einsum),
)


def random_model(seed: int) -> RandomModel:
    """The model of ``seed``: of 5 to 25 nodes, a few more where the last one is a block."""
    g = Growing(np.random.default_rng([seed, 8]))
    rank = g.choice(2, 3, 3, 4, 4, 4, 5)
    most = g.choice(17, 17, 37, 67) if rank < 5 else 7
    g.input([g.size(3), *(g.size(most) for _ in range(rank - 1))])
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
