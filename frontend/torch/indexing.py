"""Handlers of reads and writes at indices that are data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from typing import Any

from weft.frontend.operators.arguments import from_front, replaced, total
from weft.frontend.operators.broadcast import at, broadcast_shape
from weft.frontend.torch.context import NodeContext, Results, dimension, handler
from weft.frontend.torch.factories import filled
from weft.ir import dtypes
from weft.ir.build import compute, maximum, minimum, monoid, scatter
from weft.ir.operator_graph import Value
from weft.ir.scalar_expr import Expr, cast, literal, select
from weft.ir.tensor_expr import Size, Tensor, as_size

Indices = Sequence[Value | None]


@handler("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index(node: NodeContext, x: Value, indices: Indices) -> Results:
    """NumPy's advanced indexing with integers; with masks, where nothing can be chosen."""
    if 0 in node.shape:
        return filled(node, 0)
    places, given = _checked(node, x, indices)

    def definition(source: Tensor, *tensors: Tensor) -> Tensor:
        shape = node.shape
        where = _Places(source, places, tensors)

        def body(*i: Expr) -> Expr:
            return source[where.index(i)]

        return compute(shape, body, name="indexed")

    return node.call(definition, x, *given)


@handler("aten.nonzero.default", "aten.masked_select.default")
def nothing(node: NodeContext, *_: Value) -> Results:
    """What is chosen of no elements. All else is in ``counted.py``."""
    if 0 not in node.shape:
        raise node.unsupported("results whose sizes depend on data")
    return filled(node, 0)


@handler("aten.nonzero_static.default")
def nonzero_static(node: NodeContext, x: Value, *, size: Size, fill_value: int = -1) -> Results:
    """The first ``size`` places of what is not 0, a row each, or ``fill_value`` where there are
    fewer."""
    if 0 in node.shape or 0 in x.shape:
        return filled(node, fill_value)
    coordinates, count = node.call("nonzero", x)

    def definition(places: Tensor, number: Tensor) -> Tensor:
        last = as_size(places.shape[1]) - 1

        def body(i: Expr, d: Expr) -> Expr:
            return select(i < number[()], places[d, minimum(i, last)], fill_value)

        return compute(node.shape, body, name="nonzero_static")

    return node.call(definition, coordinates, count)


@handler("aten.index_put.default", "aten._unsafe_index_put.default")
def index_put(
    node: NodeContext, x: Value, indices: Indices, values: Value, accumulate: bool = False,
    *_: Any,
) -> Results:  # fmt: skip
    """``x`` with ``values``, broadcast, at the places that ``index`` reads; of several at one place
    the last, or where they ``accumulate``, their sum."""
    mask = indices[0]
    if mask is not None and len(indices) == 1 and mask.dtype == dtypes.bool_:
        return _masked(node, x, mask, values, accumulate)
    places, given = _checked(node, x, indices)

    def definition(base: Tensor, updates: Tensor, *tensors: Tensor) -> Tensor:
        where = _Places(base, places, tensors)
        shape = where.shape

        def body(*i: Expr) -> tuple[tuple[Expr, ...], Expr]:
            return where.index(i), at(updates, i, shape)

        how = ("or" if base.dtype == dtypes.bool_ else "add") if accumulate else None
        return scatter(base, shape, body, combine=how, name="index_put")

    return node.call(definition, x, node.cast(values, x.dtype), *given)


