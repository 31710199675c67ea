"""Transposed convolution, without scattering and without multiplying by inserted zeros.

Output o collects input h through tap r where o + pad = h·stride + r·dilation. With o + pad = q·s +
φ, only the taps r·dilation ≡ φ (mod s) meet an input: each of the s phases φ is an ordinary
convolution with every s-th tap, all over one padded input (sub-pixel convolution: Shi et al., CVPR
2016). Phases of as many taps go together. Those with fewer do not multiply by zeros, which would
spread infinities to outputs that these do not reach; integers have none, and all phases together
are what accelerators compute.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import gcd

from weft.frontend.operators.conv import TAPS, group_size, with_bias
from weft.frontend.operators.registry import operator
from weft.frontend.operators.sizes import (
    accumulator,
    axes_over,
    known,
    require,
    require_rank,
    unify,
)
from weft.frontend.operators.window import make_window, padded
from weft.ir.build import all_of, compute, reshape, sum
from weft.ir.errors import ExpressionError
from weft.ir.scalar_expr import Expr, cast, literal, select
from weft.ir.tensor_expr import Axis, Size, Tensor, as_size, constant_size


@dataclass(frozen=True, slots=True)
class _Phases:
    """The phases from ``first`` on, ``count`` of them, each with so many ``taps``: for phase first
    + φ and j < taps, tap + φ + j·stride meets the input ``lag`` + j·step before that of q."""

    first: int
    count: int
    taps: int
    tap: int
    stride: int
    lag: int
    step: int


@dataclass(frozen=True, slots=True)
class _Dim:
    """One spatial dimension: output (first+q)·stride + φ - pad, inputs first + q and before."""

    stride: int
    phases: tuple[_Phases, ...]
    pad: int
    first: int  # the least q
    blocks: Size  # how many q
    outputs: Size
    before: int  # zeros around the input
    after: int


@operator("conv_transpose")
def conv_transpose(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    group: int = 1,
) -> Tensor:
    """y[n, g·K+k, h·stride + r·dilation - pad] += x[n, g·C+c, h] · w[g·C+c, k, r], plus bias.

    ``x`` (n, channels, spatial…), ``w`` (channels, filters / group, kernel…), ``bias`` (filters,).
    Spatial sizes are stride·(size-1) + output_padding + dilation·(kernel-1) + 1 - pads; negative
    pads widen the output with the bias alone. Raises ``ExpressionError`` E0150 … E0155.
    """
    require_rank(x, "the input of a transposed convolution", 3)
    require_rank(w, "the weights of a transposed convolution", x.rank, x.rank)
    unify(x.shape[1], w.shape[0], "the channels of input and weights")
    kernel = [known(size, "a kernel size") for size in w.shape[2:]]
    window = make_window(kernel, strides=strides, dilations=dilations)
    rank = window.rank
    pads = tuple(pads or (0,) * (2 * rank))
    extra = tuple(output_padding or (0,) * rank)
    require(len(pads) == 2 * rank, f"{len(pads)} pads for {rank} spatial dimensions")
    require(len(extra) == rank, f"{len(extra)} output paddings for {rank} spatial dimensions")
    require(all(e >= 0 for e in extra), f"output padding must not be negative: {list(extra)}")
    whole = not x.dtype.is_float
    dims = [
        _dimension(x.shape[2 + d], kernel[d], window.strides[d], window.dilations[d],
                   pads[d], extra[d] - pads[rank + d], whole=whole)
        for d in range(rank)
    ]  # fmt: skip
    source = padded(x, [d.before for d in dims], [d.after for d in dims], 0)
    weights = _filled(w, dims, window.dilations) if whole else w
    together = product(*(d.phases for d in dims))
    parts = {phases: _sums(source, weights, dims, phases, group) for phases in together}
    if all(d.stride == 1 for d in dims):
        (result,) = parts.values()
    else:
        filters = group * known(w.shape[1], "the number of filters")
        result = _interleaved(parts, (x.shape[0], filters, *(d.outputs for d in dims)), dims, x)
    return with_bias(result, bias, x, name="conv_transpose")


def _dimension(
    size: Size, kernel: int, stride: int, dilation: int, pad: int, more: int, *, whole: bool
) -> _Dim:
    """``more`` is what the output has beyond the last tap, less the padding before; ``whole``: all
    phases have as many taps, some of them zeros."""
    span = (kernel - 1) * dilation + 1
    outputs = as_size(size) * stride + (span + more - pad - stride)
    known_outputs = constant_size(outputs)
    if known_outputs is not None and known_outputs < 0:
        raise ExpressionError(
            "WEFT-E0155",
            f"a transposed convolution would have {known_outputs} outputs in one dimension",
            why=f"size {constant_size(size)}, kernel {kernel}, stride {stride}, pads too large",
        )
    first = pad // stride
    past = (span + more - 1) // stride  # the last q, counted from the last input
    return _Dim(
        stride=stride,
        phases=tuple(_phases(kernel, stride, dilation, whole=whole)),
        pad=pad,
        first=first,
        blocks=as_size(size) + (past - first),
        outputs=outputs,
        before=max(0, (span - 1) // stride - first),
        after=max(0, past),
    )


def _phases(kernel: int, stride: int, dilation: int, *, whole: bool) -> Iterator[_Phases]:
    """The phases of a dimension that meet inputs, those with as many taps together."""
    if stride == 1:
        yield _Phases(0, 1, kernel, 0, 1, 0, dilation)
        return
    if whole:
        span = (kernel - 1) * dilation + 1
        yield _Phases(0, stride, -(-span // stride), 0, stride, 0, 1)
        return
    if dilation == 1:
        most = -(-kernel // stride)
        full = kernel - (most - 1) * stride  # phases with that many taps
        yield _Phases(0, full, most, 0, stride, 0, 1)
        if most > 1 and full < stride:
            yield _Phases(full, stride - full, most - 1, full, stride, 0, 1)
        return
    common = gcd(stride, dilation)
    for tap in range(min(kernel, stride // common)):  # those of further taps have been seen
        lag, phase = divmod(tap * dilation, stride)
        apart = stride // common
        taps = -(-(kernel - tap) // apart)
        yield _Phases(phase, 1, taps, tap, apart, lag, dilation // common)


def _filled(w: Tensor, dims: Sequence[_Dim], dilations: Sequence[int]) -> Tensor:
    """``w`` where tap φ + s·j of each dimension is itself or zero: dilated, filled to s·taps."""
    sizes = [p.taps * d.stride for d in dims for p in d.phases]
    spread = [d.stride > 1 and dilation > 1 for d, dilation in zip(dims, dilations, strict=True)]
    if sizes == [constant_size(s) for s in w.shape[2:]]:
        return w

    def body(*index: Axis) -> Expr:
        taps, inside = [], []
        for i, size, given, holes, dilation in zip(
            index[2:], sizes, w.shape[2:], spread, dilations, strict=True
        ):
            tap = i // dilation if holes else i
            if holes:
                inside.append((i % dilation).equal(0))
            if size > (constant_size(given) or 0):
                inside.append(tap < as_size(given))
            taps.append(tap)
        return select(all_of(inside), w[(*index[:2], *taps)], 0)

    return compute((*w.shape[:2], *sizes), body, name="phased_weights")


def _sums(
    x: Tensor, w: Tensor, dims: Sequence[_Dim], phases: Sequence[_Phases], group: int
) -> Tensor:
    """(n, filters, q…, φ…) of these ``phases``; no φ where the stride is 1."""
    acc = accumulator(x.dtype)
    c_group = group_size(x.shape[1], group, "channels") if group != 1 else 0
    counts = [p.count for d, p in zip(dims, phases, strict=True) if d.stride > 1]
    outer = (x.shape[0], group, w.shape[1]) if c_group else (x.shape[0], w.shape[1])
    blocks = [d.blocks for d in dims]
    c, *taps = axes_over(
        (c_group or w.shape[0], *(p.taps for p in phases)), ["c", *TAPS[: len(dims)]]
    )

    def body(n: Expr, *index: Expr) -> Expr:
        k, q = index[-len(dims) - len(counts) - 1], index[-len(dims) - len(counts) :]
        within = iter(q[len(dims) :])
        channel = index[0] * c_group + c if c_group else c
        reads = [
            b + (d.first + d.before - p.lag) - j * p.step
            for b, d, p, j in zip(q[: len(dims)], dims, phases, taps, strict=True)
        ]
        weight = [
            (next(within) if d.stride > 1 else literal(0)) + p.tap + j * p.stride
            for d, p, j in zip(dims, phases, taps, strict=True)
        ]
        element, factor = x[(n, channel, *reads)], w[(channel, k, *weight)]
        return sum(cast(element, acc) * cast(factor, acc), (c, *taps))

    sums = compute((*outer, *blocks, *counts), lambda *i: body(*i), name="conv_transpose_sums")
    if not c_group:
        return sums
    filters = group * known(w.shape[1], "the number of filters")
    return reshape(sums, (x.shape[0], filters, *blocks, *counts), name="conv_filters")


def _interleaved(
    parts: Mapping[tuple[_Phases, ...], Tensor],
    shape: Sequence[Size],
    dims: Sequence[_Dim],
    x: Tensor,
) -> Tensor:
    """The phases side by side: y[n, k, o…] = sums[n, k, (o + pad) div s…, (o + pad) mod s…] of the
    part that has these phases; zero where none has."""

    def body(n: Expr, k: Expr, *out: Expr) -> Expr:
        at = [o + d.pad for o, d in zip(out, dims, strict=True)]
        blocks = [i // d.stride - d.first for i, d in zip(at, dims, strict=True)]
        phase = [i % d.stride for i, d in zip(at, dims, strict=True)]

        def part(otherwise: Expr, which: tuple[_Phases, ...]) -> Expr:
            each = list(zip(phase, dims, which, strict=True))
            inside = [test for i, d, p in each for test in _among(i, d, p)]
            own = [i - p.first for i, d, p in each if d.stride > 1]
            found = parts[which][(n, k, *blocks, *own)]
            return select(all_of(inside), found, otherwise) if inside else found

        zero: Expr = literal(0, accumulator(x.dtype))
        return reduce(part, parts, zero)

    return compute(shape, lambda *i: body(*i), name="conv_transpose_outputs")


def _among(phase: Expr, dim: _Dim, some: _Phases) -> Iterator[Expr]:
    """What has to hold of ``phase`` to be one of ``some`` of ``dim``; nothing if all are."""
    if some.first > 0:
        yield phase >= some.first
    if some.first + some.count < dim.stride:
        yield phase < some.first + some.count
