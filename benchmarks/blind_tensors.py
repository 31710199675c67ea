"""Operators and their like in `compute`, under other names with permuted axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft
from weft.benchmarks.blind_case import Arrays, Case, built_in, random
from weft.ir.build import (
    compute,
    exp,
    max_over,
    placeholder,
    reduce_axis,
    scan,
    sqrt,
    sum,
    tanh,
)
from weft.ir.scalar_expr import select
from weft.ir.tensor_expr import Tensor

# ---- Recurrent cells in `compute`: gates in another order, state as [hidden, batch].


STEPS, BATCH, SIZE, HIDDEN = 16, 4, 64, 64


def lstm() -> Case:
    """An LSTM over 16 steps."""
    driven, rec = _driven(4), placeholder((4, HIDDEN, HIDDEN), name="rec")

    def step(itself: Any, t: Any, i: Any, b: Any) -> tuple[Any, Any]:
        def gate(g: int) -> Any:
            return driven[t, g, i, b] + _fed(itself, rec, t, g, i, b)

        kept = select(t >= 1, itself(1, t - 1, i, b), 0.0)
        cell = _sigmoid(gate(2)) * kept + _sigmoid(gate(0)) * tanh(gate(3))
        return _sigmoid(gate(1)) * tanh(cell), cell

    f32 = weft.float32
    own = scan((STEPS, HIDDEN, BATCH), step, dtypes_=(f32, f32), along=1, name="memory")
    return _case("LSTM", built_in("lstm", *_placeholders(4)), own, [0, 1, 2, 3])


def gru() -> Case:
    """A GRU over 16 steps."""
    driven, rec = _driven(3), placeholder((3, HIDDEN, HIDDEN), name="rec")

    def step(itself: Any, t: Any, i: Any, b: Any) -> tuple[Any]:
        def fed(g: int) -> Any:
            return _fed(itself, rec, t, g, i, b)

        kept = select(t >= 1, itself(0, t - 1, i, b), 0.0)
        update = _sigmoid(driven[t, 1, i, b] + fed(1))
        reset = _sigmoid(driven[t, 2, i, b] + fed(2))
        fresh = tanh(driven[t, 0, i, b] + reset * fed(0))
        return ((1.0 - update) * fresh + update * kept,)

    own = scan((STEPS, HIDDEN, BATCH), step, dtypes_=(weft.float32,), along=1, name="memory")
    theirs = built_in("gru", *_placeholders(3), linear_before_reset=True)
    return _case("GRU", theirs, own, [2, 0, 1])  # the built-in's gates are z, r, h


def _placeholders(gates: int) -> tuple[Tensor, Tensor, Tensor]:
    """What the built-in cells take: inputs, and weights of inputs and of the state."""
    return (
        placeholder((STEPS, BATCH, SIZE), name="x"),
        placeholder((1, gates * HIDDEN, SIZE), name="w"),
        placeholder((1, gates * HIDDEN, HIDDEN), name="r"),
    )


def _driven(gates: int) -> Tensor:
    """What the inputs add to each gate: [step, gate, hidden, batch]."""
    flow = placeholder((STEPS, SIZE, BATCH), name="flow")
    win = placeholder((gates, HIDDEN, SIZE), name="win")
    k = reduce_axis((0, SIZE), name="k")
    return compute(
        (STEPS, gates, HIDDEN, BATCH),
        lambda t, g, i, b: sum(win[g, i, k] * flow[t, k, b], axis=k),
        name="driven",
    )


def _fed(itself: Any, rec: Tensor, t: Any, g: int, i: Any, b: Any) -> Any:
    """What the state of the step before adds to gate ``g``."""
    q = reduce_axis((0, HIDDEN), name=f"q{g}")
    return sum(select(t >= 1, itself(0, t - 1, q, b), 0.0) * rec[g, i, q], axis=q)


def _sigmoid(value: Any) -> Any:
    return 1.0 / (exp(-value) + 1.0)


def _case(name: str, theirs: tuple[Tensor, ...], own: Any, order: list[int]) -> Case:
    """``order``: which of the built-in's gates each of ours is."""
    gates = len(order)

    def permuted(a: Arrays) -> Arrays:
        return (
            a[0].transpose(0, 2, 1),
            a[1].reshape(gates, HIDDEN, SIZE)[order],
            a[2].reshape(gates, HIDDEN, HIDDEN)[order],
        )

    def back(y: np.ndarray) -> np.ndarray:
        return y.transpose(0, 2, 1)[:, None]

    weights = (
        random(1, gates * HIDDEN, SIZE, scale=0.2),
        random(1, gates * HIDDEN, HIDDEN, scale=0.2),
    )
    data = (random(STEPS, BATCH, SIZE), *weights)
    return Case(name, theirs[:1], own[:1], data, permuted, back)