def _masked(node: NodeContext, x: Value, mask: Value, values: Value, accumulate: bool) -> Value:
    """``x`` with ``values`` where ``mask``, over its first dimensions, holds: one for all places,
    or one for each in order."""
    if 0 in values.shape:
        return node.call("identity", x)  # type: ignore[no-any-return]
    values = node.cast(values, x.dtype)
    alone = len(values.shape) <= len(x.shape) - len(mask.shape) or values.shape[0] == 1
    ranks = [] if alone else [_ranks(node, mask)]

    def definition(base: Tensor, where: Tensor, given: Tensor, *ranks: Tensor) -> Tensor:
        def body(*i: Expr) -> Expr:
            place, rest = i[: where.rank], i[where.rank :]
            first = ranks[0][place] if ranks else literal(0)
            new = at(given, (first, *rest), (total(where.shape), *base.shape[where.rank :]))
            if accumulate:
                new = base[i] | new if base.dtype == dtypes.bool_ else base[i] + new
            return select(where[place], new, base[i])

        return compute(base.shape, body, name="masked")

    return node.call(definition, x, mask, values, *ranks)  # type: ignore[no-any-return]


def _ranks(node: NodeContext, mask: Value) -> Value:
    """How many elements before each of ``mask`` hold, 0 for those that do not hold."""
    flat = node.call("reshape", mask, shape=(total(node.sizes(mask)),))
    running = node.call("cum_sum", node.cast(flat, dtypes.int64), axis=0)
    running = node.call("reshape", running, shape=node.sizes(mask))

    def definition(where: Tensor, count: Tensor) -> Tensor:
        return compute(where.shape, lambda *i: select(where[i], count[i] - 1, 0), name="ranks")

    return node.call(definition, mask, running)  # type: ignore[no-any-return]


@handler("aten.masked_scatter.default")
def masked_scatter(node: NodeContext, x: Value, mask: Value, source: Value) -> Results:
    """The elements of ``source`` in order where ``mask`` holds."""
    base, where = (node.call("expand", v, shape=node.shape) for v in (x, mask))
    flat = node.call("reshape", source, shape=(total(node.sizes(source)),))
    return _masked(node, base, where, flat, False)


def _checked(node: NodeContext, x: Value, indices: Indices) -> tuple[list[int], list[Value]]:
    """Which dimensions of ``x`` are indexed, and by what."""
    places = [d for d, value in enumerate(indices) if value is not None]
    given = [value for value in indices if value is not None]
    if any(value.dtype in (dtypes.bool_, dtypes.uint8) for value in given):
        raise node.unsupported("masks, whose results have sizes that depend on data")
    return places, given


class _Places:
    """Which element of ``source`` is at each index of what advanced indexing gives: the dimensions
    of the ``indices`` of dimensions ``places``, broadcast, where the first of these is if they are
    neighbours, else in front."""

    def __init__(self, source: Tensor, places: list[int], indices: Sequence[Tensor]) -> None:
        self.source, self.places, self.indices = source, places, indices
        self.common = broadcast_shape([t.shape for t in indices], "index")
        apart = any(b - a > 1 for a, b in pairwise(places))
        self.first = 0 if apart or not places else places[0]
        kept = [n for d, n in enumerate(source.shape) if d not in places]
        self.shape = (*kept[: self.first], *self.common, *kept[self.first :])

    def index(self, i: Sequence[Expr]) -> tuple[Expr, ...]:
        stop = self.first + len(self.common)
        chosen, kept = tuple(i[self.first : stop]), iter((*i[: self.first], *i[stop:]))
        found: list[Expr] = []
        indices = dict(zip(self.places, self.indices, strict=True))
        for d, size in enumerate(self.source.shape):
            if d in indices:
                value = cast(at(indices[d], chosen, self.common), dtypes.int64)
                found.append(from_front(value, size))
            else:
                found.append(next(kept))
        return tuple(found)


def _taken(node: NodeContext, x: Value, indices: Value, axis: int) -> Value:
    """Slices of ``x`` along ``axis``; none counts from the back, as in PyTorch."""
    stop = axis + len(indices.shape)

    def definition(source: Tensor, where: Tensor) -> Tensor:
        def body(*i: Expr) -> Expr:
            chosen = cast(where[i[axis:stop]], dtypes.int64)
            return source[(*i[:axis], chosen, *i[stop:])]

        shape = (*source.shape[:axis], *where.shape, *source.shape[axis + 1 :])
        return compute(shape, body, name="taken")

    return node.call(definition, x, indices)  # type: ignore[no-any-return]


