"""Handlers of ai.onnx.ml: feature scaling, linear models, support vector machines."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from weft.frontend.onnx.context import NodeContext, Results, handler
from weft.ir import dtypes
from weft.ir.dtypes import DType
from weft.ir.operator_graph import Value
from weft.ir.tensor_expr import Size, constant_size

ML = "ai.onnx.ml"


def floats(node: NodeContext, name: str, dtype: DType = dtypes.float32) -> np.ndarray:
    """A float attribute as an array, empty where it is absent."""
    return np.array(node.attribute(name, []), dtype.numpy)


def rows_of(node: NodeContext, *, dtype: DType | None = None) -> Value:
    """Input 0 as floats (sample, feature): one sample where it has one dimension."""
    x = node.input(0)
    wide = dtypes.float64 if x.dtype == dtypes.float64 else dtypes.float32
    x = node.call("cast", x, to=dtype or wide) if x.dtype != (dtype or wide) else x
    if len(x.shape) == 1:
        x = node.call("reshape", x, shape=(1, *x.shape))
    if len(x.shape) != 2:
        raise node.malformed(f"shape {x.shape} is not (sample, feature)")
    return x


def width_of(node: NodeContext, x: Value) -> int:
    """The number of features, which the model's tables must match."""
    size = constant_size(x.shape[1])
    if size is None:
        raise node.unsupported("an unknown number of features")
    return size


def as_float(node: NodeContext, x: Value) -> Value:
    """``x`` as float32, which ONNX's classical operators give."""
    if x.dtype == dtypes.float32:
        return x
    result: Value = node.call("cast", x, to=dtypes.float32)
    return result


def table(node: NodeContext, data: np.ndarray, *shape: int) -> np.ndarray:
    """``data`` in ``shape`` (-1 once); malformed where it does not fit."""
    try:
        return data.reshape(shape)
    except ValueError:
        raise node.malformed(f"{data.size} numbers do not fit the shape {shape}") from None


def label_values(node: NodeContext, *names: str) -> np.ndarray | None:
    """The integer class labels; None where the labels are strings that nobody asks for."""
    for name in names:
        labels = node.attribute(name)
        if labels:
            return np.array(labels, np.int64)
    if node.attribute("classlabels_strings"):
        if node.wants(0):
            raise node.unsupported("string labels")
        return None
    return None


def class_count(node: NodeContext, *names: str) -> int:
    return max((len(node.attribute(n, [])) for n in (*names, "classlabels_strings")), default=0)


def label_of(node: NodeContext, index: Value, labels: np.ndarray | None) -> Value:
    """The labels at class indices."""
    if labels is None:
        return index
    result: Value = node.call("gather", node.constant(labels), index, axis=0)
    return result


def best_class(node: NodeContext, scores: Value) -> Value:
    """(sample) -> the class with the greatest score, the first of several."""
    result: Value = node.call("arg_max", scores, axis=1, keepdims=False, select_last_index=False)
    return result


def classified(node: NodeContext, scores: Value, kind: str) -> tuple[Value, Value]:
    """The best class, and the transformed scores, which may be equal where the scores are not.

    Those of PROBIT, which is not defined outside of 0 … 1, and SOFTMAX_ZERO, which has no place for
    0, decide themselves.
    """
    after: Value = node.call("post_transform", scores, kind=kind)
    return best_class(node, after if kind in ("PROBIT", "SOFTMAX_ZERO") else scores), after


# ---- features -----------------------------------------------------------------------------------


@handler("Binarizer", domain=ML)
def binarizer(node: NodeContext) -> Results:
    return node.call("binarize", node.input(0), threshold=node.attribute("threshold", 0.0))


@handler("Scaler", domain=ML)
def scaler(node: NodeContext) -> Results:
    offset, scale = floats(node, "offset"), floats(node, "scale")
    if not offset.size or not scale.size:
        raise node.malformed("offset and scale are needed")
    x = node.input(0)
    given = node.constant(offset), node.constant(scale)
    return node.call("scale_features", x, *given, to=dtypes.float32)


@handler("Normalizer", domain=ML)
def normalizer(node: NodeContext) -> Results:
    x = as_float(node, node.input(0))
    return node.call("normalize_rows", x, norm=node.attribute("norm", "MAX"))