def gemm() -> Case:
    """C = A B as T[n, m] = Σ V[n, k] U[k, m]: everything transposed."""
    m, n, k = 256, 384, 512
    a, b = placeholder((m, k), name="a"), placeholder((k, n), name="b")
    u, v = placeholder((k, m), name="u"), placeholder((n, k), name="v")
    q = reduce_axis((0, k), name="q")
    own = compute((n, m), lambda j, i: sum(u[q, i] * v[j, q], axis=q), name="zap")
    return Case(
        "gemm",
        built_in("matmul", a, b),
        [own],
        (random(m, k), random(k, n)),
        lambda x: (x[0].T, x[1].T),
        lambda y: y.T,
    )


def conv() -> Case:
    """3×3 convolution on NHWC data with the weights as [r, s, c, k]."""
    c, k, h, w = 64, 64, 28, 28
    x, f = placeholder((1, c, h, w), name="x"), placeholder((k, c, 3, 3), name="f")
    image = placeholder((1, h, w, c), name="image")
    mask = placeholder((3, 3, c, k), name="mask")
    framed = compute(
        (1, h + 2, w + 2, c),
        lambda b, i, j, z: select(
            (i >= 1) & (i < h + 1) & (j >= 1) & (j < w + 1), image[b, i - 1, j - 1, z], 0.0
        ),
        name="framed",
    )
    r, s, z = (reduce_axis((0, e), name=n) for e, n in ((3, "dy"), (3, "dx"), (c, "ch")))
    own = compute(
        (1, h, w, k),
        lambda b, i, j, o: sum(framed[b, i + r, j + s, z] * mask[r, s, z, o], axis=(r, s, z)),
        name="stir",
    )
    return Case(
        "conv",
        built_in("conv", x, f, None, pads=(1, 1, 1, 1)),
        [own],
        (random(1, c, h, w), random(k, c, 3, 3, scale=0.05)),
        lambda a: (a[0].transpose(0, 2, 3, 1), a[1].transpose(2, 3, 1, 0)),
        lambda y: y.transpose(0, 3, 1, 2),
    )


def depthwise() -> Case:
    """Depthwise 3×3 on [c, n, w, h] data."""
    c, h, w = 96, 56, 56
    x, f = placeholder((1, c, h, w), name="x"), placeholder((c, 1, 3, 3), name="f")
    image, mask = placeholder((c, 1, w, h), name="image"), placeholder((c, 3, 3), name="mask")
    framed = compute(
        (c, 1, w + 2, h + 2),
        lambda z, b, j, i: select(
            (i >= 1) & (i < h + 1) & (j >= 1) & (j < w + 1), image[z, b, j - 1, i - 1], 0.0
        ),
        name="framed",
    )
    r, s = reduce_axis((0, 3), name="dx"), reduce_axis((0, 3), name="dy")
    own = compute(
        (c, 1, w, h),
        lambda z, b, j, i: sum(framed[z, b, j + r, i + s] * mask[z, r, s], axis=(r, s)),
        name="sift",
    )
    return Case(
        "depthwise conv",
        built_in("conv", x, f, None, pads=(1, 1, 1, 1), group=c),
        [own],
        (random(1, c, h, w), random(c, 1, 3, 3)),
        lambda a: (a[0].transpose(1, 0, 3, 2), a[1][:, 0].transpose(0, 2, 1)),
        lambda y: y.transpose(1, 0, 3, 2),
    )


