"""Random nodes that move elements: shapes, parts, indices; and that make tensors of nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import numpy_helper

from tests.end_to_end.random_models import F16, F32, F64, I64, Growing, Refused
from tests.end_to_end.random_operators import makes, number


@makes("Transpose")
def transpose(g: Growing, op_type: str) -> None:
    x = g.tensor(op_type)
    g.add(op_type, x, **g.some(perm=g.rng.permutation(g.values[x].ndim).tolist()))


@makes("Reshape")
def reshape(g: Growing, op_type: str) -> None:
    x = g.tensor(op_type)
    shape = [*g.values[x].shape]
    if len(shape) > 1 and g.chance(0.5):
        k = int(g.rng.integers(len(shape) - 1))
        shape[k : k + 2] = [shape[k] * shape[k + 1]]
    elif len(shape) and shape[-1] > 1:
        d = g.choice(*(d for d in range(1, shape[-1] + 1) if shape[-1] % d == 0))
        shape[-1:] = [shape[-1] // d, d]
    else:
        shape.insert(0, 1)
    k = int(g.rng.integers(len(shape)))
    if g.chance(0.5):
        shape[k] = -1
    elif k < g.values[x].ndim and g.values[x].shape[k] == shape[k] and g.chance(0.5):
        shape[k] = 0
    g.add(op_type, x, shape=shape, **({"allowzero": 1} if g.opset >= 14 and g.chance(0.2) else {}))


@makes("Squeeze", "Unsqueeze")
def squeeze(g: Growing, op_type: str) -> None:
    x = g.tensor(op_type)
    shape = g.values[x].shape
    if op_type == "Squeeze":
        ones = [k - len(shape) * g.chance(0.3) for k, n in enumerate(shape) if n == 1]
        g.add(op_type, x, **g.some(axes=ones[: int(g.rng.integers(0, len(ones) + 1))]))
    else:
        rank = len(shape) + g.choice(1, 2)
        new = g.rng.permutation(rank)[: rank - len(shape)]
        g.add(op_type, x, axes=[int(k) - rank * g.chance(0.3) for k in new])


@makes("Expand", "Tile")
def repeat(g: Growing, op_type: str) -> None:
    x = g.tensor(op_type)
    shape = g.values[x].shape
    if op_type == "Tile":
        g.add(op_type, x, repeats=[0 if g.chance(g.empty) else g.choice(1, 1, 2, 3) for _ in shape])
    else:
        wide = [g.size(7) if n == 1 and g.chance(0.7) else g.choice(1, n) for n in shape]
        g.add(op_type, x, shape=[*g.shape(g.choice(0, 0, 1), 4), *wide])


@makes("Slice")
def slices(g: Growing, op_type: str) -> None:
    """Any start, end and step, some of them far outside."""
    x = g.tensor(op_type, 0, 1)
    axes = g.axes(x, 1)
    limits = [(g.values[x].shape[k] + 2) * g.choice(1, 1, 1, 1000) for k in axes]
    starts = [int(g.rng.integers(-n, n + 1)) for n in limits]
    ends = [int(g.rng.integers(-n, n + 1)) for n in limits]
    steps = [g.choice(1, 1, 2, 3, -1, -2, -1000) for _ in axes]
    if g.opset >= 10:
        g.add(op_type, x, starts=starts, ends=ends, axes=axes, **g.some(steps=steps))
    else:
        g.add(op_type, x, starts=starts, ends=ends, axes=axes)


@makes("Split")
def split(g: Growing, op_type: str) -> None:
    x = g.tensor(op_type, 0, 1)
    axis = g.axis(x)
    size, n = g.values[x].shape[axis], g.choice(1, 2, 3)
    if g.opset >= 18 and g.chance(0.5):
        g.add(op_type, x, outputs=n, axis=axis, num_outputs=n)
    else:
        cuts = sorted(g.integers(0, size, n - 1))
        parts = np.diff([0, *cuts, size]).tolist()
        g.add(op_type, x, outputs=n, axis=axis, split=parts)


@makes("Concat")
def concat(g: Growing, op_type: str) -> None:
    x = g.tensor(op_type, 0, 1)
    axis = g.axis(x)
    parts = [x]
    for _ in range(g.choice(0, 1, 1, 2)):
        shape = [*g.values[x].shape]
        shape[axis] = g.shape(1, 5)[0]
        parts.append(g.choice(x, g.weight(shape, 1, g.values[x].dtype)))
    g.add(op_type, *g.rng.permutation(parts).tolist(), axis=axis)


@makes("Pad")
def pad(g: Growing, op_type: str) -> None:
    """All modes; edges may be cut off."""
    x = g.tensor(op_type, 0, 1)
    shape, dtype = g.values[x].shape, g.values[x].dtype
    mode = g.choice("constant", "edge", "reflect", *(["wrap"] if g.opset >= 19 else []))
    axes = g.axes(x, 1) if g.opset >= 18 and g.chance(0.5) else list(range(len(shape)))
    sizes = [shape[k] for k in axes]
    low = -1 if g.chance(0.3) else 0
    most = 2 if mode == "reflect" else 4
    pads = [int(g.rng.integers(max(low, -(n // 2)), max(1, min(n, most)))) for n in sizes * 2]
    extra: dict[str, Any] = {"axes": axes} if len(axes) < len(shape) or g.chance(0.3) else {}
    if g.opset < 18:
        extra = {}
    if mode == "constant" and g.chance(0.5):
        value = g.array((), dtype)
        extra |= {"constant_value": value} if g.opset >= 11 else {"value": float(value)}
    g.add(op_type, x, pads=pads, **({} if mode == "constant" else {"mode": mode}), **extra)


@makes("CenterCropPad")
def center_crop_pad(g: Growing, op_type: str) -> None:
    x = g.tensor(op_type, 0, 1)
    axes = g.axes(x, 1)
    if g.chance(0.5):
        g.add(op_type, x, shape=[g.size(13) for _ in axes], axes=axes)
    else:
        g.add(op_type, x, shape=[g.size(13) for _ in g.values[x].shape])


@makes("Trilu", "EyeLike")
def triangle(g: Growing, op_type: str) -> None:
    k = g.integers(-4, 4, 1)[0]
    if op_type == "Trilu":
        g.add(op_type, g.tensor(op_type, 0, 2), **g.some(k=np.asarray(k), upper=int(g.chance(0.5))))
    else:
        dtype = number(g.choice(*g.types(op_type)))
        g.add(op_type, g.tensor(op_type, 0, 2, 2), **g.some(k=k, dtype=dtype))


@makes("DepthToSpace", "SpaceToDepth")
def depth(g: Growing, op_type: str) -> None:
    block = g.choice(1, 2, 3)
    n, c, h, w = g.shape(4, 4)
    to_space = op_type == "DepthToSpace"
    shape = (n, c * block**2, h, w) if to_space else (n, c, h * block, w * block)
    dtype = g.choice(*g.types(op_type))
    modes = {"mode": g.choice("DCR", "CRD")} if to_space and g.opset >= 11 else {}
    g.add(op_type, g.input(shape, dtype), blocksize=block, **modes)


def indices(g: Growing, size: int, shape: list[int], negative: bool = True) -> np.ndarray:
    """Numbers of elements along an axis of ``size``, of a random index type."""
    if not size and np.prod(shape):
        raise Refused("nothing to index")
    low = -size if negative and g.opset >= 11 else 0
    return g.rng.integers(low, max(size, 1), shape).astype(g.choice(np.int32, np.int64))


@makes("Gather", "GatherElements")
def gather(g: Growing, op_type: str) -> None:
    x = g.tensor(op_type, 0, 1)
    axis = g.axis(x)
    sizes = g.values[x].shape
    shape = g.shape(g.choice(0, 1, 2), 5)
    if op_type == "GatherElements":
        shape = [int(g.rng.integers(0 if g.empty else min(n, 1), n + 1)) for n in sizes]
        shape[axis] = g.shape(1, 7)[0]
    where = indices(g, sizes[axis], shape)
    g.add(op_type, x, g.fixed(where, where.dtype), axis=axis)


@makes("ScatterElements", "Scatter")
def scatter(g: Growing, op_type: str) -> None:
    """Each index once, unless what goes to the same place is combined."""
    x = g.tensor(op_type, 0, 1)
    sizes, dtype, axis = g.values[x].shape, g.values[x].dtype, g.axis(x)
    if not g.values[x].size:
        raise Refused("nowhere to scatter to")
    shape = [int(g.rng.integers(min(n, 1), n + 1)) for n in sizes]
    reductions = ["add", "mul"] * (g.opset >= 16) + ["max", "min"] * (g.opset >= 18)
    reduction = g.choice(*reductions) if reductions and g.chance(0.5) else "none"
    where = indices(g, sizes[axis], shape)
    if op_type == "Scatter" or reduction == "none":
        reduction = "none"
        order = g.rng.permutation(sizes[axis])[: shape[axis]]
        along = [-1 if k == axis % len(sizes) else 1 for k in range(len(sizes))]
        where = np.broadcast_to(order.reshape(along), shape)
    updates = g.weight(shape, 1, dtype)
    extra = {} if reduction == "none" else {"reduction": reduction}
    g.add(op_type, x, g.fixed(where, I64), updates, axis=axis, **extra)


@makes("GatherND", "ScatterND")
def several(g: Growing, op_type: str) -> None:
    x = g.tensor(op_type, 0, 1)
    sizes, dtype = g.values[x].shape, g.values[x].dtype
    if not g.values[x].size:
        raise Refused("nothing to index")
    depth = int(g.rng.integers(1, len(sizes) + 1))
    if op_type == "GatherND":
        batch = int(g.rng.integers(0, depth)) if g.opset >= 12 and g.chance(0.4) else 0
        outer = [*sizes[:batch], *g.shape(g.choice(0, 1, 2), 4)] or [1]
        parts = [g.rng.integers(-n, n, outer) for n in sizes[batch:depth]]
        extra = {"batch_dims": batch} if batch else {}
        g.add(op_type, x, g.fixed(np.stack(parts, -1), I64), **extra)
    else:
        every = np.stack(
            np.unravel_index(g.rng.permutation(int(np.prod(sizes[:depth]))), sizes[:depth]), -1
        )
        reductions = ["add", "mul"] * (g.opset >= 16) + ["max", "min"] * (g.opset >= 18)
        reduction = g.choice(*reductions) if reductions and g.chance(0.5) else "none"
        count = int(g.rng.integers(1, len(every) + 1))
        chosen = (
            every[:count] if reduction == "none" else every[g.rng.integers(0, len(every), count)]
        )
        updates = g.weight([count, *sizes[depth:]], 1, dtype)
        extra = {} if reduction == "none" else {"reduction": reduction}
        g.add(op_type, x, g.fixed(chosen, I64), updates, **extra)


@makes("TensorScatter")
def tensor_scatter(g: Growing, op_type: str) -> None:
    x = g.tensor(op_type, 0, 2)
    sizes, axis = g.values[x].shape, g.choice(-1, -2)
    if not g.values[x].size or len(sizes) + axis == 0:
        raise Refused("no such axis")
    shape = [*sizes]
    shape[axis] = int(g.rng.integers(1, sizes[axis] + 1))
    mode = g.choice("linear", "circular")
    most = sizes[axis] if mode == "circular" else sizes[axis] - shape[axis] + 1
    starts = g.rng.integers(0, most, sizes[0])
    g.add(op_type, x, g.weight(shape, 1, g.values[x].dtype), axis=axis, mode=mode,
          **g.some(write_indices=starts))  # fmt: skip


@makes("Compress")
def compress(g: Growing, op_type: str) -> None:
    x = g.tensor(op_type, 0, 1)
    axis = g.axis(x)
    flat = g.chance(0.3)
    size = g.values[x].size if flat else g.values[x].shape[axis]
    mask = g.rng.random(int(g.rng.integers(0, size + 1))) < 0.5
    g.add(op_type, x, g.fixed(mask, np.dtype(bool)), **({} if flat else {"axis": axis}))


@makes("OneHot")
def one_hot(g: Growing, op_type: str) -> None:
    dtype = g.choice(*g.types(op_type, 2))
    depth = g.size(7)
    x = g.fixed(
        g.rng.integers(-depth, depth, g.shape(g.choice(1, 2), 5)),
        g.choice(I64, F32, np.dtype(np.int32)),
    )
    g.add(op_type, x, depth=np.asarray(depth), values=g.array((2,), dtype), axis=g.axis(x))


@makes("ReverseSequence")
def reverse_sequence(g: Growing, op_type: str) -> None:
    x = g.tensor(op_type, 0, 2)
    time = g.choice(0, 1)
    lengths = g.rng.integers(1, max(g.values[x].shape[time], 1) + 1, g.values[x].shape[1 - time])
    g.add(op_type, x, sequence_lens=lengths, time_axis=time, batch_axis=1 - time)


@makes("Constant", "ConstantOfShape")
def constant(g: Growing, op_type: str) -> None:
    if op_type == "Constant":
        dtype = g.choice(F32, F64, F16, I64, np.dtype(bool), np.dtype(np.int8))
        value = numpy_helper.from_array(g.array(g.shape(g.choice(0, 1, 2)), dtype))
        g.add(
            op_type,
            **g.choice(
                {"value": value}, {"value_ints": g.integers(-9, 9, 3)}, {"value_float": 0.5}
            ),
        )
    else:
        value = numpy_helper.from_array(g.array((1,), g.choice(F32, F64, F16, I64, np.dtype(bool))))
        g.add(op_type, g.fixed(g.shape(g.choice(0, 1, 3)), I64), **g.some(value=value))


@makes("Range")
def ranges(g: Growing, op_type: str) -> None:
    dtype = g.choice(*g.types(op_type))
    start, end = g.integers(-9, 9, 2)
    step = g.choice(1, 2, 3, -1, -2) if dtype.kind in "iu" else g.choice(0.5, 1.25, -0.25)
    g.add(op_type, *(g.fixed(n, dtype) for n in (start, end, step)))


@makes("TfIdfVectorizer")
def ngrams(g: Growing, op_type: str) -> None:
    dtype = g.choice(I64, np.dtype(np.int32))
    pool = g.integers(0, 4, 3) + g.integers(0, 4, 6)
    g.add(op_type, g.fixed(g.rng.integers(0, 5, [g.size(8) for _ in range(g.choice(1, 2))]), dtype),
          mode=g.choice("TF", "IDF", "TFIDF"), min_gram_length=1, max_gram_length=2,
          max_skip_count=g.choice(0, 1, 2), ngram_counts=[0, 3], ngram_indexes=list(range(6)),
          pool_int64s=pool, **g.some(weights=[0.5, 1.0, 1.5, 2.0, 2.5, 3.0]))  # fmt: skip


@makes("TopK")
def top_k(g: Growing, op_type: str) -> None:
    x = g.tensor(op_type, 0, 1)
    axis = g.axis(x)
    k = g.integers(0, g.values[x].shape[axis], 1)
    flags = {"largest": int(g.chance(0.5))} if g.opset >= 11 else {}
    g.add(op_type, x, outputs=2, axis=axis, **({"K": k} if g.opset >= 10 else {"k": k[0]}), **flags)