@handler("aten.index_select.default")
def index_select(node: NodeContext, x: Value, dim: int, indices: Value) -> Results:
    source, places = _lines(node, x, indices)
    found = _taken(node, source, places, dimension(dim, len(source.shape)))
    return node.call("reshape", found, shape=node.shape)


@handler("aten.embedding.default")
def embedding(node: NodeContext, weight: Value, indices: Value, *_: Any, **__: Any) -> Results:
    return _taken(node, weight, indices, 0)


def _lines(node: NodeContext, *values: Value) -> list[Value]:
    """``values``, scalars as tensors of one element."""
    return [v if v.shape else node.call("reshape", v, shape=(1,)) for v in values]


@handler("aten.gather.default")
def gather(node: NodeContext, x: Value, dim: int, indices: Value, **_: Any) -> Results:
    if 0 in node.shape:
        return node.call("fill", shape=node.shape, value=0, dtype=node.dtype)
    source, places = _lines(node, x, indices)
    d = dimension(dim, len(source.shape))

    def definition(values: Tensor, where: Tensor) -> Tensor:
        def body(*i: Expr) -> Expr:
            return values[replaced(i, d, cast(where[i], dtypes.int64))]

        return compute(where.shape, body, name="gathered")

    return node.call("reshape", node.call(definition, source, places), shape=node.shape)


_COMBINE = {"add": "add", "multiply": "mul", "sum": "add", "prod": "mul", "amax": "max",
            "amin": "min", "mean": "mean"}  # fmt: skip


@handler("aten.scatter", "aten.scatter_add")
def scatter_(
    node: NodeContext, x: Value, dim: int, indices: Value, src: Value | float,
    *, reduce: str | None = None,
) -> Results:  # fmt: skip
    how = "add" if "scatter_add" in node.target else _COMBINE[reduce] if reduce else None
    return _scattered(node, x, dim, indices, src, how)


@handler("aten.scatter_reduce.two")
def scatter_reduce(
    node: NodeContext, x: Value, dim: int, indices: Value, src: Value, reduce: str,
    *, include_self: bool = True,
) -> Results:  # fmt: skip
    return _scattered(node, x, dim, indices, src, _COMBINE[reduce], include_self)


def _scattered(
    node: NodeContext, x: Value, dim: int, indices: Value, src: Value | float, how: str | None,
    include_self: bool = True,
) -> Value:  # fmt: skip
    """``x`` with elements of ``src``, as many as there are ``indices``, along ``dim``."""
    if 0 in indices.shape:
        return node.call("identity", x)  # type: ignore[no-any-return]
    base, places = _lines(node, x, indices)
    given = _lines(node, src)[0] if isinstance(src, Value) else node.cast(src, x.dtype)
    d = dimension(dim, len(base.shape))

    def definition(target: Tensor, where: Tensor, updates: Tensor) -> Tensor:
        def place(*i: Expr) -> tuple[Expr, ...]:
            return replaced(i, d, cast(where[i], dtypes.int64))

        def value(*i: Expr) -> Expr:
            return updates[i] if updates.rank else updates[()]

        return _combined(target, where.shape, place, value, how, include_self)

    found = node.call(definition, base, places, given)
    return node.call("reshape", found, shape=node.shape)  # type: ignore[no-any-return]


@handler("aten.index_reduce.default")
def index_reduce(
    node: NodeContext, x: Value, dim: int, indices: Value, source: Value, reduce: str,
    *, include_self: bool = True,
) -> Results:  # fmt: skip
    """Slices of ``source`` combined into those of ``x`` that ``indices`` name."""
    base, places, given = _lines(node, x, indices, source)
    d = dimension(dim, len(base.shape))

    def definition(target: Tensor, where: Tensor, updates: Tensor) -> Tensor:
        def place(*i: Expr) -> tuple[Expr, ...]:
            return replaced(i, d, cast(where[i[d]], dtypes.int64))

        how = _COMBINE[reduce]
        return _combined(target, updates.shape, place, lambda *i: updates[i], how, include_self)

    found = node.call(definition, base, places, given)
    return node.call("reshape", found, shape=node.shape)


