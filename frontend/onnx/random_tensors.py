"""Handlers of random tensors and dropout.

A node without a seed draws from a stream that its name selects, so that two nodes differ and a
model gives the same numbers each time that it is compiled.
"""

from __future__ import annotations

import zlib
from typing import Any

from weft.frontend.onnx.context import NodeContext, Results, handler
from weft.frontend.onnx.quantization import dtype_attribute
from weft.ir import dtypes


def _stream(node: NodeContext) -> int:
    return zlib.crc32(repr((node.name, node.attribute("seed"))).encode())


def _seed(node: NodeContext) -> int | None:
    seed = node.attribute("seed")
    return None if seed is None else int(seed) & 0xFFFFFFFF


def _range(node: NodeContext) -> dict[str, Any]:
    if "Uniform" in node.op_type:
        low, high = node.attribute("low", 0.0), node.attribute("high", 1.0)
        return {"low": low, "high": high, "seed": _seed(node)}
    return {"mean": node.attribute("mean", 0.0), "scale": node.attribute("scale", 1.0)}


def _op(node: NodeContext) -> str:
    return "random_uniform" if "Uniform" in node.op_type else "random_normal"


@handler("RandomUniform")
@handler("RandomNormal")
def random_tensor(node: NodeContext) -> Results:
    shape = tuple(node.required("shape"))
    dtype = dtype_attribute(node, "dtype", dtypes.float32)
    return node.call(
        _op(node), None, shape=shape, dtype=dtype, stream=_stream(node), **_range(node)
    )


@handler("RandomUniformLike")
@handler("RandomNormalLike")
def random_like(node: NodeContext) -> Results:
    x = node.input(0)
    dtype = dtype_attribute(node, "dtype", x.dtype)
    return node.call(_op(node), x, dtype=dtype, stream=_stream(node), **_range(node))


@handler("Bernoulli")
def bernoulli(node: NodeContext) -> Results:
    x = node.input(0)
    dtype = dtype_attribute(node, "dtype", x.dtype)
    return node.call("bernoulli", x, dtype=dtype, seed=_seed(node), stream=_stream(node))


@handler("Multinomial")
def multinomial(node: NodeContext) -> Results:
    x = node.input(0)
    if len(x.shape) != 2:
        raise node.malformed(f"the input must be (batch, classes), its rank is {len(x.shape)}")
    return node.call(
        "multinomial",
        x,
        samples=node.attribute("sample_size", 1),
        dtype=dtype_attribute(node, "dtype", dtypes.int32),
        stream=_stream(node),
    )


def _dropout(node: NodeContext, ratio: float, training: bool) -> Results:
    """(y, mask): the mask is all true in inference, and has the dtype of x before opset 10."""
    x = node.input(0)
    if training and not 0 <= ratio < 1:
        raise node.malformed(f"ratio {ratio} is not in [0, 1)")
    mask_dtype = x.dtype if node.opset < 10 else dtypes.bool_
    if training and ratio > 0:
        y, mask = node.call("dropout", x, ratio=ratio, seed=_seed(node), stream=_stream(node))
        return y, mask if mask.dtype == mask_dtype else node.call("cast", mask, to=mask_dtype)
    ones = node.call("fill_like", x, value=1, dtype=mask_dtype) if node.wants(1) else None
    return x, ones


@handler("Dropout")
def dropout_test_attribute(node: NodeContext) -> Results:
    return _dropout(node, node.attribute("ratio", 0.5), not node.attribute("is_test", 0))


@handler("Dropout", since=7)
def dropout_inference(node: NodeContext) -> Results:
    return _dropout(node, node.attribute("ratio", 0.5), training=False)


@handler("Dropout", since=12)
def dropout(node: NodeContext) -> Results:
    _, ratio, training = node.inputs(3)
    in_training = training is not None and bool(node.static(training).any())
    value = 0.5 if ratio is None or not in_training else float(node.static(ratio).reshape(-1)[0])
    return _dropout(node, value, in_training)
