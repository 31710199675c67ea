"""Handlers of what depends on the order of elements: sorting, medians, running extremes, places in
sorted lines, distances between all pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.frontend.operators.arguments import replaced, total
from weft.frontend.operators.sizes import axes_over
from weft.frontend.torch.context import NodeContext, Results, dimension, handler
from weft.frontend.torch.factories import filled
from weft.frontend.torch.views import part
from weft.ir import build, dtypes
from weft.ir.build import compute, scan
from weft.ir.limits import check_comparisons
from weft.ir.operator_graph import Value
from weft.ir.scalar_expr import Expr, apply, cast, literal, select
from weft.ir.tensor_expr import Tensor


@handler("aten.topk.default")
def topk(
    node: NodeContext, x: Value, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Results:
    return _shaped(node, ordered(node, x, dim, k, largest))


@handler("aten.sort.default", "aten.sort.stable")
def sort(
    node: NodeContext, x: Value, dim: int = -1, descending: bool = False, *,
    stable: bool | None = None,
) -> Results:  # fmt: skip
    """Stable, whether that is asked for or not."""
    return _shaped(node, ordered(node, x, dim, _count(node, x, dim), descending))


def _count(node: NodeContext, x: Value, dim: int) -> int:
    size = node.sizes(x)[dimension(dim, len(x.shape))] if x.shape else 1
    return node.known(size, "the number of elements to order")


def ordered(
    node: NodeContext, x: Value, dim: int, count: int, descending: bool
) -> tuple[Value, Value]:
    """The first ``count`` of ``x`` along ``dim`` and their indices; a scalar is a line."""
    own = x.dtype
    if own == dtypes.bool_:
        x = node.cast(x, dtypes.uint8)
    if not x.shape:
        x, dim = node.call("reshape", x, shape=(1,)), 0
    values, indices = node.call("top_k", x, k=count, axis=dim, largest=descending)
    return node.cast(values, own), indices


def _shaped(node: NodeContext, found: tuple[Value, ...]) -> tuple[Value, ...]:
    """``found`` in the shapes of the results."""
    return tuple(node.call("reshape", value, shape=node.shape) for value in found)


@handler("aten.kthvalue.default")
def kthvalue(node: NodeContext, x: Value, k: int, dim: int = -1, keepdim: bool = False) -> Results:
    """The last of the first ``k``."""
    found = ordered(node, x, dim, k, False)
    axis = dimension(dim, len(x.shape))
    return _shaped(node, tuple(part(node, value, axis, k - 1, 1, 1) for value in found))


@handler("aten.median.default", "aten.median.dim", "aten.nanmedian.default", "aten.nanmedian.dim")
def median(node: NodeContext, x: Value, dim: int | None = None, keepdim: bool = False) -> Results:
    """The lower of two; NaN, which is last in order, where there is any, or of nanmedian, where
    there is nothing else."""
    if 0 in x.shape:
        raise node.unsupported("of no elements")
    if dim is None or not x.shape:
        x = node.call("reshape", x, shape=(total(node.sizes(x)),))
    axis = 0 if dim is None or len(x.shape) == 1 else dimension(dim, len(x.shape))
    count = node.known(node.sizes(x)[axis], "the number of elements to order")
    found = ordered(node, x, axis, count, False)
    if "nanmedian" in node.target and x.dtype.is_float:
        shaped = _shaped(node, node.call(_middle_number, *found, axis=axis))
        return shaped if len(node.results) == 2 else shaped[0]
    middle = [part(node, value, axis, (count - 1) // 2, 1, 1) for value in found]
    if x.dtype.is_float:
        nan = node.call("is_nan", part(node, found[0], axis, count - 1, 1, 1))
        places = node.call("arg_max", x, axis=axis, keepdims=True)  # of the first NaN
        values = part(node, found[0], axis, count - 1, 1, 1)
        chosen = zip((values, places), middle, strict=True)
        middle = [node.call("where", nan, last, other) for last, other in chosen]
    shaped = _shaped(node, tuple(middle))
    return shaped if len(node.results) == 2 else shaped[0]


def _middle_number(values: Tensor, indices: Tensor, *, axis: int) -> tuple[Tensor, Tensor]:
    """The middle of what is not NaN of the ordered ``values`` along ``axis``, and its index; the
    first where all are NaN. The axis is kept, with size 1."""
    shape = replaced(values.shape, axis, 1)
    (k,) = axes_over(values.shape[axis : axis + 1], ["k"])

    def middle(*i: Expr) -> Expr:
        there = ~apply("isnan", values[replaced(i, axis, k)])
        return build.maximum(build.sum(cast(there, dtypes.int64), k) - 1, 0) // 2

    places = compute(shape, middle, name="middle")

    def at(source: Tensor) -> Tensor:
        return compute(shape, lambda *i: source[replaced(i, axis, places[i])], name="median")

    return at(values), at(indices)


@handler("aten.mode.default")
def mode(node: NodeContext, x: Value, dim: int = -1, keepdim: bool = False) -> Results:
    """The least of the values that occur most often, and where it is last."""
    given = x if x.shape else node.call("reshape", x, shape=(1,))
    axis = dimension(dim, len(given.shape))
    check_comparisons("mode", *given.shape, given.shape[axis])

    def definition(t: Tensor) -> tuple[Tensor, Tensor]:
        (j,) = axes_over(t.shape[axis : axis + 1], ["j"])

        def often(*i: Expr) -> Expr:
            same = t[i].equal(t[replaced(i, axis, j)])
            return build.sum(cast(same, dtypes.int64), j)

        counts = compute(t.shape, often, name="often")
        shape = replaced(t.shape, axis, 1)
        most = compute(
            shape, lambda *i: build.max_over(counts[replaced(i, axis, j)], j), name="most"
        )

        def least(*i: Expr) -> Expr:
            here = replaced(i, axis, j)
            return build.min_over(t[here], j, where=counts[here].equal(most[i]))

        value = compute(shape, least, name="mode")

        def last(*i: Expr) -> Expr:
            same = t[replaced(i, axis, j)].equal(value[i])
            return build.max_over(select(same, j, 0), j)  # 0 where all are NaN

        return value, compute(shape, last, name="place")

    return _shaped(node, node.call(definition, given))


# ---- running extremes ---------------------------------------------------------------------------


def _running(name: str, better: str) -> None:
    @handler(f"aten.{name}.default")
    def import_(node: NodeContext, x: Value, dim: int) -> Results:
        """NaN stays; of equal elements the last."""
        given = x if x.shape else node.call("reshape", x, shape=(1,))
        d = dimension(dim, len(given.shape))

        def definition(t: Tensor) -> tuple[Tensor, ...]:
            def body(itself: Callable[..., Expr], *i: Expr) -> tuple[Expr, Expr]:
                before = (*i[:d], i[d] - 1, *i[d + 1 :])
                value, best = t[i], itself(0, *before)
                keeps = ~apply(better, value, best)
                if t.dtype.is_float:
                    keeps = (keeps | apply("isnan", best)) & ~apply("isnan", value)
                first, index = i[d].equal(0), itself(1, *before)
                return (
                    select(first, value, select(keeps, best, value)),
                    select(first, i[d], select(keeps, index, i[d])),
                )

            return scan(t.shape, body, dtypes_=(t.dtype, dtypes.int64), along=d + 1, name=name)

        return _shaped(node, node.call(definition, given))


_running("cummax", "ge")
_running("cummin", "le")


@handler("aten.logcumsumexp.default")
def logcumsumexp(node: NodeContext, x: Value, dim: int) -> Results:
    """log Σ exp, one after the other: log(eᵃ + eᵇ) = max + log1p(e^-|a - b|)."""
    given = x if x.shape else node.call("reshape", x, shape=(1,))
    d = dimension(dim, len(given.shape))

    def definition(t: Tensor) -> Tensor:
        wide = t.dtype.compute

        def body(itself: Callable[..., Expr], *i: Expr) -> tuple[Expr]:
            value, before = cast(t[i], wide), itself(0, *i[:d], i[d] - 1, *i[d + 1 :])
            top, low = build.maximum(value, before), build.minimum(value, before)
            more = top + apply("log1p", apply("exp", low - top))
            same = apply("isinf", top) & top.equal(low)  # inf - inf would be NaN
            return (select(i[d].equal(0), value, select(same, top, more)),)

        (total,) = scan(t.shape, body, dtypes_=(wide,), along=d + 1, name="logcumsumexp")
        return compute(t.shape, lambda *i: cast(total[i], t.dtype), name="logcumsumexp")

    return node.call("reshape", node.call(definition, given), shape=node.shape)


# ---- places in sorted lines ---------------------------------------------------------------------


@handler("aten.searchsorted.Tensor", "aten.bucketize.Tensor")
def searchsorted(node: NodeContext, a: Value, b: Value, **named: Any) -> Results:
    """How many elements of the line are before each value."""
    values_first = "bucketize" in node.target
    line, values = (b, a) if values_first else (a, b)
    right = named.get("right", False) or named.get("side") == "right"
    if named.get("sorter") is not None:
        raise node.unsupported("sorter")
    common = node.common(line, values)

    def definition(sorted_: Tensor, wanted: Tensor) -> Tensor:
        (j,) = axes_over(sorted_.shape[-1:], ["j"])

        def body(*i: Expr) -> Expr:
            element = cast(sorted_[(*i[: sorted_.rank - 1], j)], common)
            value = cast(wanted[i], common)
            # NaN is last in the line: what is not after the value comes before it.
            ahead = apply("le" if right else "lt", element, value)
            if common.is_float:
                last = apply("isnan", value)
                ahead = ahead | (last if right else last & ~apply("isnan", element))
            return build.sum(cast(ahead, node.dtype), j)

        return compute(node.shape, body, name="searchsorted")

    return node.call(definition, line, values)


# ---- distances ----------------------------------------------------------------------------------


@handler("aten._cdist_forward.default")
def cdist(node: NodeContext, a: Value, b: Value, p: float, _mode: int | None) -> Results:
    """(Σ_k |a[…, i, k] - b[…, j, k]|^p)^(1/p), batches broadcast."""
    if 0 in node.shape or 0 in a.shape:
        return filled(node, 0)
    lead = node.shape[:-2]
    left = node.call("expand", a, shape=(*lead, *a.shape[-2:]))
    right = node.call("expand", b, shape=(*lead, *b.shape[-2:]))

    def definition(x: Tensor, y: Tensor) -> Tensor:
        (k,) = axes_over(x.shape[-1:], ["k"])

        def body(*i: Expr) -> Expr:
            apart = abs(x[(*i[:-1], k)] - y[(*i[:-2], i[-1], k)])
            if p == float("inf"):
                return build.max_over(apart, k)
            if p == 0:
                return build.sum(cast(apart.not_equal(0), apart.dtype), k)
            if p == 1:
                return build.sum(apart, k)
            if p == 2:
                return apply("sqrt", build.sum(apart * apart, k))
            total = build.sum(apply("pow", apart, literal(p, apart.dtype)), k)
            return apply("pow", total, literal(1 / p, apart.dtype))

        return compute(node.shape, body, name="distances")

    return node.call(definition, left, right)


# ---- counts -------------------------------------------------------------------------------------


@handler("aten.histc.default")
def histc(node: NodeContext, x: Value, bins: int = 100, min: float = 0, max: float = 0) -> Results:
    """How many elements fall into each of ``bins`` equal parts of min … max, or where these are
    equal, of what the elements span; the last part holds its end."""
    flat = node.call("reshape", x, shape=(total(node.sizes(x)),))
    if min == max and 0 not in flat.shape:
        ends = [
            node.call(op, flat, axes=(0,), keepdims=False) for op in ("reduce_min", "reduce_max")
        ]
    else:
        ends = [node.cast(end, x.dtype) for end in (min, max)]

    def definition(t: Tensor, *ends: Tensor) -> Tensor:
        (k,) = axes_over(t.shape, ["k"])
        wide = dtypes.float64
        least, most = (cast(end[()], wide) for end in ends)
        apart = cast(least.equal(most), wide)  # 1 where all bounds are one number
        low, high = least - apart, most + apart

        def body(b: Expr) -> Expr:
            value = cast(t[k], wide)
            place = cast(apply("floor", (value - low) * bins / (high - low)), dtypes.int64)
            place = build.minimum(place, bins - 1)
            inside = (value >= low) & (value <= high) & place.equal(b)
            return build.sum(cast(inside, node.dtype), k)

        return compute((bins,), lambda b: body(b), name="histogram")

    return node.call(definition, flat, *ends)
