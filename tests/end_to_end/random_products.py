"""Random nodes with sums of products: matrices, attention, recurrent layers, signals; and of the
types that stand for others: quantisation. Losses and optimizers are here, too."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.end_to_end.random_models import F32, I64, Growing
from tests.end_to_end.random_operators import makes, number
from tests.end_to_end.random_types import is_float

I8, U8, I32 = np.dtype(np.int8), np.dtype(np.uint8), np.dtype(np.int32)


def factor(g: Growing, x: str, dtype: np.dtype) -> str:
    """What ``x`` can be multiplied with as a matrix."""
    shape = g.values[x].shape
    batch = [n if g.chance(0.5) else 1 for n in shape[:-2]]
    inner = [shape[-1]] if g.chance(0.15) else [shape[-1], *g.shape(1, 37)]
    batch = batch[int(g.rng.integers(0, len(batch) + 1)) :] if len(inner) == 2 else []
    return g.weight([*batch, *inner], shape[-1], dtype)


@makes("MatMul")
def matmul(g: Growing, op_type: str) -> None:
    x = g.tensor(op_type, 0, 1)
    g.add(op_type, x, factor(g, x, g.values[x].dtype))


@makes("MatMulInteger", "QLinearMatMul")
def integer_matmul(g: Growing, op_type: str) -> None:
    x = g.tensor(op_type, 0, 2, 4, types=[I8, U8])
    kind = g.choice(I8, U8)
    y = factor(g, x, kind)
    zeros = [g.fixed(g.choice(0, 3), g.values[x].dtype), g.fixed(g.choice(0, 2), kind)]
    if op_type == "MatMulInteger":
        g.add(op_type, x, y, *zeros[: g.choice(0, 1, 2)])
    else:
        out = g.fixed(g.choice(0, 3), g.values[x].dtype)
        scales = [g.fixed(g.choice(0.5, 0.25)) for _ in range(3)]
        g.add(op_type, x, scales[0], zeros[0], y, scales[1], zeros[1], scales[2], out)


@makes("Gemm")
def gemm(g: Growing, op_type: str) -> None:
    x = g.tensor(op_type, 0, 2, 2)
    dtype, turned, other = g.values[x].dtype, int(g.chance(0.3)), int(g.chance(0.5))
    m, k = g.values[x].shape[:: -1 if turned else 1]
    (n,) = g.shape(1, 37)
    reads = [x, g.weight((n, k) if other else (k, n), k, dtype)]
    if g.chance(0.7):
        reads.append(g.weight(g.choice((n,), (m, n), (m, 1), (1, n), (1,), ()), 1, dtype))
    floats = {"alpha": 0.5, "beta": -1.5} if is_float(dtype) else {"alpha": 2.0, "beta": 3.0}
    g.add(op_type, *reads, transA=turned, transB=other, **g.some(**floats))


EQUATIONS = (
    "ij,jk->ik", "ij,jk", "ii->i", "ii", "ijk->kji", "ij->", "i,j->ij", "ij,ij->", "...j,jk->...k",
    "ij,kj->ki", "i...->...", "ijk,ij,k->ik", "i,i,i->",
)  # fmt: skip


@makes("Einsum")
def einsum(g: Growing, op_type: str) -> None:
    i, j, k = g.shape(3, 11)
    sizes, dtype = {"i": i, "j": j, "k": k}, g.choice(*g.types(op_type))
    equation = g.choice(*EQUATIONS)
    parts = equation.split("->")[0].split(",")
    shapes = [[sizes[c] for c in part.replace("...", "i")] for part in parts]
    g.add(op_type, *(g.weight(shape, 4, dtype) for shape in shapes), equation=equation)


@makes("FlexAttention", domain="ai.onnx.preview")
@makes("Attention")
def attention(g: Growing, op_type: str) -> None:
    domain = "ai.onnx.preview" if op_type == "FlexAttention" else ""
    batch, kv, shared, q_length, length, size = g.shape(6, 4)
    (v_size,) = g.shape(1, 5)
    dtype = g.choice(F32, *g.types(op_type, 0, domain))
    heads = kv * shared
    flags: dict[str, Any] = g.some(scale=0.5)
    shapes = [
        (batch, heads, q_length, size),
        (batch, kv, length, size),
        (batch, kv, length, v_size),
    ]
    if not domain and g.chance(0.4):
        shapes = [(b, n, h * d) for b, h, n, d in shapes]
        flags |= {"q_num_heads": heads, "kv_num_heads": kv}
    reads = [g.weight(shape, 1, dtype) for shape in shapes]
    if domain:
        g.add(op_type, *reads, domain=domain, **flags)
        return
    past = length if g.chance(0.3) else 0
    if g.chance(0.5):
        mask = [q_length, length + past]
        mask = g.choice(mask, [1, 1, *mask], [batch, heads, *mask], [batch, 1, *mask])
        reads.append(g.weight(mask, 1, g.choice(dtype, np.dtype(bool))))
    if past:
        reads += [""] * (4 - len(reads))
        reads += [g.weight((batch, kv, past, d), 1, dtype) for d in (size, v_size)]
    flags |= g.some(is_causal=int(g.chance(0.5)), softcap=g.choice(0.0, 2.0))
    outputs = g.choice(1, 3, 4) if past else g.choice(1, 1, 4)
    flags |= {"qk_matmul_output_mode": g.choice(0, 1, 2, 3)} if outputs == 4 else {}
    g.add(op_type, *reads, outputs=outputs, **flags)


@makes("LinearAttention")
def linear_attention(g: Growing, op_type: str) -> None:
    batch, length, kv, shared, size, v_size = g.shape(6, 4)
    rule = g.choice("linear", "gated", "delta", "gated_delta")
    dtype = g.choice(*g.types(op_type))
    shapes = [(batch, length, n) for n in (kv * shared * size, kv * size, kv * v_size)]
    reads = [g.weight(shape, size, dtype) for shape in shapes]
    reads.append(g.weight((batch, kv, size, v_size), 4, dtype) if g.chance(0.5) else "")
    gate = (batch, length, kv * g.choice(1, size))
    reads.append(g.fixed(-g.rng.random(gate), dtype) if "gated" in rule else "")
    reads.append(
        g.fixed(g.rng.random((batch, length, g.choice(1, kv))), dtype) if "delta" in rule else ""
    )
    g.add(op_type, *reads, outputs=2, q_num_heads=kv * shared, kv_num_heads=kv, update_rule=rule)


@makes("CausalConvWithState")
def causal_conv(g: Growing, op_type: str) -> None:
    x = g.tensor(op_type, 0, 3, 3)
    (batch, channels, _), dtype, taps = g.values[x].shape, g.values[x].dtype, g.choice(2, 3, 4)
    reads = [x, g.weight((channels, 1, taps), taps, dtype)]
    reads.append(g.weight((channels,), 1, dtype) if g.chance(0.5) else "")
    reads.append(g.weight((batch, channels, taps - 1), 1, dtype) if g.chance(0.5) else "")
    g.add(op_type, *reads, outputs=2, **g.some(activation=g.choice("silu", "swish", "none")))


@makes("RotaryEmbedding")
def rotary(g: Growing, op_type: str) -> None:
    batch, heads, length, half = g.shape(4, 4)
    extra = g.choice(0, 0, 2)
    dtype, size, rows = g.choice(*g.types(op_type)), 2 * half + extra, length + 2
    ids = g.chance(0.5)
    tables = [g.weight((rows, half) if ids else (batch, length, half), 1, dtype) for _ in range(2)]
    if ids:
        tables.append(g.fixed(g.rng.integers(0, rows, (batch, length)), I64))
    flat = g.chance(0.5)
    x = g.weight((batch, length, heads * size) if flat else (batch, heads, length, size), 1, dtype)
    flags: dict[str, Any] = {"num_heads": heads} if flat else {}
    flags |= {"rotary_embedding_dim": 2 * half} if extra else {}
    g.add(op_type, x, *tables, **flags, **g.some(interleaved=int(g.chance(0.5))))


@makes("RNN", "GRU", "LSTM")
def recurrent(g: Growing, op_type: str) -> None:
    length, batch, width = g.shape(3, 5)
    hidden, gates = g.size(5), {"RNN": 1, "GRU": 3, "LSTM": 4}[op_type]
    dtype = g.choice(F32, *g.types(op_type))
    direction = g.choice("forward", "reverse", "bidirectional")
    n = 2 if direction == "bidirectional" else 1
    layout = int(g.opset >= 14 and g.chance(0.2))
    x = g.weight((batch, length, width) if layout else (length, batch, width), 1, dtype)
    state = (batch, n, hidden) if layout else (n, batch, hidden)
    reads = [x, g.weight((n, gates * hidden, width), width, dtype)]
    reads.append(g.weight((n, gates * hidden, hidden), hidden, dtype))
    reads.append(g.weight((n, 2 * gates * hidden), 1, dtype) if g.chance(0.7) else "")
    reads.append(
        g.fixed(g.rng.integers(1, length + 1, batch), I32) if length and g.chance(0.3) else ""
    )
    reads.append(g.weight(state, 1, dtype) if g.chance(0.4) else "")
    if op_type == "LSTM":
        reads.append(g.weight(state, 1, dtype) if g.chance(0.4) else "")
        reads.append(g.weight((n, 3 * hidden), 1, dtype) if g.chance(0.3) else "")
    flags: dict[str, Any] = g.some(clip=0.7) if g.chance(0.3) else {}
    if op_type == "GRU" and g.chance(0.5):
        flags["linear_before_reset"] = 1
    if op_type == "LSTM" and g.chance(0.3):
        flags["input_forget"] = 1
    if g.chance(0.3):
        count = {"RNN": 1, "GRU": 2, "LSTM": 3}[op_type] * n
        names = (
            "Relu",
            "Tanh",
            "Sigmoid",
            "Softsign",
            "Softplus",
            "HardSigmoid",
            "Elu",
            "LeakyRelu",
        )
        flags["activations"] = [g.choice(*names) for _ in range(count)]
    while reads[-1] == "":
        reads.pop()
    g.add(op_type, *reads, outputs=3 if op_type == "LSTM" else 2, hidden_size=hidden,
          direction=direction, **({"layout": 1} if layout else {}), **flags)  # fmt: skip


@makes("DFT", "STFT")
def fourier(g: Growing, op_type: str) -> None:
    dtype = g.choice(*g.types(op_type))
    if op_type == "STFT":
        length, frame = g.size(37) + 8, g.choice(4, 5, 8)
        x = g.weight((g.size(3), length, 1), 1, dtype)
        window = {"window": g.array((frame,), dtype)} if g.chance(0.5) else {}
        extra = {} if window and g.chance(0.5) else {"frame_length": np.asarray(frame)}
        step = np.asarray(g.choice(1, 2, 3))
        g.add(op_type, x, frame_step=step, **window, **extra, **g.some(onesided=int(g.chance(0.5))))
        return
    inverse, onesided = (int(g.chance(0.4)) for _ in range(2))
    parts = 2 if inverse and onesided else g.choice(1, 2 - onesided)
    x = g.weight([*(g.size(8) for _ in range(g.choice(2, 3))), parts], 1, dtype)
    axis = int(g.rng.integers(0, g.values[x].ndim - 1))
    place = {"axis": np.asarray(axis)} if g.opset >= 20 else {"axis": axis}
    g.add(op_type, x, inverse=inverse, onesided=onesided, **place,
          **({"dft_length": np.asarray(g.size(11))} if g.chance(0.4) else {}))  # fmt: skip


@makes("HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix")
def windows(g: Growing, op_type: str) -> None:
    output = g.some(output_datatype=number(g.choice(F32, np.dtype(np.float64))))
    if op_type == "MelWeightMatrix":
        sizes = [g.fixed(n, I64) for n in (g.size(8), g.choice(16, 32), 8192)]
        g.add(op_type, *sizes, g.fixed(g.choice(0, 300)), g.fixed(g.choice(2000, 4000)), **output)
    else:
        g.add(op_type, g.fixed(g.size(16), I64), **output, **g.some(periodic=int(g.chance(0.5))))


@makes("QuantizeLinear", "DequantizeLinear")
def linear_quantisation(g: Growing, op_type: str) -> None:
    """Scales for all, an axis or blocks; powers of two, so that rounding has one answer."""
    quantize = op_type == "QuantizeLinear"
    x = g.tensor(op_type, 0, 1, 4)
    shape, axis = list(g.values[x].shape), g.axis(x)
    flags: dict[str, Any] = {}
    scales: list[int] = []
    if g.opset >= 13 and g.chance(0.6):
        scales, flags = [shape[axis]], {"axis": axis}
        if g.opset >= 21 and g.chance(0.4):
            block = g.choice(2, 3)
            scales = [*shape]
            scales[axis] = -(-shape[axis] // block)
            flags["block_size"] = block
    kinds = [d for d in g.types(op_type, 1) if is_float(d) and "8_e8" not in d.name]
    if not quantize and g.values[x].dtype == I32:
        flags_zero = False
    else:
        flags_zero = g.chance(0.7)
    kind = g.choice(F32, *(k for k in kinds if not quantize or k == g.values[x].dtype))
    scale = g.fixed(2.0 ** g.rng.integers(-4, 2, scales), kind)
    narrow = g.choice(*g.types(op_type, 2)) if quantize else g.values[x].dtype
    zero = g.array(scales, narrow) if not is_float(narrow) else np.zeros(scales, narrow)
    reads = [x, scale, *([g.fixed(zero, narrow)] if flags_zero else [])]
    g.add(op_type, *reads, **flags)


@makes("DynamicQuantizeLinear")
def dynamic_quantisation(g: Growing, op_type: str) -> None:
    g.add(op_type, g.tensor(op_type), outputs=3)


@makes("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(g: Growing, op_type: str) -> None:
    shape = g.shape(g.choice(2, 3, 4), 5)
    dtype = g.choice(*g.types(op_type))
    x = g.weight(shape, 1, dtype)
    labels = g.rng.integers(0, max(shape[1], 1), [shape[0], *shape[2:]])
    reads = [x, g.fixed(labels, g.choice(I64, I32))]
    if g.chance(0.4):
        reads.append(g.fixed(g.rng.random(shape[1]) + 0.5, dtype))
    several = {"outputs": 2} if op_type == "SoftmaxCrossEntropyLoss" and g.chance(0.5) else {}
    flags = g.some(reduction=g.choice("none", "mean", "sum"), ignore_index=g.choice(0, 1, -1))
    g.add(op_type, *reads, **several, **flags)


@makes("Adagrad", "Adam", "Momentum", domain="ai.onnx.preview.training")
def optimizer(g: Growing, op_type: str) -> None:
    dtype, count = g.choice(F32, np.dtype(np.float64)), g.choice(1, 2)
    shapes = [g.shape(2, 5) for _ in range(count)]
    states = 2 if op_type == "Adam" else 1
    reads = [g.fixed(0.1, F32), g.fixed(g.choice(0, 1, 5), I64)]
    reads += [g.weight(shape, 1, dtype) for _ in range(2) for shape in shapes]
    reads += [g.fixed(g.rng.random(shape), dtype) for _ in range(states) for shape in shapes]
    norm = {"norm_coefficient": 0.01}
    flags = {
        "Adagrad": g.some(decay_factor=0.1, epsilon=0.01, **norm),
        "Adam": g.some(alpha=0.8, beta=0.9, epsilon=0.01, norm_coefficient_post=0.01, **norm),
        "Momentum": {"alpha": 0.9, "beta": 0.5, "mode": g.choice("standard", "nesterov"), **norm},
    }[op_type]
    g.add(op_type, *reads, outputs=count * (1 + states), domain="ai.onnx.preview.training", **flags)


@makes("NonMaxSuppression")
def suppression(g: Growing, op_type: str) -> None:
    batch, classes, boxes = g.shape(3, 5)
    corners = np.sort(g.rng.random((batch, boxes, 2, 2)), 2).reshape(batch, boxes, 4)
    reads = [g.fixed(corners), g.weight((batch, classes, boxes))]
    limits = {"max_output_boxes_per_class": np.asarray([g.choice(1, 3)])}
    limits |= g.some(
        iou_threshold=np.asarray([0.4], np.float32), score_threshold=np.asarray([0.1], np.float32)
    )
    g.add(op_type, *reads, **limits, **g.some(center_point_box=int(g.chance(0.5))))