def channels_last() -> Case:
    """Depthwise 3×3 on [h, w, c] data with the weights as [c, s, r]."""
    c, h, w = 96, 56, 56
    x, f = placeholder((1, c, h, w), name="x"), placeholder((c, 1, 3, 3), name="f")
    image, mask = placeholder((h, w, c), name="image"), placeholder((c, 3, 3), name="mask")
    framed = compute(
        (h + 2, w + 2, c),
        lambda i, j, z: select(
            (i >= 1) & (i < h + 1) & (j >= 1) & (j < w + 1), image[i - 1, j - 1, z], 0.0
        ),
        name="framed",
    )
    r, s = reduce_axis((0, 3), name="dy"), reduce_axis((0, 3), name="dx")
    own = compute(
        (h, w, c),
        lambda i, j, z: sum(framed[i + r, j + s, z] * mask[z, s, r], axis=(r, s)),
        name="sift",
    )
    return Case(
        "depthwise, channels last",
        built_in("conv", x, f, None, pads=(1, 1, 1, 1), group=c),
        [own],
        (random(1, c, h, w), random(c, 1, 3, 3)),
        lambda a: (a[0][0].transpose(1, 2, 0), a[1][:, 0].transpose(0, 2, 1)),
        lambda y: y.transpose(2, 0, 1)[None],
    )


def batched() -> Case:
    """A batch of products, whose number is the last axis of everything."""
    b, m, n, k = 12, 128, 128, 64
    x, y = placeholder((b, m, k), name="x"), placeholder((b, k, n), name="y")
    u, v = placeholder((k, m, b), name="u"), placeholder((n, k, b), name="v")
    q = reduce_axis((0, k), name="q")
    own = compute((b, m, n), lambda z, i, j: sum(u[q, i, z] * v[j, q, z], axis=q), name="many")
    return Case(
        "batched gemm, transposed",
        built_in("matmul", x, y),
        [own],
        (random(b, m, k), random(b, k, n)),
        lambda a: (a[0].transpose(2, 1, 0), a[1].transpose(2, 1, 0)),
        lambda c: c,
    )


def attention() -> Case:
    """Attention on [position, feature, head] data, keys and values in another order each."""
    heads, n, d = 8, 128, 64
    q, k, v = (placeholder((1, heads, n, d), name=name) for name in "qkv")
    ask = placeholder((n, d, heads), name="ask")
    key = placeholder((n, heads, d), name="key")
    hold = placeholder((heads, n, d), name="hold")
    f, j, p, r = (reduce_axis((0, e), name=a) for a, e in zip("fjpr", (d, n, n, n), strict=True))
    near = compute(
        (heads, n, n),
        lambda h, i, o: sum(ask[i, f, h] * key[o, h, f], axis=f) * (1.0 / d**0.5),
        name="near",
    )
    top = compute((heads, n), lambda h, i: max_over(near[h, i, j], axis=j), name="top")
    lift = compute(near.shape, lambda h, i, o: exp(near[h, i, o] - top[h, i]), name="lift")
    total = compute((heads, n), lambda h, i: sum(lift[h, i, p], axis=p), name="total")
    share = compute(near.shape, lambda h, i, o: lift[h, i, o] / total[h, i], name="share")
    own = compute(
        (n, d, heads), lambda i, e, h: sum(share[h, i, r] * hold[h, r, e], axis=r), name="mix"
    )
    return Case(
        "attention",
        built_in("attention", q, k, v),
        [own],
        tuple(random(1, heads, n, d) for _ in range(3)),
        lambda a: (
            a[0][0].transpose(1, 2, 0),
            a[1][0].transpose(1, 0, 2),
            a[2][0],
        ),
        lambda y: y.transpose(2, 0, 1)[None],
    )


