"""Handlers of normalisations."""

from __future__ import annotations

from weft.frontend.onnx.context import NodeContext, Results, handler
from weft.ir import dtypes
from weft.ir.dtypes import DType

_STASH = {1: dtypes.float32, 10: dtypes.float16, 11: dtypes.float64, 16: dtypes.bfloat16}


@handler("BatchNormalization")
def batch_norm_before_14(node: NodeContext) -> Results:
    """Training where is_test says so (opsets 1 to 6), later where more than Y is asked for."""
    training = not node.attribute("is_test", 0) if node.opset < 7 else node.n_outputs > 1
    if not training:
        return _inference(node)
    return node.call("batch_norm_training", *_five(node), **_training(node))[: node.n_outputs]


@handler("BatchNormalization", since=14)
def batch_norm(node: NodeContext) -> Results:
    if not node.attribute("training_mode", 0):
        if node.n_outputs > 1:
            raise node.malformed("running statistics are outputs of training_mode 1 only")
        return _inference(node)
    return node.call("batch_norm_training", *_five(node), **_training(node))[: node.n_outputs]


def _five(node: NodeContext):  # type: ignore[no-untyped-def]
    return [node.input(i) for i in range(5)]


def _training(node: NodeContext) -> dict[str, float]:
    return {"epsilon": _epsilon(node), "momentum": float(node.attribute("momentum", 0.9))}


def _inference(node: NodeContext) -> Results:
    x, *parameters = _five(node)
    scale, shift = node.call("batch_norm_coefficients", *parameters, epsilon=_epsilon(node))
    return node.call("scale_shift", x, scale, shift)


@handler("LayerNormalization")
def layer_norm(node: NodeContext) -> Results:
    results = node.call(
        "layer_norm",
        *node.inputs(3),
        axis=int(node.attribute("axis", -1)),
        epsilon=_epsilon(node),
        stash=_stash(node),
        statistics=node.n_outputs > 1,
    )
    return results[: node.n_outputs] if node.n_outputs > 1 else results


@handler("RMSNormalization")
def rms_norm(node: NodeContext) -> Results:
    return node.call(
        "rms_norm",
        node.input(0),
        node.input(1),
        axis=int(node.attribute("axis", -1)),
        epsilon=_epsilon(node),
        stash=_stash(node),
    )


@handler("InstanceNormalization")
def instance_norm(node: NodeContext) -> Results:
    inputs = [node.input(i) for i in range(3)]
    return node.call("instance_norm", *inputs, epsilon=_epsilon(node))


@handler("GroupNormalization")
def group_norm(node: NodeContext) -> Results:
    return node.call(
        "group_norm",
        *(node.input(i) for i in range(3)),
        groups=int(node.required("num_groups")),
        epsilon=_epsilon(node),
        stash=_stash(node),
    )


@handler("LpNormalization")
def lp_normalization(node: NodeContext) -> Results:
    axis, p = int(node.attribute("axis", -1)), int(node.attribute("p", 2))
    if p not in (1, 2):
        raise node.malformed(f"p must be 1 or 2, got {p}")
    return node.call("lp_normalization", node.input(0), axis=axis, p=p)


@handler("LRN")
def lrn(node: NodeContext) -> Results:
    return node.call(
        "lrn",
        node.input(0),
        size=int(node.required("size")),
        alpha=float(node.attribute("alpha", 1e-4)),
        beta=float(node.attribute("beta", 0.75)),
        bias=float(node.attribute("bias", 1.0)),
    )


@handler("MeanVarianceNormalization")
def mean_variance_norm(node: NodeContext) -> Results:
    axes = tuple(int(a) for a in node.attribute("axes", (0, 2, 3)))
    return node.call("mean_variance_norm", node.input(0), axes=axes)


def _epsilon(node: NodeContext) -> float:
    return float(node.attribute("epsilon", 1e-5))


def _stash(node: NodeContext) -> DType:
    code = int(node.attribute("stash_type", 1))
    if code not in _STASH:
        raise node.malformed(f"stash_type {code} is not a float type")
    return _STASH[code]
