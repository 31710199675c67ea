"""Random nodes of ai.onnx.ml: features, linear models, support vectors, trees."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import numpy_helper

from tests.end_to_end.random_models import F32, I64, Growing, Refused
from tests.end_to_end.random_operators import makes

ML = "ai.onnx.ml"
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def rows(g: Growing, op_type: str) -> tuple[str, int]:
    """(sample, feature) of any type, and the number of features."""
    x = g.tensor(op_type, 0, 2, 2, most=7, domain=ML)
    if not g.values[x].shape[1]:
        raise Refused("no features")
    return x, g.values[x].shape[1]


def floats(g: Growing, count: int) -> list[float]:
    return [round(float(v), 3) for v in g.rng.standard_normal(count)]


@makes("ArrayFeatureExtractor", "Binarizer", "FeatureVectorizer", "Imputer", "LabelEncoder",
       "Normalizer", "OneHotEncoder", "Scaler", domain=ML)  # fmt: skip
def feature(g: Growing, op_type: str) -> None:
    x, width = rows(g, op_type)
    whole = g.values[x].dtype.kind in "iu"
    keys = g.rng.permutation(9)[:4].tolist()
    flags: dict[str, Any] = {}
    if op_type == "ArrayFeatureExtractor":
        g.add(op_type, x, g.fixed(g.rng.integers(0, width, g.size(4)), I64), domain=ML)
        return
    match op_type:
        case "Binarizer":
            flags = {"threshold": g.choice(0.0, 0.5)}
        case "FeatureVectorizer":
            flags = {"inputdimensions": [width]}
        case "Imputer" if whole:
            values = g.integers(-5, 5, g.choice(1, width))
            flags = {"imputed_value_int64s": values, "replaced_value_int64": keys[0]}
        case "Imputer":
            values = floats(g, g.choice(1, width))
            flags = {
                "imputed_value_floats": values,
                "replaced_value_float": g.choice(float("nan"), 1.0),
            }
        case "LabelEncoder":
            key, value = g.choice(("int64s", "floats"), ("int64s", "int64s"), ("floats", "int64s"))
            x = g.tensor(op_type, 0, 1, 3, domain=ML, types=[I64 if key == "int64s" else F32])
            kept = keys if key == "int64s" else [float(k) for k in keys]
            given = floats(g, 4) if value == "floats" else g.integers(-5, 5, 4)
            flags = {f"keys_{key}": kept, f"values_{value}": given}
            flags |= g.some(**{f"default_{value[:-1]}": 7})
        case "Normalizer":
            flags = {"norm": g.choice("MAX", "L1", "L2")}
        case "OneHotEncoder":
            x = g.fixed(g.rng.choice(keys, g.shape(g.choice(1, 2), 5)), I64)
            flags = {"cats_int64s": keys} | g.some(zeros=1)
        case "Scaler":
            count = g.choice(1, width)
            flags = {"offset": floats(g, count), "scale": floats(g, count)}
    g.add(op_type, x, domain=ML, **flags)


@makes("LinearClassifier", "LinearRegressor", domain=ML)
def linear(g: Growing, op_type: str) -> None:
    x, width = rows(g, op_type)
    n, post = g.choice(1, 2, 3), g.choice(*TRANSFORMS[:4])
    flags: dict[str, Any] = {
        "coefficients": floats(g, n * width),
        **g.some(intercepts=floats(g, n)),
    }
    if op_type == "LinearRegressor":
        g.add(op_type, x, domain=ML, targets=n, **flags)
    else:
        labels = {"classlabels_ints": list(range(3, 3 + max(n, 2)))}
        g.add(op_type, x, outputs=2, domain=ML, post_transform=post, **labels, **flags)


@makes("SVMClassifier", "SVMRegressor", domain=ML)
def support(g: Growing, op_type: str) -> None:
    x, width = rows(g, op_type)
    classes = g.choice(2, 3)
    per_class = g.integers(1, 3, classes)
    count = sum(per_class)
    flags: dict[str, Any] = {
        "kernel_type": g.choice("LINEAR", "POLY", "RBF", "SIGMOID"),
        "kernel_params": [0.3, 0.5, 2.0],
        "support_vectors": floats(g, count * width),
    }
    if op_type == "SVMRegressor":
        g.add(op_type, x, domain=ML, n_supports=count, coefficients=floats(g, count),
              rho=floats(g, 1), **flags, **g.some(one_class=int(g.chance(0.5))))  # fmt: skip
        return
    pairs = classes * (classes - 1) // 2
    flags |= {"rho": floats(g, pairs), "coefficients": floats(g, count * (classes - 1))}
    if g.chance(0.5):
        flags |= {"prob_a": floats(g, pairs), "prob_b": floats(g, pairs)}
    g.add(op_type, x, outputs=2, domain=ML, vectors_per_class=per_class,
          classlabels_ints=list(range(classes)), **flags)  # fmt: skip


def forest(g: Growing, width: int) -> dict[str, Any]:
    """Trees of two levels, their leaves numbered 3 to 6 in each."""
    found: dict[str, list[Any]] = {name: [] for name in (
        "treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
        "missing_value_tracks_true")}  # fmt: skip
    modes = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
    for tree in range(g.choice(1, 2, 3)):
        for node in range(7):
            inner = node < 3
            found["treeids"].append(tree)
            found["nodeids"].append(node)
            found["featureids"].append(int(g.rng.integers(0, max(width, 1))) if inner else 0)
            found["values"].append(g.choice(-1.0, 0.0, 0.5, 2.0) if inner else 0.0)
            found["modes"].append(g.choice(*modes) if inner else "LEAF")
            found["truenodeids"].append(2 * node + 1 if inner else 0)
            found["falsenodeids"].append(2 * node + 2 if inner else 0)
            found["missing_value_tracks_true"].append(int(g.chance(0.5)) if inner else 0)
    return {f"nodes_{name}": values for name, values in found.items()}


@makes("TreeEnsembleClassifier", "TreeEnsembleRegressor", domain=ML)
def trees(g: Growing, op_type: str) -> None:
    x, width = rows(g, op_type)
    flags, n = forest(g, width), g.choice(1, 2, 3)
    count = flags["nodes_treeids"][-1] + 1
    leaves = [(tree, node) for tree in range(count) for node in range(3, 7)]
    prefix = "target" if op_type == "TreeEnsembleRegressor" else "class"
    classes = max(n, 2)
    flags |= {
        f"{prefix}_treeids": [t for t, _ in leaves], f"{prefix}_nodeids": [k for _, k in leaves],
        f"{prefix}_ids": g.integers(0, (n if prefix == "target" else classes) - 1, len(leaves)),
        f"{prefix}_weights": floats(g, len(leaves)),
    }  # fmt: skip
    if prefix == "target":
        g.add(op_type, x, domain=ML, n_targets=n, **flags, **g.some(base_values=floats(g, n)),
              aggregate_function=g.choice("SUM", "AVERAGE", "MIN", "MAX"))  # fmt: skip
    else:
        g.add(op_type, x, outputs=2, domain=ML, classlabels_int64s=list(range(classes)), **flags,
              **g.some(post_transform=g.choice(*TRANSFORMS[:4])))  # fmt: skip


@makes("TreeEnsemble", domain=ML)
def tree_ensemble(g: Growing, op_type: str) -> None:
    x, width = rows(g, op_type)
    dtype, n = g.values[x].dtype, g.choice(1, 2)
    inner, leaves = 3, 4

    def tensor(values: Any, dtype: np.dtype) -> Any:
        return numpy_helper.from_array(np.asarray(values, dtype))

    g.add(
        op_type, x, domain=ML, n_targets=n, tree_roots=[0],
        nodes_featureids=g.integers(0, max(width - 1, 0), inner),
        nodes_splits=tensor(floats(g, inner), dtype),
        nodes_modes=tensor(g.integers(0, 5, inner), np.dtype(np.uint8)),
        nodes_truenodeids=[1, 0, 2], nodes_trueleafs=[0, 1, 1],
        nodes_falsenodeids=[2, 1, 3], nodes_falseleafs=[0, 1, 1],
        leaf_targetids=g.integers(0, n - 1, leaves), leaf_weights=tensor(floats(g, leaves), dtype),
        aggregate_function=g.choice(0, 1, 2, 3), **g.some(post_transform=g.choice(0, 1, 2, 3)),
    )  # fmt: skip
