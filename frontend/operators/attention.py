"""Scaled dot-product attention (Vaswani et al., 2017), with grouped heads and a key-value cache."""

from __future__ import annotations

import math
from dataclasses import dataclass

from weft.frontend.operators.broadcast import broadcast_shape
from weft.frontend.operators.registry import operator
from weft.frontend.operators.sizes import (
    axes_over,
    known,
    require,
    require_rank,
    unify,
)
from weft.ir import dtypes
from weft.ir.build import compute, exp, max_over, reshape, sum, tanh
from weft.ir.dtypes import DType
from weft.ir.scalar_expr import Expr, cast, literal, select
from weft.ir.tensor_expr import Axis, Size, Tensor, as_size

NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class Heads:
    """(batch, head, position, feature) of a 4-D tensor, or of one (batch, position, features)."""

    tensor: Tensor
    count: int

    @property
    def split(self) -> bool:
        return self.tensor.rank == 3

    @property
    def positions(self) -> Size:
        return self.tensor.shape[1 if self.split else 2]

    @property
    def features(self) -> Size:
        if not self.split:
            return self.tensor.shape[3]
        return known(self.tensor.shape[2], "the size of all heads") // self.count

    @property
    def shape(self) -> tuple[Size, ...]:
        return (self.tensor.shape[0], self.count, self.positions, self.features)

    def at(self, b: Expr, h: Expr, i: Expr, d: Expr) -> Expr:
        if self.split:
            return self.tensor[b, i, h * known(self.features, "the size of a head") + d]
        return self.tensor[b, h, i, d]


@operator("attention")
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    lengths: Tensor | None = None,
    *,
    q_heads: int | None = None,
    kv_heads: int | None = None,
    scale: float | None = None,
    causal: bool = False,
    window: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    precision: DType = dtypes.float32,
    present: bool = False,
    scores_output: int | None = None,
) -> tuple[Tensor, ...]:
    """softmax(q kᵀ · scale + mask) v, then if ``present`` all keys and values, past ones first.

    ``q``, ``k``, ``v`` are (batch, heads, positions, features), or (batch, positions, heads ·
    features) with ``q_heads`` and ``kv_heads``; each key head serves q_heads / kv_heads query
    heads in a row. ``mask`` is added, or, of bool, keeps where true; it broadcasts to the scores,
    keys beyond its last dimension are left out. ``lengths`` (batch,) says how many keys are valid.
    Query i stands at position i + past (i + length - queries with ``lengths``): ``causal`` leaves
    out later keys, ``window`` those further than (left, right), -1 for no bound. Without any key
    left a row is 0. ``softcap`` c bounds scores to c·tanh(s/c). With ``scores_output``, the scores
    come last: 0 as they are, 1 capped, 2 masked, 3 after the softmax. Weights of less precision
    than ``precision`` are rounded to the type of ``q`` before they are summed and multiplied.
    """
    queries, keys, values = _heads(q, k, v, q_heads, kv_heads)
    require((past_key is None) == (past_value is None), "past keys and values come together")
    require(past_key is None or lengths is None, "lengths of keys do not go with past keys")
    past = 0 if past_key is None else past_key.shape[2]
    keys, values = _joined(past_key, keys, "key"), _joined(past_value, values, "value")
    wide = max(q.dtype.compute, precision, key=lambda d: d.bits)
    factor = 1.0 / math.sqrt(known(queries.features, "the size of a head"))
    raw = _scores(queries, keys, factor if scale is None else scale, wide)
    capped = raw if softcap <= 0.0 else _capped(raw, softcap)
    keep = _Kept(mask, lengths, past, causal, window, raw.shape)
    masked = capped
    if not keep.everything:
        masked = compute(raw.shape, lambda *i: keep.score(capped[i], *i), name="masked_scores")
    powers, totals = _softmax(masked, q.dtype)
    y = _weighted(powers, totals, values, q)
    cache = (_unsplit(keys, "key"), _unsplit(values, "value")) if present else ()
    if scores_output is None:
        return (y, *cache)
    every = (raw, capped, masked, _shares(powers, totals, wide))
    shown = every[scores_output]
    scores = compute(shown.shape, lambda *i: cast(shown[i], q.dtype), name="scores_output")
    return (y, *cache, scores)


