"""Random work for accelerators: what is computed, its inputs, and the result as NumPy has it.

Convolutions, transposed ones, products, pools and sums of tensors, in small integers, with what
follows them in quantised models. References know nothing of the expressions: they add one tap of
the kernel after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from random import Random
from typing import Any

import numpy as np

from weft.frontend.operators.conv import convolve, kernel_window
from weft.frontend.operators.conv_transpose import conv_transpose
from weft.frontend.operators.pool import max_pool
from weft.ir.build import compute, maximum, minimum, placeholder, reduce_axis, sum
from weft.ir.dtypes import DType, i8, i32
from weft.ir.scalar_expr import Expr, cast, literal
from weft.ir.tensor_expr import Program, Tensor

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

CHANNELS = (1, 3, 5, 8, 15, 16, 17, 20, 31, 32, 33, 48)
EDGES = (1, 2, 3, 7, 15, 16, 17, 31, 33, 50, 64, 113)  # one off blocks, and primes
MOST = 400_000  # products of one case


@dataclass(frozen=True, slots=True)
class Case:
    """``constants``: names of inputs whose data are known when it is compiled."""

    text: str
    program: Program
    inputs: dict[str, Array]
    constants: tuple[str, ...]
    expected: Array


@dataclass(frozen=True, slots=True)
class After:
    """What becomes of sums: ((sums + bias, rounded) >> shift) + (another tensor << or >> its own
    shift), >> again, clipped to 8 bits or to fewer values; or 32 bits as they are."""

    bias: bool
    rounds: bool  # halves up
    even: bool  # halves to even, where it does not round up
    shift: int
    other: bool
    other_shift: int
    again: int
    low: int
    high: int
    wide: bool

    def expression(self, value: Expr, bias: Expr | None, other: Expr | None) -> Expr:
        if bias is not None:
            value = value + bias
        if self.rounds and self.shift:
            value = value + literal(1 << (self.shift - 1), i32)
        elif self.even and self.shift:  # the last bit that is kept decides: -1 where it is 0
            bit = ((value >> self.shift) + literal(1, i32)) << 31 >> 31
            value = value + literal(1 << (self.shift - 1), i32) + bit
        if self.shift:
            value = value >> self.shift
        if other is not None:
            own = cast(other, i32)
            if self.other_shift:
                own = own << self.other_shift if self.other_shift > 0 else own >> -self.other_shift
            value = value + own
        if self.again:
            value = value >> self.again
        if self.wide:
            return value
        low, high = literal(self.low, i32), literal(self.high, i32)
        return cast(minimum(maximum(value, low), high), i8)

    def expected(self, value: Array, bias: Array | None, other: Array | None) -> Array:
        """In 32 bits, which wrap."""
        with np.errstate(over="ignore"):
            value = value.astype(np.int32)
            if bias is not None:
                value = value + bias.reshape(-1, *[1] * (value.ndim - 2))
            if self.rounds and self.shift:
                value = value + np.int32(1 << (self.shift - 1))
            elif self.even and self.shift:
                scaled = np.rint(value.astype(np.float64) / 2.0**self.shift)
                value = scaled.astype(np.int32) << self.shift
            value = value >> self.shift
            if other is not None:
                own = other.astype(np.int32)
                value = value + (
                    own << self.other_shift if self.other_shift > 0 else own >> -self.other_shift
                )
            value = value >> self.again
        if self.wide:
            return value
        return np.clip(value, self.low, self.high).astype(np.int8)


def random_after(pick: Random) -> After:
    wide = pick.random() < 0.2
    return After(
        bias=pick.random() < 0.6,
        rounds=pick.random() < 0.5,
        even=pick.random() < 0.5,
        shift=0 if wide and pick.random() < 0.5 else pick.choice((0, 1, 5, 7, 9, 12, 16)),
        other=pick.random() < 0.35,
        other_shift=pick.choice((0, 0, 1, 3, -1, -2)),
        again=pick.choice((0, 0, 0, 1, 3)),
        low=pick.choice((-128, -127, 0, -5)),
        high=pick.choice((127, 127, 6, 64)),
        wide=wide,
    )


def random_case(seed: int) -> Case:
    """Case ``seed``: the same every time."""
    pick = Random(f"offload {seed}")
    make = pick.choices(
        (_convolution, _transposed, _product, _pool, _elementwise), (10, 3, 6, 2, 2)
    )[0]
    return _Maker(pick, np.random.default_rng(seed)).made(make)


class _Maker:
    def __init__(self, pick: Random, numbers: np.random.Generator) -> None:
        self.pick, self.numbers = pick, numbers
        self.tensors: list[Tensor] = []
        self.data: dict[str, Array] = {}
        self.constants: list[str] = []

    def made(self, make: Callable[[_Maker], tuple[str, Tensor, Array]]) -> Case:
        text, result, expected = make(self)
        program = Program("offloaded", tuple(self.tensors), (result,))
        return Case(text, program, self.data, tuple(self.constants), expected)

    def tensor(
        self, name: str, shape: Sizes, dtype: DType = i8, known: float = 0.0, most: int = 100_000
    ) -> tuple[Tensor, Array]:
        """One more input; a constant with probability ``known``."""
        low, high = (-128, 128) if dtype == i8 else (-most, most)
        tensor = placeholder(shape, dtype, name=name)
        self.tensors.append(tensor)
        self.data[name] = self.numbers.integers(low, high, shape).astype(dtype.numpy)
        if self.pick.random() < known:
            self.constants.append(name)
        return tensor, self.data[name]

    def finished(self, sums: Tensor, exact: Array, channels: int) -> tuple[str, Tensor, Array]:
        """``sums``, which have ``channels`` along axis 1 (0: no bias), and what follows them."""
        after = random_after(self.pick)
        bias = bias_data = other = other_data = None
        if after.bias and channels:
            wraps = self.pick.random() < 0.1 and not after.even
            most = (1 << 31) - 1 if wraps else 100_000
            bias, bias_data = self.tensor("bias", (channels,), i32, 0.7, most)
        if after.other:
            other, other_data = self.tensor("other", exact.shape)

        def body(*index: Any) -> Expr:
            return after.expression(
                sums[index],
                None if bias is None else bias[index[1]],
                None if other is None else other[index],
            )

        plain = After(False, False, False, 0, False, 0, 0, 0, 0, True)
        if after.wide and bias is None and other is None and not after.shift and not after.again:
            return str(plain), sums, exact.astype(np.int32)  # the sums themselves
        expected = after.expected(exact, bias_data, other_data)
        return str(after), compute(exact.shape, body, name="y"), expected


# ---- sums over windows --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Window:
    kernel: Sizes
    strides: Sizes
    dilations: Sizes
    before: Sizes
    after: Sizes

    def outputs(self, sizes: Sizes) -> Sizes:
        return tuple(
            (n + b + a - d * (k - 1) - 1) // s + 1
            for n, k, s, d, b, a in zip(
                sizes, self.kernel, self.strides, self.dilations, self.before, self.after,
                strict=True,
            )
        )  # fmt: skip

    def taps(self, x: Array, value: int) -> Iterator[tuple[Sizes, Array]]:
        """What each tap of the kernel reads of ``x`` (n, c, spatial…), ``value`` around it."""
        outputs = self.outputs(x.shape[2:])
        pads = [(0, 0), (0, 0), *zip(self.before, self.after, strict=True)]
        whole = np.pad(x, pads, constant_values=value)
        for tap in np.ndindex(*self.kernel):
            at = tuple(
                slice(t * d, t * d + s * (n - 1) + 1, s)
                for t, d, s, n in zip(tap, self.dilations, self.strides, outputs, strict=True)
            )
            yield tap, whole[(slice(None), slice(None), *at)]


def _window(pick: Random, sizes: Sizes, strides: Sequence[int] = (1, 1, 2, 3)) -> Window:
    """One that has results."""
    while True:
        rank = len(sizes)
        kernel = tuple(pick.choice((1, 1, 2, 3, 3, 5)) for _ in sizes)
        dilation = pick.choice((1, 1, 1, 2, 3))
        window = Window(
            kernel,
            tuple(pick.choice(strides) for _ in sizes),
            (dilation,) * rank,
            tuple(pick.randint(0, k - 1) for k in kernel),
            tuple(pick.randint(0, k - 1) for k in kernel),
        )
        if all(n > 0 for n in window.outputs(sizes)):
            return window


def _spatial(pick: Random) -> Sizes:
    rank = pick.choices((1, 2, 3), (2, 10, 1))[0]
    return tuple(pick.randint(1, (40, 20, 6)[rank - 1]) for _ in range(rank))


def _channels(pick: Random) -> tuple[int, int, int]:
    """Channels, filters, groups."""
    kind = pick.random()
    if kind < 0.65:
        return pick.choice(CHANNELS), pick.choice(CHANNELS), 1
    if kind < 0.85:  # depthwise, with several filters for a channel at times
        groups = pick.choice(CHANNELS)
        return groups, groups * pick.choice((1, 1, 1, 2)), groups
    groups = pick.choice((2, 3, 4))
    return groups * pick.choice((1, 4, 5, 8, 16)), groups * pick.choice((1, 4, 6, 16)), groups


def _convolution(maker: _Maker) -> tuple[str, Tensor, Array]:
    pick = maker.pick
    while True:
        images, sizes = pick.choice((1, 1, 2, 3)), _spatial(pick)
        channels, filters, groups = _channels(pick)
        window = _window(pick, sizes)
        points = images * prod(window.outputs(sizes)) * prod(window.kernel)
        if points * filters * channels // groups <= MOST:
            break
    x, x_data = maker.tensor("x", (images, channels, *sizes))
    w, w_data = maker.tensor("w", (filters, channels // groups, *window.kernel), known=0.8)
    pads = (*window.before, *window.after)
    sums = convolve(x, w, kernel_window(x, w, window.strides, pads, window.dilations), groups)
    exact = np.zeros((images, filters, *window.outputs(sizes)), np.int64)
    for tap, part in window.taps(x_data.astype(np.int64), 0):
        exact += _products(part, w_data[(slice(None), slice(None), *tap)], groups)
    text = f"convolution of {x_data.shape} by {w_data.shape} in {groups} groups, {window}"
    after, y, expected = maker.finished(sums, exact, filters)
    return f"{text}, {after}", y, expected


def _products(x: Array, w: Array, groups: int) -> Array:
    """Σ_c x[n, g, c, …] · w[g, k, c]."""
    split = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    weights = w.astype(np.int64).reshape(groups, -1, w.shape[1])
    found = np.einsum("ngc...,gkc->ngk...", split, weights)
    return found.reshape(x.shape[0], w.shape[0], *x.shape[2:])


def _transposed(maker: _Maker) -> tuple[str, Tensor, Array]:
    pick = maker.pick
    while True:
        images, sizes = pick.choice((1, 1, 2)), _spatial(pick)
        channels, filters, groups = _channels(pick)
        kernel = tuple(pick.choice((1, 2, 3, 4)) for _ in sizes)
        strides = tuple(pick.choice((1, 2, 2, 3)) for _ in sizes)
        before = tuple(pick.randint(0, k - 1) for k in kernel)
        after = tuple(pick.randint(0, k - 1) for k in kernel)
        extra = tuple(pick.randint(0, s - 1) for s in strides)
        outputs = tuple(
            s * (n - 1) + e + k - b - a
            for n, k, s, b, a, e in zip(sizes, kernel, strides, before, after, extra, strict=True)
        )
        work = images * prod(sizes) * prod(kernel) * filters * channels // groups
        if min(outputs) > 0 and work <= MOST:
            break
    x, x_data = maker.tensor("x", (images, channels, *sizes))
    w, w_data = maker.tensor("w", (channels, filters // groups, *kernel), known=0.8)
    wide = [compute(t.shape, lambda *i, t=t: cast(t[i], i32), name=f"{t.name}_wide")
            for t in (x, w)]  # fmt: skip
    sums = conv_transpose(
        *wide, strides=strides, pads=(*before, *after), output_padding=extra, group=groups
    )
    # Every element of x is spread over the results; these are cut out of all that.
    full = tuple(b + n + a for b, n, a in zip(before, outputs, after, strict=True))
    spread = np.zeros((images, filters, *full), np.int64)
    by_filter = w_data.reshape(groups, channels // groups, filters // groups, *kernel)
    by_filter = by_filter.swapaxes(1, 2).reshape(filters, channels // groups, *kernel)
    for tap in np.ndindex(*kernel):
        at = tuple(slice(t, t + s * (n - 1) + 1, s) for t, s, n in zip(tap, strides, sizes,
                                                                       strict=True))  # fmt: skip
        part = _products(x_data.astype(np.int64), by_filter[(slice(None), slice(None), *tap)],
                         groups)  # fmt: skip
        spread[(slice(None), slice(None), *at)] += part
    cut = tuple(slice(b, b + n) for b, n in zip(before, outputs, strict=True))
    exact = spread[(slice(None), slice(None), *cut)]
    text = (
        f"transposed convolution of {x_data.shape} by {w_data.shape} in {groups} groups, strides "
        f"{strides}, pads {before} {after}, output padding {extra}"
    )
    after_text, y, expected = maker.finished(sums, exact, filters)
    return f"{text}, {after_text}", y, expected


# ---- products -----------------------------------------------------------------------------------


def _product(maker: _Maker) -> tuple[str, Tensor, Array]:
    """Matrices, either of them transposed, or a batch of them."""
    pick = maker.pick
    while True:
        m, n, k = (pick.choice(EDGES) for _ in range(3))
        if m * n * k <= MOST:
            break
    batch: Sizes = (pick.choice((1, 2, 5)),) if pick.random() < 0.25 else ()
    turned = pick.random() < 0.3, pick.random() < 0.5
    shared = bool(batch) and pick.random() < 0.5  # one right side for all
    right_batch = () if shared else batch
    x, x_data = maker.tensor("x", (*batch, *((k, m) if turned[0] else (m, k))))
    w, w_data = maker.tensor("w", (*right_batch, *((n, k) if turned[1] else (k, n))), known=0.6)
    axis = reduce_axis((0, k), name="k")

    def body(*index: Any) -> Expr:
        *b, i, j = index
        left = x[(*b, *((axis, i) if turned[0] else (i, axis)))]
        right = w[(*(() if shared else b), *((j, axis) if turned[1] else (axis, j)))]
        return sum(cast(left, i32) * cast(right, i32), (axis,))

    sums = compute((*batch, m, n), body, name="sums")
    left, right = (
        data.astype(np.int64).swapaxes(-1, -2) if turn else data.astype(np.int64)
        for data, turn in zip((x_data, w_data), turned, strict=True)
    )
    text = f"product {batch} {m} x {k} by {k} x {n}, transposed: {turned}"
    after, y, expected = maker.finished(sums, left @ right, 0 if batch else n)
    return f"{text}, {after}", y, expected


# ---- without weights ----------------------------------------------------------------------------


def _pool(maker: _Maker) -> tuple[str, Tensor, Array]:
    """The greatest of windows, padding or not, or their sums."""
    pick = maker.pick
    images, channels = pick.choice((1, 1, 2)), pick.choice(CHANNELS)
    sizes = tuple(pick.randint(1, 14) for _ in range(2))
    window = _window(pick, sizes)
    x, data = maker.tensor("x", (images, channels, *sizes))
    greatest = pick.random() < 0.6
    text = f"{'greatest' if greatest else 'sums'} of {data.shape} in {window}"
    if greatest:
        y = max_pool(x, kernel=window.kernel, strides=window.strides, dilations=window.dilations,
                     pads=(*window.before, *window.after))  # fmt: skip
        parts = [part for _, part in window.taps(data, -128)]
        return text, y, np.max(parts, axis=0)
    kernel = tuple(min(k, n) for k, n in zip(window.kernel, sizes, strict=True))
    strides = window.strides
    taps = [reduce_axis((0, k), name=name) for k, name in zip(kernel, "rs", strict=True)]
    plain = Window(kernel, strides, (1, 1), (0, 0), (0, 0))
    sums = compute(
        (images, channels, *plain.outputs(sizes)),
        lambda n, c, h, w: sum(
            cast(x[n, c, h * strides[0] + taps[0], w * strides[1] + taps[1]], i32), taps
        ),
        name="sums",
    )
    exact = np.sum([part for _, part in plain.taps(data.astype(np.int64), 0)], axis=0)
    after, y, expected = maker.finished(sums, exact, channels)
    return f"{text}, {after}", y, expected


def _elementwise(maker: _Maker) -> tuple[str, Tensor, Array]:
    """Two tensors, each shifted by itself, or the greater of both."""
    pick = maker.pick
    rank = pick.choice((1, 2, 3, 4, 4))
    shape = tuple(pick.choice((1, 2, 3, 7, 16, 17)) for _ in range(rank))
    x, x_data = maker.tensor("x", shape)
    z, z_data = maker.tensor("z", shape, known=0.2)
    left, right, after = pick.choice((0, 1, 2)), pick.choice((0, 0, 1, 4)), pick.choice((0, 1, 3))
    adds = pick.random() < 0.8

    def body(*index: Any) -> Expr:
        one, other = cast(x[index], i32), cast(z[index], i32)
        if not adds:
            return cast(maximum(one, other), i8)
        value = (one << left if left else one) + (other << right if right else other)
        value = value >> after if after else value
        return cast(maximum(minimum(value, literal(127, i32)), literal(-128, i32)), i8)

    wide = x_data.astype(np.int32), z_data.astype(np.int32)
    expected = np.maximum(*wide)
    if adds:
        expected = np.clip(((wide[0] << left) + (wide[1] << right)) >> after, -128, 127)
    text = f"{'sum' if adds else 'greater'} of two {shape}, shifts {left}, {right}, {after}"
    return text, compute(shape, body, name="y"), expected.astype(np.int8)