def pooling() -> Case:
    """2×2 max pooling with stride 2 on [h, w, c, n] data."""
    c, h, w = 64, 112, 112
    x = placeholder((1, c, h, w), name="x")
    image = placeholder((h, w, c, 1), name="image")
    r, s = reduce_axis((0, 2), name="dy"), reduce_axis((0, 2), name="dx")
    own = compute(
        (h // 2, w // 2, c, 1),
        lambda i, j, z, b: max_over(image[i * 2 + r, j * 2 + s, z, b], axis=(r, s)),
        name="crest",
    )
    return Case(
        "pooling",
        built_in("max_pool", x, kernel=(2, 2), strides=(2, 2)),
        [own],
        (random(1, c, h, w),),
        lambda a: (a[0].transpose(2, 3, 1, 0),),
        lambda y: y.transpose(3, 2, 0, 1),
    )


def softmax() -> Case:
    """Softmax over the first of two axes instead of the last."""
    m, n = 512, 256
    x, t = placeholder((m, n), name="x"), placeholder((n, m), name="t")
    k = reduce_axis((0, n), name="k")
    top = compute((m,), lambda i: max_over(t[k, i], axis=k), name="top")
    e = compute((n, m), lambda j, i: exp(t[j, i] - top[i]), name="lift")
    q = reduce_axis((0, n), name="q")
    total = compute((m,), lambda i: sum(e[q, i], axis=q), name="total")
    own = compute((n, m), lambda j, i: e[j, i] / total[i], name="share")
    return Case(
        "softmax, first axis",
        built_in("softmax", x),
        [own],
        (random(m, n),),
        lambda a: (a[0].T,),
        lambda y: y.T,
    )


def batch_last() -> Case:
    """A batch of products, whose number is the last axis of everything, results included."""
    b, m, n, k = 16, 64, 64, 64
    x, y = placeholder((b, m, k), name="x"), placeholder((b, k, n), name="y")
    u, v = placeholder((m, k, b), name="u"), placeholder((k, n, b), name="v")
    q = reduce_axis((0, k), name="q")
    own = compute((m, n, b), lambda i, j, z: sum(u[i, q, z] * v[q, j, z], axis=q), name="many")
    return Case(
        "batched gemm, batch last",
        built_in("matmul", x, y),
        [own],
        (random(b, m, k), random(b, k, n)),
        lambda a: (a[0].transpose(1, 2, 0), a[1].transpose(1, 2, 0)),
        lambda c: c.transpose(2, 0, 1),
    )


def groups_last() -> Case:
    """A grouped 3×3 convolution on [h, w, channel of a group, group] data."""
    g, c, k, h, w = 16, 8, 8, 28, 28
    x, f = placeholder((1, g * c, h, w), name="x"), placeholder((g * k, c, 3, 3), name="f")
    image = placeholder((h + 2, w + 2, c, g), name="image")
    mask = placeholder((3, 3, c, k, g), name="mask")
    r, s, z = (reduce_axis((0, e), name=n) for e, n in ((3, "dy"), (3, "dx"), (c, "ch")))
    own = compute(
        (h, w, k, g),
        lambda i, j, o, e: sum(image[i + r, j + s, z, e] * mask[r, s, z, o, e], axis=(r, s, z)),
        name="stir",
    )

    def permuted(a: Arrays) -> Arrays:
        framed = np.pad(a[0][0].reshape(g, c, h, w), ((0, 0), (0, 0), (1, 1), (1, 1)))
        return framed.transpose(2, 3, 1, 0), a[1].reshape(g, k, c, 3, 3).transpose(3, 4, 2, 1, 0)

    return Case(
        "grouped conv, groups last",
        built_in("conv", x, f, None, pads=(1, 1, 1, 1), group=g),
        [own],
        (random(1, g * c, h, w), random(g * k, c, 3, 3, scale=0.1)),
        permuted,
        lambda y: y.transpose(3, 2, 0, 1).reshape(1, g * k, h, w),
    )


def dilated() -> Case:
    """A dilated 3×3 convolution on NHWC data with the weights as [k, r, s, c]."""
    c, k, h, w = 32, 48, 32, 32
    x, f = placeholder((1, c, h, w), name="x"), placeholder((k, c, 3, 3), name="f")
    image, mask = placeholder((h, w, c), name="image"), placeholder((k, 3, 3, c), name="mask")
    r, s, z = (reduce_axis((0, e), name=n) for e, n in ((3, "dy"), (3, "dx"), (c, "ch")))
    own = compute(
        (h - 4, w - 4, k),
        lambda i, j, o: sum(image[i + r * 2, j + s * 2, z] * mask[o, r, s, z], axis=(r, s, z)),
        name="stir",
    )
    return Case(
        "dilated conv",
        built_in("conv", x, f, None, dilations=(2, 2)),
        [own],
        (random(1, c, h, w), random(k, c, 3, 3, scale=0.1)),
        lambda a: (a[0][0].transpose(1, 2, 0), a[1].transpose(0, 2, 3, 1)),
        lambda y: y.transpose(2, 0, 1)[None],
    )


def spread_out() -> Case:
    """A transposed 2×2 convolution with stride 2, on [h, w, c] data with the weights [r, s, k, c]:
    each result has one tap."""
    c, k, h, w = 64, 48, 24, 24
    x, f = placeholder((1, c, h, w), name="x"), placeholder((c, k, 2, 2), name="f")
    image, mask = placeholder((h, w, c), name="image"), placeholder((2, 2, k, c), name="mask")
    z = reduce_axis((0, c), name="ch")
    own = compute(
        (h, 2, w, 2, k),
        lambda i, r, j, s, o: sum(image[i, j, z] * mask[r, s, o, z], axis=z),
        name="sow",
    )
    return Case(
        "transposed conv",
        built_in("conv_transpose", x, f, strides=(2, 2)),
        [own],
        (random(1, c, h, w), random(c, k, 2, 2, scale=0.1)),
        lambda a: (a[0][0].transpose(1, 2, 0), a[1].transpose(2, 3, 1, 0)),
        lambda y: y.transpose(4, 0, 1, 2, 3).reshape(1, k, 2 * h, 2 * w),
    )


def layer_norm() -> Case:
    """LayerNorm over the first of two axes instead of the last."""
    m, n = 512, 256
    x, scale, shift = (placeholder(s, name=i) for s, i in (((m, n), "x"), ((n,), "s"), ((n,), "b")))
    t, gain, off = (placeholder(s, name=i) for s, i in (((n, m), "t"), ((n,), "g"), ((n,), "o")))
    k, q = reduce_axis((0, n), name="k"), reduce_axis((0, n), name="q")
    mean = compute((m,), lambda i: sum(t[k, i], axis=k) / n, name="mid")
    spread = compute(
        (m,), lambda i: sum((t[q, i] - mean[i]) * (t[q, i] - mean[i]), axis=q) / n, name="wide"
    )
    factor = compute((m,), lambda i: 1.0 / sqrt(spread[i] + 1e-5), name="factor")
    own = compute(
        (n, m), lambda j, i: (t[j, i] - mean[i]) * factor[i] * gain[j] + off[j], name="even"
    )
    return Case(
        "layer norm, first axis",
        built_in("layer_norm", x, scale, shift)[:1],
        [own],
        (random(m, n), random(n), random(n)),
        lambda a: (a[0].T, a[1], a[2]),
        lambda y: y.T,
    )


TENSORS: tuple[Callable[[], Case], ...] = (
    gemm,
    batched,
    batch_last,
    conv,
    dilated,
    spread_out,
    groups_last,
    depthwise,
    channels_last,
    pooling,
    softmax,
    layer_norm,
    attention,
    lstm,
    gru,
)
