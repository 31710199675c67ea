"""Handlers of normalisations. Those in training are made of means and variances by PyTorch's own
definitions, and so are gradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.frontend.torch.context import NodeContext, Results, handler
from weft.ir import dtypes
from weft.ir.operator_graph import Value
from weft.ir.tensor_expr import Size


def parameter(node: NodeContext, given: Value | None, shape: Sequence[Size], value: float) -> Value:
    """``given``, or where it is absent ones (zeros)."""
    if given is not None:
        return given
    sizes = [node.known(size, "the size of an absent parameter") for size in shape]
    return node.constant(np.full(sizes, value, node.dtype.numpy))


@handler("aten.native_layer_norm.default")
def layer_norm(
    node: NodeContext, x: Value, normalized: Sequence[int], weight: Value | None,
    bias: Value | None, eps: float,
) -> Results:  # fmt: skip
    axis = len(x.shape) - len(normalized)
    scale = parameter(node, weight, normalized, 1)
    y, *statistics = node.call(
        "layer_norm", x, scale, bias, axis=axis, epsilon=eps, stash=dtypes.float32
        if x.dtype != dtypes.float64 else dtypes.float64, statistics=True,
    )  # fmt: skip
    kept = [
        node.call("reshape", node.cast(s, r.dtype), shape=r.shape)
        for s, r in zip(statistics, node.results[1:], strict=True)
        if r is not None
    ]
    return y, *kept


@handler("aten._native_batch_norm_legit_no_training.default")
def batch_norm(
    node: NodeContext, x: Value, weight: Value | None, bias: Value | None, mean: Value,
    variance: Value, momentum: float, eps: float,
) -> Results:  # fmt: skip
    """The statistics that come second and third are empty."""
    channels = node.sizes(mean)
    scale, shift = parameter(node, weight, channels, 1), parameter(node, bias, channels, 0)
    coefficients = node.call("batch_norm_coefficients", scale, shift, mean, variance, epsilon=eps)
    empty = [
        node.call("fill", shape=r.shape, value=0, dtype=r.dtype)
        for r in node.results[1:]
        if r is not None
    ]
    return node.call("scale_shift", x, *coefficients), *empty