@handler("FeatureVectorizer", domain=ML)
def feature_vectorizer(node: NodeContext) -> Results:
    inputs = node.all_inputs()
    widths: Sequence[int | None] = node.attribute("inputdimensions", [None] * len(inputs))
    if len(widths) != len(inputs) or not inputs:
        raise node.malformed(f"{len(widths)} inputdimensions for {len(inputs)} inputs")
    parts = []
    for value, width in zip(inputs, widths, strict=True):
        x = as_float(node, value)
        if len(x.shape) == 1:
            x = node.call("reshape", x, shape=(*x.shape, 1))
        if len(x.shape) != 2:
            raise node.malformed(f"an input of shape {value.shape}")
        missing = 0 if width is None else width - width_of(node, x)
        if missing:
            padding = {"before": (0, 0), "after": (0, missing), "mode": "constant"}
            x = node.call("pad", x, None, **padding)
        parts.append(x)
    return node.call("concat", *parts, axis=1)


@handler("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(node: NodeContext) -> Results:
    x, indices = node.input(0), node.input(1)
    count: Size = 1
    for size in indices.shape:
        count = count * size
    flat = node.call("reshape", indices, shape=(count,))
    chosen = node.call("gather", x, flat, axis=-1)
    return node.call("reshape", chosen, shape=(1, count)) if len(x.shape) == 1 else chosen


# ---- linear models ------------------------------------------------------------------------------


def _scores(node: NodeContext, x: Value, weights: np.ndarray, intercepts: np.ndarray) -> Value:
    """``x`` times ``weights`` (target, feature) plus ``intercepts``, absent or one for all too."""
    if intercepts.size in (0, 1):
        fill = intercepts.reshape(-1)[0] if intercepts.size else 0
        intercepts = np.full(len(weights), fill, weights.dtype)
    given = (node.constant(a.astype(x.dtype.numpy)) for a in (weights, intercepts))
    result: Value = node.call("linear_model", x, *given)
    return result


@handler("LinearRegressor", domain=ML)
def linear_regressor(node: NodeContext) -> Results:
    x = rows_of(node)
    weights = table(
        node, floats(node, "coefficients"), node.attribute("targets", 1), width_of(node, x)
    )
    scores = as_float(node, _scores(node, x, weights, floats(node, "intercepts")))
    return node.call("post_transform", scores, kind=node.attribute("post_transform", "NONE"))


@handler("LinearClassifier", domain=ML)
def linear_classifier(node: NodeContext) -> Results:
    x = rows_of(node)
    labels = label_values(node, "classlabels_ints")
    kind = node.attribute("post_transform", "NONE")
    weights = table(node, floats(node, "coefficients"), -1, width_of(node, x))
    scores = as_float(node, _scores(node, x, weights, floats(node, "intercepts")))
    if len(weights) == 1 and class_count(node, "classlabels_ints") == 2:
        scores = node.call("two_sided", scores, complement=False)
    best, scores = classified(node, scores, kind)
    if constant_size(scores.shape[1]) != 1:
        return label_of(node, best, labels), scores
    yes = 1 if labels is None else int(labels[0])
    threshold = 0.0 if kind == "NONE" else 0.5
    return node.call("at_least", scores, threshold=threshold, yes=yes, no=0), scores


# ---- support vector machines --------------------------------------------------------------------


def _kernel(node: NodeContext, x: Value, vectors: np.ndarray) -> Value:
    parameters = node.attribute("kernel_params", []) or [0.0, 0.0, 0.0]
    if len(parameters) != 3:
        raise node.malformed(f"{len(parameters)} kernel_params, not 3")
    gamma, coef0, degree = parameters
    kind = node.attribute("kernel_type", "LINEAR")
    given = node.constant(vectors.astype(x.dtype.numpy))
    result: Value = node.call(
        "kernel", x, given, kind=kind, parameters=(gamma, coef0, float(int(degree)))
    )
    return result


@handler("SVMRegressor", domain=ML)
def svm_regressor(node: NodeContext) -> Results:
    x = rows_of(node)
    count = node.attribute("n_supports", 0)
    weights = table(node, floats(node, "coefficients"), 1, -1)
    if count > 0:
        vectors = table(node, floats(node, "support_vectors"), count, width_of(node, x))
        x = _kernel(node, x, vectors)
    table(node, weights, 1, width_of(node, x))
    scores = as_float(node, _scores(node, x, weights, floats(node, "rho")[:1]))
    if node.attribute("one_class", 0):
        side = node.call("at_least", scores, threshold=0.0, yes=1, no=-1, strictly=True)
        column = node.call("reshape", side, shape=(side.shape[0], 1))
        return node.call("cast", column, to=dtypes.float32)
    return node.call("post_transform", scores, kind=node.attribute("post_transform", "NONE"))


@handler("SVMClassifier", domain=ML)
def svm_classifier(node: NodeContext) -> Results:
    x = rows_of(node)
    labels = label_values(node, "classlabels_ints")
    classes = max(class_count(node, "classlabels_ints"), 1)
    kind = node.attribute("post_transform", "NONE")
    rho, coefficients = floats(node, "rho"), floats(node, "coefficients")
    per_class = node.attribute("vectors_per_class", [])
    if per_class:
        if len(per_class) != classes or any(count < 0 for count in per_class):
            raise node.malformed(f"vectors_per_class {per_class} for {classes} classes")
        vectors = table(node, floats(node, "support_vectors"), sum(per_class), width_of(node, x))
        duels, pairs = _duels(node, coefficients, per_class)
        scores = _scores(node, _kernel(node, x, vectors), duels, table(node, rho, len(pairs)))
        sides = (node.constant(np.array(s, np.int64)) for s in zip(*pairs, strict=True))
        votes = node.call("pairwise_votes", scores, *sides, classes=classes)
        if node.attribute("prob_a"):
            label = label_of(node, best_class(node, votes), labels)
            chances = as_float(node, _probabilities(node, scores, pairs, classes))
            return label, node.call("post_transform", chances, kind=kind)
    else:
        weights = table(node, coefficients, classes, width_of(node, x))
        scores = votes = _scores(node, x, weights, rho[:1])
    label = _svm_label(node, votes, labels, classes, rho.size == 1, bool(min(coefficients) >= 0))
    scores = as_float(node, scores)
    if constant_size(scores.shape[1]) == 1 and rho.size == 1 and classes == 2 and kind != "PROBIT":
        scores = node.call("two_sided", scores, complement=False)
    return label, node.call("post_transform", scores, kind=kind)


def _duels(
    node: NodeContext, coefficients: np.ndarray, per_class: Sequence[int]
) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Every pair of classes and its weights of all support vectors, (pair, vector)."""
    classes, count = len(per_class), sum(per_class)
    own = table(node, coefficients, classes - 1, count)
    ends = list(itertools.accumulate(per_class, initial=0))
    pairs = list(itertools.combinations(range(classes), 2))
    if not pairs:
        raise node.malformed("a classifier of one class")
    weights = np.zeros((len(pairs), count), coefficients.dtype)
    for row, (i, j) in enumerate(pairs):
        weights[row, ends[i] : ends[i + 1]] = own[j - 1, ends[i] : ends[i + 1]]
        weights[row, ends[j] : ends[j + 1]] = own[i, ends[j] : ends[j + 1]]
    return weights, pairs


def _probabilities(
    node: NodeContext, scores: Value, pairs: Sequence[tuple[int, int]], classes: int
) -> Value:
    pair_of = np.zeros((classes, classes), np.int64)
    for number, (i, j) in enumerate(pairs):
        pair_of[i, j] = number
    slopes, offsets = (
        table(node, floats(node, name, scores.dtype), len(pairs)) for name in ("prob_a", "prob_b")
    )
    result: Value = node.call(
        "couple_duels", scores, *map(node.constant, (slopes, offsets, pair_of))
    )
    return result


def _svm_label(
    node: NodeContext,
    votes: Value,
    labels: np.ndarray | None,
    classes: int,
    single: bool,
    positive: bool,
) -> Value:
    """The label as onnx.reference and onnxruntime choose it; ``single``: there is one rho."""
    result: Value
    if single and classes != 2:
        result = node.call("at_least", votes, threshold=0.0, yes=1, no=0, strictly=True)
        return result
    best = best_class(node, votes)
    if single and positive:
        sure = node.call("at_least", votes, threshold=0.5, yes=1, no=0)
        best = node.call("max", best, sure)
    return label_of(node, best, labels)
