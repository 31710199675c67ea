"""Handlers of scaled dot-product attention and its gradient."""

from __future__ import annotations

import math

from weft.frontend.operators.sizes import axes_over
from weft.frontend.torch.context import NodeContext, Results, handler
from weft.frontend.torch.factories import filled
from weft.ir.build import compute, exp, log, max_over, sum
from weft.ir.operator_graph import Value
from weft.ir.scalar_expr import Expr, cast, literal, select
from weft.ir.tensor_expr import Tensor


@handler("aten.scaled_dot_product_attention.default")
def attention(
    node: NodeContext, q: Value, k: Value, v: Value, mask: Value | None = None,
    dropout: float = 0.0, causal: bool = False, *, scale: float | None = None,
    enable_gqa: bool = False,
) -> Results:  # fmt: skip
    if 0 in node.shape:
        return filled(node, 0)
    _check(node, dropout, q, k, v)
    rank = len(q.shape)
    if rank < 2:
        raise node.unsupported(f"of {rank} dimensions")
    if len({len(x.shape) for x in (q, k, v)}) > 1:
        raise node.unsupported("queries, keys and values of several ranks")
    lead = [node.sizes(x)[:-2] for x in (q, k, v)]
    if not enable_gqa and len(set(lead)) > 1:
        raise node.unsupported("batches that are broadcast")
    if enable_gqa and rank != 4:
        raise node.unsupported(f"groups of heads in {rank} dimensions")
    factor = _factor(node, q, scale)
    if rank == 4:
        found = node.call("attention", q, k, v, mask, scale=factor, causal=causal)
        return found
    batch = math.prod(lead[0])
    heads = [node.call("reshape", x, shape=(1, batch, *x.shape[-2:])) for x in (q, k, v)]
    if mask is not None and len(mask.shape) > 2:
        whole = (*lead[0], *mask.shape[-2:])
        mask = node.call("expand", mask, shape=whole)
        mask = node.call("reshape", mask, shape=(1, batch, *whole[-2:]))
    found = node.call("attention", *heads, mask, scale=factor, causal=causal)
    return node.call("reshape", found, shape=node.shape)


def _factor(node: NodeContext, q: Value, scale: float | None) -> float:
    if scale is not None:
        return scale
    return 1 / math.sqrt(node.known(q.shape[-1], "the size of a head"))


def _check(node: NodeContext, dropout: float, *tensors: Value) -> None:
    if dropout:
        raise node.unsupported(f"dropout_p={dropout}")
    if any(0 in x.shape for x in tensors):
        raise node.unsupported("of no elements")


@handler("aten._scaled_dot_product_flash_attention_for_cpu.default")
def flash_attention(
    node: NodeContext, q: Value, k: Value, v: Value, dropout: float = 0.0, causal: bool = False,
    *, attn_mask: Value | None = None, scale: float | None = None,
) -> Results:  # fmt: skip
    """Also log Σ exp of the scores of each query."""
    _check(node, dropout, q, k, v)
    factor = _factor(node, q, scale)
    found = node.call("attention", q, k, v, attn_mask, scale=factor, causal=causal)
    k = _for_queries(node, k, q)
    given = [q, k] if attn_mask is None else [q, k, attn_mask]

    def logsumexp(*tensors: Tensor) -> Tensor:
        scores = _scores(tensors, factor, causal)
        (j,) = axes_over(scores.shape[3:], ["j"])
        top = compute(scores.shape[:3], lambda *r: max_over(scores[(*r, j)], j), name="greatest")
        total = compute(top.shape, lambda *r: sum(exp(scores[(*r, j)] - top[r]), j), name="totals")
        return compute(top.shape, lambda *r: log(total[r]) + top[r], name="log_sums")

    result = node.results[1]
    assert result is not None
    sums = node.cast(node.call(logsumexp, *given), result.dtype)
    return found, sums


