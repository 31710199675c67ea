"""What onnxruntime and onnx.reference get wrong, as narrow as can be: one answers for the other, or
random models do without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.end_to_end.random_types import is_float, rounding

Fault = Callable[[onnx.NodeProto, list[Any]], bool]


def _always(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return True


def _empty(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return any(isinstance(a, np.ndarray) and not a.size for a in reads)


def attribute(node: onnx.NodeProto, name: str) -> Any:
    return next((helper.get_attribute_value(a) for a in node.attribute if a.name == name), None)


def _dilated_same(node: onnx.NodeProto, reads: list[Any]) -> bool:
    same = attribute(node, "auto_pad") or b""
    return same.startswith(b"SAME") and max(attribute(node, "dilations") or [1]) > 1


def _dilated_or_ceiled(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return _same_or_ceiled(node, reads) or max(attribute(node, "dilations") or [1]) > 1


def _double_window(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return bool(attribute(node, "output_datatype") == TensorProto.DOUBLE)


def _no_axes(node: onnx.NodeProto, reads: list[Any]) -> bool:
    axes = reads[1] if len(reads) > 1 else attribute(node, "axes")
    return axes is not None and not len(axes)


def _one_row(node: onnx.NodeProto, reads: list[Any]) -> bool:
    logistic = attribute(node, "post_transform") == b"LOGISTIC"
    return logistic or len(attribute(node, "coefficients")) == reads[0].shape[-1]


def _scalar(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return bool(reads[0].ndim == 0)


def _whole_scaled(node: onnx.NodeProto, reads: list[Any]) -> bool:
    scales = {attribute(node, "alpha"), attribute(node, "beta")}
    return _whole(node, reads) and not scales <= {None, 1.0}


def _whole(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return not is_float(reads[0].dtype)


def _bfloat16(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return bool(reads[0].dtype == ml_dtypes.bfloat16)


def _narrow_grid(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return rounding(reads[1].dtype) > 1e-4


def _double_or_bfloat16(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return _double(node, reads) or _bfloat16(node, reads)


def _grouped(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return (attribute(node, "group") or 1) > 1


def _logistic(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return bool(attribute(node, "post_transform") == b"LOGISTIC")


def _one_sample(node: onnx.NodeProto, reads: list[Any]) -> bool:
    alone = reads[0].ndim > 1 and reads[0].size == reads[0].shape[1]
    return bool(attribute(node, "training_mode")) and alone


def _one_along(node: onnx.NodeProto, reads: list[Any]) -> bool:
    axes = attribute(node, "axes") or (0, 2, 3)
    return all(reads[0].shape[axis] == 1 for axis in axes if axis < reads[0].ndim)


def _no_range(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return not reads[0].any()


def _whole_image(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return not is_float(reads[0].dtype) or _narrow_grid(node, reads)


def _double(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return bool(reads[0].dtype == np.float64)


def _double_tanh(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return _double(node, reads) and attribute(node, "approximate") == b"tanh"


def _double_state(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return bool(reads[2].dtype == np.float64)


def _extreme(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return attribute(node, "aggregate_function") in (b"MIN", b"MAX", 2, 3)


def _corners_of_one(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return bool(attribute(node, "align_corners")) and 1 in reads[1][2:]


def _negative_maximum(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return attribute(node, "norm") == b"MAX"


def _no_text(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return "" in reads[0]


def _clipped(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return attribute(node, "clip") is not None or _empty(node, reads)


def _cubic_border(node: onnx.NodeProto, reads: list[Any]) -> bool:
    cubic = attribute(node, "mode") in (b"cubic", b"bicubic")
    return cubic and attribute(node, "padding_mode") == b"border"


def _window_of_one(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return bool(reads[0] == 1)


def _double_or_one(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return _double_window(node, reads) or _window_of_one(node, reads)


def _first_norm(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return bool(attribute(node, "p") == 1)


def _two_vectors(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return len(attribute(node, "vectors_per_class")) == 2


def _inverse_onesided(node: onnx.NodeProto, reads: list[Any]) -> bool:
    both = attribute(node, "inverse") and attribute(node, "onesided")
    return bool(both) or _double(node, reads)


def _one_score(node: onnx.NodeProto, reads: list[Any]) -> bool:
    post = attribute(node, "post_transform") not in (None, 0, b"NONE")
    few = attribute(node, "n_targets") in (None, 1, 2)
    return _extreme(node, reads) or (post and few) or bool(attribute(node, "base_values"))


def _indexed(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return len(node.output) > 1 or _same(node, reads)


def _unsorted(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return bool(attribute(node, "sorted") == 0)


def _one_class(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return set(attribute(node, "class_ids")) not in ({0}, {0, 1}, {0, 1, 2}, {0, 2}, {1, 2})


def _cropped(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return bool(attribute(node, "coordinate_transformation_mode") == b"tf_crop_and_resize")


def _cropped_by_scales(node: onnx.NodeProto, reads: list[Any]) -> bool:
    scaled = len(reads) > 2 and reads[2] is not None
    corners = attribute(node, "coordinate_transformation_mode") == b"align_corners"
    narrow = corners and _double(node, reads)
    return _cut(node, reads) or (_cropped(node, reads) and scaled) or narrow


def _cut(node: onnx.NodeProto, reads: list[Any]) -> bool:
    """Whether whole numbers come of interpolation: ONNX does not say how."""
    return attribute(node, "mode") not in (None, b"nearest") and _whole(node, reads)


def _special_resize(node: onnx.NodeProto, reads: list[Any]) -> bool:
    x, outer = reads[0], False
    for given in reads[1:]:
        if given is not None and len(given) == x.ndim:
            same = [1] * x.ndim if is_float(given.dtype) else list(x.shape)
            outer |= list(given[:-2]) != same[:-2]
    linear = attribute(node, "mode") == b"linear" and outer
    mode = attribute(node, "coordinate_transformation_mode")
    cut = mode in (b"align_corners", b"half_pixel_symmetric")
    return linear or cut or _double(node, reads) or _cropped(node, reads) or _cut(node, reads)


def _same(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return (attribute(node, "auto_pad") or b"").startswith(b"SAME")


def _same_or_ceiled(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return _same(node, reads) or bool(attribute(node, "ceil_mode"))


def _transformed(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return bool(attribute(node, "post_transform"))


def _special_recurrence(node: onnx.NodeProto, reads: list[Any]) -> bool:
    return bool({a.name for a in node.attribute} - {"hidden_size"}) or _empty(node, reads)


# What onnxruntime 1.32 gets wrong; onnx.reference answers instead.
FAULTS: dict[str, tuple[Fault, str]] = {
    "QGemm": (_empty, "writes bytes of a bias where nothing is summed up"),
    "MatMulIntegerToFloat": (_empty, "leaves out the bias where nothing is summed up"),
    "DynamicQuantizeMatMul": (_empty, "leaves out the bias where nothing is summed up"),
    "QAttention": (_empty, "leaves out the bias where nothing is summed up"),
    "Einsum": (_empty, "divides by 0 (SIGFPE)"),
    "RoiAlign": (_empty, "reads outside (SIGSEGV)"),
    "MaxRoiPool": (_empty, "reads outside (SIGSEGV)"),
    "InstanceNormalization": (_empty, "reads outside (SIGSEGV)"),
    "RNN": (_empty, "aborts"),
    "GRU": (_empty, "aborts"),
    "LSTM": (_clipped, "does not clip what the last activation reads; aborts if empty"),
    "GridSample": (_cubic_border, "clamps each tap, not the coordinate"),
    "Attention": (_double, "has its scale, and the root of that, in float32"),
    "BatchNormalization": (_one_sample, "multiplies by 300 before it takes the mean off"),
    "GroupNormalization": (_double, "computes in float32"),
    "MeanVarianceNormalization": (_one_along, "divides 0 by 0"),
    "Shrink": (_double, "computes in float32"),
    "RotaryEmbedding": (_empty, "answers for nothing, which ONNX's own body cannot"),
    "SVMClassifier": (_two_vectors, "chooses labels by the sign of one score"),
    "BlackmanWindow": (_double_or_one, "has coefficients of float32; divides 0 by 0"),
    "HannWindow": (_double_or_one, "has coefficients of float32; divides 0 by 0"),
    "HammingWindow": (_double_or_one, "has coefficients of float32; divides 0 by 0"),
    "MaxPool": (_dilated_same, "forgets dilations where it pads to the same size"),
    "AveragePool": (_dilated_same, "forgets dilations where it pads to the same size"),
    "LpPool": (_dilated_same, "forgets dilations where it pads to the same size"),
    "Squeeze": (_no_axes, "takes an empty list of axes for none given"),
    "HardSwish": (_double, "takes a sixth for its float32"),
    "DFT": (_inverse_onesided, "has factors of float32; takes half a spectrum for a whole one"),
    "Gelu": (_double_tanh, "has constants of float32"),
    "Resize": (
        _special_resize,
        "has weights of float32, crops where the size changes, aligns corners of whole sizes,"
        " rounds symmetric coordinates",
    ),
    "NegativeLogLikelihoodLoss": (_empty, "has a mean of nothing, which ONNX leaves open"),
    "SoftmaxCrossEntropyLoss": (_empty, "has a mean of nothing, which ONNX leaves open"),
    "ConvTranspose": (_same, "gives less than the size asked for if kernels are small"),
    "TreeEnsemble": (_one_score, "gives 0 to what no leaf is for, leaves softmax of one out"),
    "TreeEnsembleRegressor": (_one_score, "gives 0 to what no leaf is for, as TreeEnsemble does"),
    "TreeEnsembleClassifier": (
        _always,
        "knows classes without a score, and one of two by the other",
    ),
    "Upsample": (_special_resize, "interpolates along the last two axes only"),
    "AffineGrid": (_corners_of_one, "takes the last corner, where others take the first one"),
    "CausalConvWithState": (_empty, "divides by 0 (SIGFPE)"),
    "Normalizer": (_negative_maximum, "divides by the maximum, not that of magnitudes"),
    "StringSplit": (_no_text, "finds no part in no text"),
    "LinearClassifier": (
        _one_row,
        "gives 1 - s or -s beside a single score; small probabilities are cut",
    ),
    "NonZero": (_scalar, "gives a scalar one dimension"),
    "DynamicQuantizeLinear": (_no_range, "has some scale for nothing but zeros"),
    "ReduceProd": (_whole, "multiplies whole numbers as floats, which hold no multiples of 2**32"),
    "ReduceMean": (_empty, "gives 0 for the mean of nothing, which ONNX leaves open"),
    "ReduceLogSumExp": (_whole, "cuts the logarithm of whole numbers before it adds their maximum"),
}

# What onnx.reference 1.23 gets wrong; there is no such node then.
REFERENCE_FAULTS: dict[str, tuple[Fault, str]] = {
    "TreeEnsembleClassifier": (_one_class, "takes the scores of class 0 for those of the only one"),
    "NegativeLogLikelihoodLoss": (_empty, "has a mean of nothing, which ONNX leaves open"),
    "SoftmaxCrossEntropyLoss": (_empty, "has a mean of nothing, which ONNX leaves open"),
    "Resize": (
        _cropped_by_scales,
        "ignores the region given scales; cuts integers; corners in float32",
    ),
    "AveragePool": (_dilated_or_ceiled, "ignores dilations, pads by less than nothing, or beyond"),
    "BlackmanWindow": (_window_of_one, "divides 0 by 0"),
    "DynamicQuantizeLinear": (_no_range, "has some scale for nothing but zeros"),
    "ReduceMean": (_empty, "casts NaN to whole numbers"),
    "Erf": (_double, "computes in float32"),
    "Attention": (_double, "has its scale, and the root of that, in float32"),
    "Gemm": (_whole_scaled, "cuts floats to whole numbers that do not hold them"),
    "RMSNormalization": (_bfloat16, "adds squares up in bfloat16"),
    "Unique": (_unsorted, "sorts all the same, or takes along the first axis"),
    "FlexAttention": (_empty, "takes sizes of 0 for those of another dimension"),
    "GroupNormalization": (_double, "computes in float32"),
    "HammingWindow": (_window_of_one, "divides 0 by 0"),
    "HannWindow": (_window_of_one, "divides 0 by 0"),
    "LRN": (_always, "takes the number of images for that of channels"),
    "LpPool": (_same_or_ceiled, "pads by less than nothing, or beyond the last window"),
    "MaxPool": (_indexed, "pads by less than nothing; counts indices within channels"),
    "RotaryEmbedding": (_empty, "answers for nothing, which ONNX's own body cannot"),
    "LogSoftmax": (_bfloat16, "takes the logarithm of a sum in bfloat16"),
    "LpNormalization": (_first_norm, "adds numbers up, not their magnitudes"),
    "QLinearConv": (_always, "rounds the sum with the zero point: ties go elsewhere"),
    "QLinearMatMul": (_always, "rounds the sum with the zero point: ties go elsewhere"),
    "Adagrad": (_double_state, "takes 1 - alpha, and so on, in float32"),
    "Adam": (_double_state, "takes 1 - alpha, and so on, in float32"),
    "HardSwish": (_double, "takes a sixth for its float32"),
    "Gelu": (_double_or_bfloat16, "has constants of float32; adds 1 in bfloat16"),
    "ConvTranspose": (_grouped, "adds another group's bias"),
    "LinearClassifier": (_logistic, "chooses labels by scores that came to 1"),
    "TreeEnsemble": (_transformed, "ignores post_transform"),
    "RNN": (_special_recurrence, "knows one direction and the default activations"),
    "GRU": (_special_recurrence, "knows one direction and the default activations"),
    "GridSample": (_whole_image, "has weights of the image's type, coordinates of the grid's"),
    "LSTM": (_special_recurrence, "knows one direction and the default activations"),
}


def faulty(
    table: Mapping[str, tuple[Fault, str]],
    nodes: Sequence[onnx.NodeProto],
    known: Mapping[str, Any],
) -> bool:
    return any(
        node.op_type in table and table[node.op_type][0](node, [known.get(n) for n in node.input])
        for node in nodes
    )