def _heads(
    q: Tensor, k: Tensor, v: Tensor, q_heads: int | None, kv_heads: int | None
) -> tuple[Heads, Heads, Heads]:
    found = []
    both = zip(("queries", "keys", "values"), (q, k, v), (q_heads, kv_heads, kv_heads), strict=True)
    for what, tensor, given in both:
        require_rank(tensor, f"the {what} of attention", 3, 4)
        if tensor.rank == 4:
            given = known(tensor.shape[1], f"the number of heads of {what}")
        require(given is not None and given >= 1, f"the number of heads of {what} must be given")
        assert given is not None
        if tensor.rank == 3:
            total = known(tensor.shape[2], f"the size of all heads of {what}")
            require(total % given == 0, f"{total} features do not split into {given} heads")
        found.append(Heads(tensor, given))
    queries, keys, values = found
    require(queries.count % keys.count == 0, f"{queries.count} query heads, {keys.count} key heads")
    unify(keys.count, values.count, "the heads of keys and values")
    unify(queries.features, keys.features, "the head sizes of queries and keys")
    unify(keys.positions, values.positions, "the positions of keys and values")
    for other in (k, v):
        unify(q.shape[0], other.shape[0], "the batches of attention")
    return queries, keys, values


def _joined(past: Tensor | None, new: Heads, what: str) -> Heads:
    """Past positions, where there are any, then new ones."""
    if past is None:
        return new
    require_rank(past, f"the past {what}s", 4, 4)
    for d in (0, 1, 3):
        unify(past.shape[d], new.shape[d], f"the sizes of past and new {what}s")
    length = as_size(past.shape[2])

    def body(b: Axis, h: Axis, i: Axis, d: Axis) -> Expr:
        return select(i < length, past[b, h, i, d], new.at(b, h, i - length, d))

    shape = (*past.shape[:2], length + as_size(new.positions), past.shape[3])
    return Heads(compute(shape, body, name=f"present_{what}"), new.count)


def _unsplit(heads: Heads, what: str) -> Tensor:
    """(batch, heads, positions, features), of which nothing may alias an input."""
    if heads.tensor.operation is not None:
        return heads.tensor
    return compute(heads.shape, lambda *i: heads.at(*i), name=f"present_{what}")


def _scores(queries: Heads, keys: Heads, scale: float, wide: DType) -> Tensor:
    """q kᵀ · scale: (batch, query head, query, key)."""
    shared = queries.count // keys.count
    (d,) = axes_over([queries.features], ["d"])

    def body(b: Axis, h: Axis, i: Axis, j: Axis) -> Expr:
        group = h if shared == 1 else h // shared
        product = cast(queries.at(b, h, i, d), wide) * cast(keys.at(b, group, j, d), wide)
        return sum(product, d) * scale

    shape = (queries.shape[0], queries.count, queries.positions, keys.positions)
    return compute(shape, body, name="scores")


def _capped(scores: Tensor, cap: float) -> Tensor:
    return compute(scores.shape, lambda *i: tanh(scores[i] / cap) * cap, name="capped_scores")