def _scores(tensors: tuple[Tensor, ...], factor: float, causal: bool) -> Tensor:
    """q kᵀ · factor + mask of (batch, heads, positions, features)."""
    q, k, *masks = tensors
    wide = q.dtype.compute
    (d,) = axes_over(q.shape[3:], ["d"])

    def product(b: Expr, h: Expr, i: Expr, j: Expr) -> Expr:
        return sum(cast(q[b, h, i, d], wide) * cast(k[b, h, j, d], wide), d) * factor

    shape = (*q.shape[:3], k.shape[2])
    raw = compute(shape, lambda b, h, i, j: product(b, h, i, j), name="scores")

    def masked(*at: Expr) -> Expr:
        value = raw[at]
        if causal:
            value = select(at[3] <= at[2], value, float("-inf"))
        for mask in masks:
            own = at[4 - mask.rank :]
            place = tuple(
                literal(0) if size == 1 else i for i, size in zip(own, mask.shape, strict=True)
            )
            more = mask[place]
            if mask.dtype.kind == "bool":
                value = select(more, value, float("-inf"))
            else:
                value = value + cast(more, wide)
        return value

    return compute(shape, lambda *i: masked(*i), name="masked_scores")


@handler("aten._scaled_dot_product_flash_attention_for_cpu_backward.default")
def flash_attention_backward(
    node: NodeContext, grad: Value, q: Value, k: Value, v: Value, out: Value, sums: Value,
    dropout: float, causal: bool, *, attn_mask: Value | None = None, scale: float | None = None,
) -> Results:  # fmt: skip
    """With weights p = exp(scores - sums): dv = pᵀ g; ds = p (g vᵀ - Σ g·out) · scale; dq = ds k;
    dk = dsᵀ q (Dao et al., 2022)."""
    _check(node, dropout, q, k, v)
    factor, heads = _factor(node, q, scale), [q, k, v]
    k, v = _for_queries(node, k, q), _for_queries(node, v, q)
    given = [q, k] if attn_mask is None else [q, k, attn_mask]

    def weights(total: Tensor, *tensors: Tensor) -> Tensor:
        scores = _scores(tensors, factor, causal)
        wide = scores.dtype
        return compute(
            scores.shape, lambda *i: exp(scores[i] - cast(total[i[:3]], wide)), name="weights"
        )

    def differences(p: Tensor, g: Tensor, values: Tensor, result: Tensor) -> Tensor:
        wide = p.dtype
        (d,) = axes_over(g.shape[3:], ["d"])
        inner = compute(
            p.shape[:3],
            lambda *r: sum(cast(g[(*r, d)], wide) * cast(result[(*r, d)], wide), d),
            name="inner",
        )

        def body(b: Expr, h: Expr, i: Expr, j: Expr) -> Expr:
            (e,) = axes_over(g.shape[3:], ["e"])
            product = sum(cast(g[b, h, i, e], wide) * cast(values[b, h, j, e], wide), e)
            return p[b, h, i, j] * (product - inner[b, h, i]) * factor

        return compute(p.shape, lambda b, h, i, j: body(b, h, i, j), name="score_gradient")

    p = node.call(weights, sums, *given)
    ds = node.call(differences, p, grad, v, out)
    wide = p.dtype
    results = (
        node.call("matmul", ds, node.cast(k, wide)),
        node.call("matmul", _turned(node, ds), node.cast(q, wide)),
        node.call("matmul", _turned(node, p), node.cast(grad, wide)),
    )
    summed = [_for_heads(node, found, x) for found, x in zip(results, heads, strict=True)]
    return tuple(node.cast(found, x.dtype) for found, x in zip(summed, heads, strict=True))


def _for_queries(node: NodeContext, keys: Value, q: Value) -> Value:
    """``keys`` or values once for each head of the queries ``q`` that they serve."""
    batch, heads, *rest = node.sizes(keys)
    shared = node.sizes(q)[1] // heads
    if shared == 1:
        return keys
    wide = node.call("reshape", keys, shape=(batch, heads, 1, *rest))
    wide = node.call("expand", wide, shape=(batch, heads, shared, *rest))
    return node.call("reshape", wide, shape=(batch, heads * shared, *rest))  # type: ignore[no-any-return]


def _for_heads(node: NodeContext, gradient: Value, heads: Value) -> Value:
    """The sums of ``gradient`` over the heads of queries that each of ``heads`` serves."""
    batch, count, *rest = node.sizes(heads)
    shared = node.sizes(gradient)[1] // count
    if shared == 1:
        return gradient
    split = node.call("reshape", gradient, shape=(batch, count, shared, *rest))
    return node.call("reduce_sum", split, axes=(2,), keepdims=False)  # type: ignore[no-any-return]


def _turned(node: NodeContext, x: Value) -> Value:
    return node.call("transpose", x, perm=(0, 1, 3, 2))  # type: ignore[no-any-return]