_OF_BOOLS = {"add": "or", "max": "or", "mul": "and", "min": "and"}


def _combined(
    base: Tensor, extents: Sequence[Size], place: Callable[..., tuple[Expr, ...]],
    value: Callable[..., Expr], how: str | None, include_self: bool,
) -> Tensor:  # fmt: skip
    """``base`` with ``value(i)`` at ``place(i)``, the last of several, or combined by ``how`` with
    each other and, if ``include_self``, with what is there."""
    mean, kind = how == "mean", "add" if how == "mean" else how
    if kind and base.dtype == dtypes.bool_:
        kind = _OF_BOOLS[kind]

    def scattered(into: Tensor, value: Callable[..., Expr], combine: str | None) -> Tensor:
        return scatter(
            into, extents, lambda *i: (place(*i), value(*i)), combine=combine, name="scattered"
        )

    if kind and not include_self:
        none = literal(monoid(kind, base.dtype).identity[0], base.dtype)
        base = scattered(base, lambda *_: none, None)
    found = scattered(base, value, kind)
    if not mean:
        return found
    one = literal(1, dtypes.int64)
    terms = compute(base.shape, lambda *_: literal(int(include_self), dtypes.int64), name="terms")
    counts = scattered(terms, lambda *_: one, "add")

    def average(*i: Expr) -> Expr:
        count = cast(maximum(counts[i], 1), base.dtype.compute)
        total = cast(found[i], count.dtype)
        return cast(total / count if count.dtype.is_float else total // count, base.dtype)

    return compute(base.shape, average, name="means")


@handler("aten.put.default")
def put(
    node: NodeContext, x: Value, indices: Value, source: Value, accumulate: bool = False
) -> Results:
    """``source`` at ``indices`` of the elements of ``x`` in row-major order."""
    flat = [node.call("reshape", v, shape=(prod(node.sizes(v)),)) for v in (x, indices, source)]

    def definition(base: Tensor, where: Tensor, updates: Tensor) -> Tensor:
        def body(i: Expr) -> tuple[tuple[Expr, ...], Expr]:
            place = from_front(cast(where[i], dtypes.int64), base.shape[0])
            return (place,), updates[i]

        how = "add" if accumulate else None
        return scatter(base, where.shape, body, combine=how, name="put")

    return node.call("reshape", node.call(definition, *flat), shape=node.shape)


@handler("aten.embedding_dense_backward.default")
def embedding_dense_backward(
    node: NodeContext, grad: Value, indices: Value, count: int, padding: int, by_frequency: bool
) -> Results:
    """Rows of ``grad`` summed where ``indices`` say, those of ``padding`` left out."""
    if by_frequency:
        raise node.unsupported("scale_grad_by_freq=True")

    def definition(rows: Tensor, where: Tensor) -> Tensor:
        wide = rows.dtype.compute
        zeros = compute(node.shape, lambda *i: literal(0, wide), name="zeros")

        def body(*i: Expr) -> tuple[tuple[Expr, ...], Expr]:
            return (cast(where[i[:-1]], dtypes.int64), i[-1]), cast(rows[i], wide)

        def counts(*i: Expr) -> Expr:
            return cast(where[i[:-1]], dtypes.int64).not_equal(padding)

        total = scatter(
            zeros, rows.shape, body, combine="add", name="rows",
            condition=counts if padding >= 0 else None,
        )  # fmt: skip
        return compute(node.shape, lambda *i: cast(total[i], rows.dtype), name="embedding_rows")

    return node.call(definition, grad, indices)
