"""Linear attention: a matrix-valued state instead of a cache of keys, as a scan over positions."""

from __future__ import annotations

import math
from collections.abc import Callable

from weft.frontend.operators.recurrent import check_shape
from weft.frontend.operators.registry import operator
from weft.frontend.operators.sizes import axes_over, known, require, require_rank, wide
from weft.ir.build import compute, exp, reshape, scan, sum
from weft.ir.scalar_expr import Expr, cast, literal, select
from weft.ir.tensor_expr import Axis, Tensor, as_size


@operator("linear_attention")
def linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past: Tensor | None = None,
    decay: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    q_heads: int,
    kv_heads: int,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """o_t = scale · q_t S_t with S_t = e^{g_t} S_{t-1} + k_t ⊗ w_t, and the last state.

    ``q``, ``k``, ``v`` are (batch, positions, heads · features), states (batch, key heads, key
    features, value features), kept in float32 for narrow floats. ``decay`` g is (batch, positions,
    key heads) or has a value per key feature too. w_t is v_t, or with ``beta`` (batch, positions,
    key heads or 1) the delta rule: beta_t · (v_t - k_t e^{g_t} S_{t-1}). Katharopoulos et al.,
    2020; Yang et al., 2024 (gated delta rule).
    """
    _check(q, k, v, past, q_heads, kv_heads)
    size, width = _features(k, kv_heads), _features(v, kv_heads)
    batch, steps = q.shape[0], q.shape[1]
    fade, rate = _decay(decay, k, kv_heads, size), _rate(beta, k, kv_heads)
    states = _states(k, v, past, fade, rate, kv_heads)
    factor = 1.0 / math.sqrt(size) if scale is None else scale
    shared = q_heads // kv_heads
    (d,) = axes_over([size], ["d"])

    def output(b: Axis, t: Axis, h: Axis, m: Axis) -> Expr:
        group = h if shared == 1 else h // shared
        total = sum(wide(q[b, t, h * size + d]) * states[t, b, group, d, m], d)
        return cast(total * factor, q.dtype)

    split = compute((batch, steps, q_heads, width), output, name="linear_attention")
    last_type = q.dtype if past is None else past.dtype

    def last(b: Axis, h: Axis, d: Axis, m: Axis) -> Expr:
        final = as_size(steps) - 1
        before = _past(past, q)(b, h, d, m)
        return cast(select(final >= 0, states[final, b, h, d, m], before), last_type)

    return (
        reshape(split, (batch, steps, q_heads * width), name="linear_attention_heads"),
        compute((batch, kv_heads, size, width), last, name="present_state"),
    )


Element = Callable[..., Expr]


def _check(
    q: Tensor, k: Tensor, v: Tensor, past: Tensor | None, q_heads: int, kv_heads: int
) -> None:
    for what, tensor in (("queries", q), ("keys", k), ("values", v)):
        require_rank(tensor, f"the {what} of linear attention", 3, 3)
    shared = kv_heads >= 1 and q_heads >= 1 and q_heads % kv_heads == 0
    require(shared, f"{q_heads} query heads do not share {kv_heads} key heads")
    size, width = _features(k, kv_heads), _features(v, kv_heads)
    batch, steps = q.shape[0], q.shape[1]
    check_shape("the queries of linear attention", q, (batch, steps, q_heads * size))
    check_shape("the keys of linear attention", k, (batch, steps, kv_heads * size))
    check_shape("the values of linear attention", v, (batch, steps, kv_heads * width))
    check_shape("the past state of linear attention", past, (batch, kv_heads, size, width))


def _features(x: Tensor, heads: int) -> int:
    total = known(x.shape[2], "the size of all heads")
    require(total % heads == 0, f"{total} features do not split into {heads} heads")
    return total // heads


def _past(past: Tensor | None, like: Tensor) -> Element:
    dtype = like.dtype.compute
    if past is None:
        return lambda *index: literal(0, dtype)
    return lambda *index: cast(past[index], dtype)


def _states(
    k: Tensor, v: Tensor, past: Tensor | None, decay: Element, rate: Element | None, heads: int
) -> Tensor:
    """Every state, (position, batch, head, key feature, value feature)."""
    size, width = _features(k, heads), _features(v, heads)
    before = _past(past, k)
    (e,) = axes_over([size], ["e"])

    def body(itself: Element, t: Expr, b: Expr, h: Expr, d: Expr, m: Expr) -> tuple[Expr]:
        def decayed(row: Expr) -> Expr:
            old = select(t > 0, itself(0, t - 1, b, h, row, m), before(b, h, row, m))
            return decay(old, b, t, h, row)

        def key(row: Expr) -> Expr:
            return wide(k[b, t, h * size + row])

        written = wide(v[b, t, h * width + m])
        if rate is not None:
            written = rate(b, t, h) * (written - sum(decayed(e) * key(e), e))
        return (decayed(d) + key(d) * written,)

    shape = (k.shape[1], k.shape[0], heads, size, width)
    (states,) = scan(shape, body, dtypes_=[k.dtype.compute], name="states")
    return states


def _decay(decay: Tensor | None, k: Tensor, heads: int, size: int) -> Element:
    """(state, batch, position, head, key feature) -> the decayed state."""
    if decay is None:
        return lambda old, b, t, h, d: old
    require_rank(decay, "the decay of linear attention", 3, 3)
    columns = known(decay.shape[2], "the decay's size")
    require(columns in (heads, heads * size), f"a decay of {columns} values for {heads} heads")
    check_shape("the decay of linear attention", decay, (*k.shape[:2], columns))

    def element(old: Expr, b: Expr, t: Expr, h: Expr, d: Expr) -> Expr:
        column = h if columns == heads else h * size + d
        return old * exp(wide(decay[b, t, column]))

    return element


def _rate(beta: Tensor | None, k: Tensor, heads: int) -> Element | None:
    if beta is None:
        return None
    require_rank(beta, "the update rate of linear attention", 3, 3)
    columns = known(beta.shape[2], "the update rate's size")
    require(columns in (1, heads), f"an update rate of {columns} values for {heads} heads")
    check_shape("the update rate of linear attention", beta, (*k.shape[:2], columns))
    return lambda b, t, h: wide(beta[b, t, 0 if columns == 1 else h])