@dataclass(frozen=True, slots=True)
class _Kept:
    """Which keys a query sees, and what is added to their scores."""

    mask: Tensor | None
    lengths: Tensor | None
    past: Size
    causal: bool
    window: tuple[int, int]
    shape: tuple[Size, ...]

    @property
    def everything(self) -> bool:
        bounded = self.causal or max(self.window) >= 0
        return self.mask is None and self.lengths is None and not bounded

    def score(self, score: Expr, b: Expr, h: Expr, i: Expr, j: Expr) -> Expr:
        """``score`` with the mask added, -inf where the key is left out."""
        for condition in self._bounds(b, i, j):
            score = select(condition, score, NEVER)
        if self.mask is None:
            return score
        at, inside = self._mask_index((b, h, i, j))
        value = self.mask[at]
        if self.mask.dtype == dtypes.bool_:
            score = select(value, score, NEVER)
        else:
            value = cast(value, score.dtype)
            score = select(value.equal(NEVER), NEVER, score + value)
        return score if inside is None else select(inside, score, NEVER)

    def _bounds(self, b: Expr, i: Expr, j: Expr) -> list[Expr]:
        left, right = self.window
        position = i + as_size(self.past)
        conditions = []
        if self.lengths is not None:
            length = cast(self.lengths[b], dtypes.int64)
            position = i + length - as_size(self.shape[2])
            conditions.append(j < length)
        if self.causal:
            conditions.append(j <= position)
        if left >= 0:
            conditions.append(j >= position - left)
        if right >= 0:
            conditions.append(j <= position + right)
        return conditions

    def _mask_index(self, index: tuple[Expr, ...]) -> tuple[tuple[Expr, ...], Expr | None]:
        """Where the mask is read, and whether there; its last dimension may be short."""
        mask = self.mask
        assert mask is not None
        require_rank(mask, "the mask of attention", 1, 4)
        outer, keys = mask.shape[:-1], mask.shape[-1]
        aligned = self.shape[4 - mask.rank : 3]
        fits = broadcast_shape([outer, aligned], "the mask of attention") == tuple(aligned)
        require(fits, "the mask of attention is larger than its scores")
        at = [
            literal(0) if own == 1 and size != 1 else i
            for own, size, i in zip(outer, aligned, index[4 - mask.rank : 3], strict=True)
        ]
        same = as_size(keys) == as_size(self.shape[3])
        return (*at, index[3]), None if same else index[3] < as_size(keys)


def _softmax(scores: Tensor, dtype: DType) -> tuple[Tensor, Tensor]:
    """exp(s - max), rounded to ``dtype``, and their sums over the keys."""
    (j,) = axes_over(scores.shape[3:], ["j"])
    rows = scores.shape[:3]
    greatest = compute(rows, lambda *r: max_over(scores[(*r, j)], j), name="greatest")

    def power(*i: Expr) -> Expr:
        top = greatest[i[:3]]
        return cast(exp(scores[i] - select(top.equal(NEVER), 0.0, top)), dtype)

    powers = compute(scores.shape, lambda *i: power(*i), name="powers")

    def total(*r: Expr) -> Expr:
        return sum(cast(powers[(*r, j)], scores.dtype), j)

    return powers, compute(rows, total, name="totals")


def _shares(powers: Tensor, totals: Tensor, wide: DType) -> Tensor:
    """``powers`` / ``totals``; 0 in rows that are -inf throughout."""

    def share(*i: Expr) -> Expr:
        return cast(powers[i], wide) / _divisor(totals[i[:3]])

    return compute(powers.shape, share, name="weights")


def _divisor(total: Expr) -> Expr:
    return select(total.equal(0.0), 1.0, total)


def _weighted(powers: Tensor, totals: Tensor, values: Heads, q: Tensor) -> Tensor:
    """Σ_j weights · v, laid out as the queries are. Rounded weights are multiplied as they are, and
    their products divided by the totals."""
    wide, rounded = totals.dtype, powers.dtype != totals.dtype
    weights = powers if rounded else _shares(powers, totals, wide)
    shared = known(weights.shape[1], "the number of heads") // values.count
    (j,) = axes_over(weights.shape[3:], ["j"])

    def element(b: Expr, h: Expr, i: Expr, d: Expr) -> Expr:
        group = h if shared == 1 else h // shared
        product = cast(weights[b, h, i, j], wide) * cast(values.at(b, group, j, d), wide)
        total = sum(product, j)
        return cast(total / _divisor(totals[b, h, i]) if rounded else total, q.dtype)

    batch, heads, positions, _ = weights.shape
    if q.rank == 4:
        shape = (batch, heads, positions, values.features)
        return compute(shape, lambda b, h, i, d: element(b, h, i, d), name="attention")
    features = known(values.features, "the size of a head")
    split = compute(
        (batch, positions, heads, features),
        lambda b, i, h, d: element(b, h, i, d),
        name="attention",
    )
    whole = known(heads, "the number of heads") * features
    return reshape(split, (batch, positions, whole), name="attention_heads")
