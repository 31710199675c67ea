"""Random tensors as expressions: the same seed gives the same tensor, on every machine and call.

Without a seed, numbers come from a counter-based generator (Widynski, "Squares", 2020), in which
every element is computed on its own. With one, uniform numbers are those of NumPy's ``RandomState``
(MT19937, Matsumoto and Nishimura, 1998), which ONNX's reference uses: a recurrence like any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from weft.frontend.operators.registry import operator
from weft.frontend.operators.sizes import total_size
from weft.ir import dtypes
from weft.ir.build import argmax, compute, computes, cos, log, reduce_axis, scan, sqrt
from weft.ir.dtypes import DType
from weft.ir.scalar_expr import Expr, literal, select
from weft.ir.tensor_expr import Size, Tensor, as_size

Shape = Sequence[Size]


def _flat(shape: Shape, indices: Sequence[Expr]) -> Expr:
    """The row-major position of ``indices``."""
    position: Expr = literal(0)
    for size, index in zip(shape, indices, strict=True):
        position = position * as_size(size) + index
    return position


def _squares(counter: Expr, stream: int) -> Expr:
    """32 random bits (in a uint64) from ``counter`` and the key of ``stream``."""
    key = literal(stream * 0x9E3779B97F4A7C15 + 0x548C9DECBCE65297 | 1, dtypes.uint64)
    y = counter.astype(dtypes.uint64) * key
    z = y + key
    x = y
    for addend in (y, z, y):
        x = x * x + addend
        x = (x >> 32) | (x << 32)
    return (x * x + z) >> 32


def _counted(position: Expr, stream: int) -> Expr:
    """A float64 in [0, 1) with 32 random bits."""
    return _squares(position, stream).astype(dtypes.float64) * 2.0**-32


def _twister(seed: int, length: Expr) -> Tensor:
    """(624 + length,) uint32: the state of MT19937 from ``seed`` on, before tempering."""

    def state(itself: Callable[..., Expr], i: Expr) -> tuple[Expr]:
        last = itself(0, i - 1)
        filled = (last ^ (last >> 30)) * 1812433253 + i.astype(dtypes.uint32)
        joined = (itself(0, i - 624) & 0x80000000) | (itself(0, i - 623) & 0x7FFFFFFF)
        twisted = itself(0, i - 227) ^ (joined >> 1) ^ ((joined & 1) * 0x9908B0DF)
        later = select(i < 624, filled, twisted)
        return (select(i.equal(0), literal(seed, dtypes.uint32), later),)

    return scan((length + 624,), state, dtypes_=(dtypes.uint32,), name="mt19937")[0]


def _tempered(word: Expr) -> Expr:
    word = word ^ (word >> 11)
    word = word ^ ((word << 7) & 0x9D2C5680)
    word = word ^ ((word << 15) & 0xEFC60000)
    return word ^ (word >> 18)


def uniform01(shape: Shape, seed: int | None, stream: int) -> Callable[..., Expr]:
    """A function of indices into ``shape`` that gives a float64 uniform in [0, 1)."""
    if seed is None:
        return lambda *i: _counted(_flat(shape, i), stream)
    words = _twister(seed, total_size(shape) * 2)

    def element(*i: Expr) -> Expr:
        first = _flat(shape, i) * 2 + 624
        high, low = _tempered(words[first]) >> 5, _tempered(words[first + 1]) >> 6
        real = high.astype(dtypes.float64) * 67108864 + low.astype(dtypes.float64)
        return real * 2.0**-53

    return element


@operator("random_uniform")
def random_uniform(
    like: Tensor | None = None, *, shape: Shape = (), low: float = 0.0, high: float = 1.0,
    dtype: DType = dtypes.float32, seed: int | None = None, stream: int = 0,
) -> Tensor:  # fmt: skip
    """Uniform numbers in [low, high), of ``shape`` or that of ``like``."""
    sizes = shape if like is None else like.shape
    draw = uniform01(sizes, seed, stream)
    return compute(
        sizes, lambda *i: (draw(*i) * (high - low) + low).astype(dtype), name="random_uniform"
    )


@operator("random_normal")
def random_normal(
    like: Tensor | None = None, *, shape: Shape = (), mean: float = 0.0, scale: float = 1.0,
    dtype: DType = dtypes.float32, stream: int = 0,
) -> Tensor:  # fmt: skip
    """Normal numbers by Box and Muller's method, of ``shape`` or that of ``like``."""
    sizes = shape if like is None else like.shape

    def body(*i: Expr) -> Expr:
        position = _flat(sizes, i) * 2
        radius = sqrt(log(_counted(position, stream) + 2.0**-33) * -2)
        angle = _counted(position + 1, stream) * (2 * math.pi)
        return (radius * cos(angle) * scale + mean).astype(dtype)

    return compute(sizes, body, name="random_normal")


@operator("bernoulli")
def bernoulli(x: Tensor, *, dtype: DType, seed: int | None = None, stream: int = 0) -> Tensor:
    """1 with probability ``x``, else 0."""
    draw = uniform01(x.shape, seed, stream)
    return compute(
        x.shape,
        lambda *i: (draw(*i) < x[i].astype(dtypes.float64)).astype(dtype),
        name="bernoulli",
    )


@operator("multinomial")
def multinomial(x: Tensor, *, samples: int, dtype: DType, stream: int = 0) -> Tensor:
    """(batch, samples) classes drawn from unnormalised log-probabilities ``x`` (batch, classes).

    The greatest of the log-probabilities plus Gumbel noise falls on a class with its probability.
    """
    batch, classes = x.shape
    shape = (batch, samples, classes)

    def body(b: Expr, s: Expr) -> Expr:
        c = reduce_axis((0, classes), name="c")
        noise = _counted(_flat(shape, (b, s, c)), stream) + 2.0**-33
        score = x[b, c].astype(dtypes.float64) - log(-log(noise))
        return argmax(score, c, c).astype(dtype)

    return compute((batch, samples), body, name="multinomial")


@operator("dropout")
def dropout(
    x: Tensor, *, ratio: float, seed: int | None = None, stream: int = 0
) -> tuple[Tensor, ...]:
    """(y, mask): ``x`` / (1 - ratio) where a uniform number is at least ``ratio``, else 0."""
    draw = uniform01(x.shape, seed, stream)
    scale = 1 / (1 - ratio) if ratio < 1 else 0.0

    def body(*i: Expr) -> tuple[Expr, Expr]:
        kept = draw(*i) >= ratio
        return select(kept, x[i] * scale, 0), kept

    return computes(x.shape, body, name="dropout")


@operator("fill_like")
def fill_like(x: Tensor, *, value: float, dtype: DType) -> Tensor:
    """A tensor of the shape of ``x`` that holds ``value`` everywhere."""
    return compute(x.shape, lambda *i: literal(value, dtype), name="fill_like")
