"""Random tensor programs: a few operations, folds over boxes and triangles, guarded reads."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from weft.ir import build as w
from weft.ir import dtypes
from weft.ir.scalar_expr import apply, select
from weft.ir.tensor_expr import Axis, Program


@st.composite
def programs(draw):
    """A few operations on small tensors, with reads at shifted and mixed indices."""
    sizes = [draw(st.integers(1, 4)) for _ in range(2)]
    pool = [w.placeholder(tuple(sizes), name="x"), w.placeholder((sizes[1],), name="y")]
    for number in range(draw(st.integers(1, 4))):
        rank = draw(st.integers(0, 2))
        shape = tuple(draw(st.integers(0, 4)) for _ in range(rank))
        pool.append(draw(computed(tuple(pool), shape, number)))
    return Program("random", tuple(pool[:2]), tuple(pool[-2:])), sizes


@st.composite
def computed(draw, pool, shape, number):
    if draw(st.integers(0, 4)) == 0:
        source = draw(st.sampled_from(pool))
        if all(isinstance(n, int) for n in source.shape):
            total = int(np.prod(source.shape, dtype=int))
            ways = [(total,), (1, total)] + [(d, total // d) for d in (2, 3) if total % d == 0]
            return w.reshape(source, draw(st.sampled_from(ways)), name=f"op{number}")
    axes = [Axis(f"i{d}", dtypes.int64, w.as_size(0), w.as_size(n)) for d, n in enumerate(shape)]
    value = draw(scalars(pool, tuple(axes), number, 2))
    return w.compute(shape, lambda *i: value, name=f"op{number}")


@st.composite
def scalars(draw, pool, axes, number, depth):
    kind = draw(st.integers(0, 5)) if depth else 0
    if kind <= 1:
        return draw(element(pool, axes))
    if kind == 2:
        low, high = draw(st.integers(0, 1)), draw(st.integers(1, 3))
        k = w.reduce_axis((low, high), name=f"k{len(axes)}_{low}_{high}")
        if axes and draw(st.booleans()):
            k = w.reduce_axis((0, axes[-1] + 1), name=f"{axes[-1].name}_{len(axes)}")
        inner = draw(scalars(pool, (*axes, k), number, depth - 1))
        where = draw(st.sampled_from([None, k > 0]))
        fold = draw(st.sampled_from([w.sum, w.max_over]))
        return fold(apply("min", inner, inner * 0.5), k, where=where)
    left, right = (draw(scalars(pool, axes, number, depth - 1)) for _ in range(2))
    if kind == 3:
        return left - right * 0.5
    if kind == 4:
        return select(left > right, left, right + 1.0)
    condition = (axes[0] % 2).equal(draw(st.integers(0, 1))) if axes else left > 0.0
    return select(condition, left, right)


@st.composite
def element(draw, pool, axes):
    """An element of a tensor, guarded where its indices may be outside."""
    source = draw(st.sampled_from(pool))
    indices, inside = [], []
    for size in source.shape:
        index = w.as_size(draw(st.integers(-1, 2)))
        for axis in axes:
            index = index + axis * draw(st.sampled_from([0, 0, 1, 1, -1, 2]))
        style = draw(st.integers(0, 3))
        if style == 0 and size:
            index = index % size
        elif style == 1 and size:
            index = apply("min", apply("max", index, w.as_size(0)), w.as_size(size - 1))
        else:
            inside += [index >= 0, index < size]
        indices.append(index)
    loaded = source[tuple(indices)]
    return select(w.all_of(inside), loaded, 0.25)
