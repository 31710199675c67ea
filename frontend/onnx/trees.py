"""Handlers of ai.onnx.ml: ensembles of decision trees, in both of ONNX's encodings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from weft.frontend.onnx.context import NodeContext, Results, handler
from weft.frontend.onnx.linear_models import (
    ML,
    as_float,
    class_count,
    classified,
    label_of,
    label_values,
    rows_of,
    width_of,
)
from weft.frontend.operators.trees import MEMBER
from weft.ir.operator_graph import Value

_MODES = (
    "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ",
)  # fmt: skip
_AGGREGATES = ("average", "sum", "min", "max")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@dataclass(frozen=True, slots=True)
class Forest:
    """One row per node, leaves among them: see ``operators.trees`` for what the columns mean."""

    roots: np.ndarray
    features: np.ndarray
    modes: np.ndarray
    thresholds: np.ndarray
    if_true: np.ndarray
    if_false: np.ndarray
    missing_is_true: np.ndarray
    members: Sequence[Sequence[float]] = field(default_factory=tuple)  # of each node, or none


def _depth(node: NodeContext, forest: Forest) -> int:
    """The longest way from a root to a leaf; malformed where branches leave the table or circle."""
    count = len(forest.features)
    for column in (forest.roots, forest.if_true, forest.if_false):
        if column.size and not (column.min() >= 0 and column.max() < count):
            raise node.malformed("a tree refers to a node that is not there")
    inner = (forest.if_true != np.arange(count)) | (forest.if_false != np.arange(count))
    level = np.unique(forest.roots)
    for depth in range(count + 1):
        level = level[inner[level]]
        if not level.size:
            return depth
        level = np.unique(np.concatenate([forest.if_true[level], forest.if_false[level]]))
    raise node.malformed("a tree's branches form a cycle")


def _leaves(node: NodeContext, x: Value, forest: Forest) -> Value:
    """(sample, tree) -> the node that the walk ends in."""
    depth = _depth(node, forest)
    inner = forest.if_true != np.arange(len(forest.features))
    used = forest.features[inner | (forest.if_false != np.arange(len(forest.features)))]
    if used.size and not (used.min() >= 0 and used.max() < width_of(node, x)):
        raise node.malformed(f"a tree looks at a feature that is not among {width_of(node, x)}")
    sets = forest.members or [()] * len(forest.features)
    counts = np.array([len(s) for s in sets], np.int64)
    flat = np.array([m for s in sets for m in s] or [0.0])
    columns = (
        forest.roots.astype(np.int64),
        np.where(np.isin(forest.features, used), forest.features, 0).astype(np.int64),
        forest.modes.astype(np.int64),
        forest.thresholds.astype(x.dtype.numpy),
        forest.if_true.astype(np.int64),
        forest.if_false.astype(np.int64),
        forest.missing_is_true.astype(bool),
        flat.astype(x.dtype.numpy),
        np.cumsum(counts) - counts,
        counts,
    )
    result: Value = node.call(
        "tree_leaves",
        x,
        *map(node.constant, columns),
        depth=depth,
        used_modes=tuple(np.unique(forest.modes).tolist()),
        most_members=int(counts.max(initial=0)),
    )
    return result


def _scores(
    node: NodeContext,
    leaves: Value,
    nodes: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    base: np.ndarray,
    *,
    count: int,
    aggregate: str,
) -> Value:
    """Scores (sample, target): ``weights[k]`` goes to ``targets[k]`` where a walk ends in
    ``nodes[k]``; ``count`` nodes there are."""
    if not len(nodes) == len(targets) == len(weights):
        raise node.malformed("nodes, targets and weights of leaves differ in number")
    if targets.size and not (targets.min() >= 0 and targets.max() < len(base)):
        raise node.malformed(f"a leaf's target is not among {len(base)}")
    order = np.argsort(nodes, kind="stable")
    counts = np.bincount(nodes, minlength=count).astype(np.int64)
    columns = (
        targets[order].astype(np.int64),
        weights[order],
        np.cumsum(counts) - counts,
        counts,
        base.astype(weights.dtype),
    )
    result: Value = node.call(
        "tree_scores",
        leaves,
        *map(node.constant, columns),
        most_weights=int(counts.max(initial=0)),
        aggregate=aggregate,
    )
    return result


# ---- TreeEnsemble, opset 5 ----------------------------------------------------------------------


def _ints(node: NodeContext, name: str) -> np.ndarray:
    return np.array(node.attribute(name, []), np.int64)


@handler("TreeEnsemble", domain=ML, since=5)
def tree_ensemble(node: NodeContext) -> Results:
    x = node.input(0)
    if len(x.shape) != 2:
        raise node.malformed(f"shape {x.shape} is not (sample, feature)")
    leaf_weights = np.asarray(node.required("leaf_weights")).astype(x.dtype.numpy)
    forest = _forest(node, len(leaf_weights))
    leaves = _leaves(node, x, forest)
    inner = len(forest.features) - len(leaf_weights)
    scores = _scores(
        node,
        leaves,
        inner + np.arange(len(leaf_weights)),
        _ints(node, "leaf_targetids"),
        leaf_weights,
        np.zeros(node.attribute("n_targets", 1)),
        count=len(forest.features),
        aggregate=_named(node, "aggregate_function", _AGGREGATES, 1),
    )
    kind = _named(node, "post_transform", _TRANSFORMS, 0)
    return node.call("post_transform", scores, kind=kind)


def _named(node: NodeContext, name: str, names: Sequence[str], default: int) -> str:
    number: int = node.attribute(name, default)
    if not 0 <= number < len(names):
        raise node.malformed(f"{name} {number}")
    return names[number]


def _forest(node: NodeContext, leaves: int) -> Forest:
    """Inner nodes first, then the leaves."""
    splits = np.asarray(node.required("nodes_splits"))
    count = len(splits)
    own = count + np.arange(leaves)

    def column(name: str, absent: int | None = None) -> np.ndarray:
        data = np.asarray(node.attribute(name, [] if absent is None else [absent] * count))
        if len(data) != count:
            raise node.malformed(f"{len(data)} {name} for {count} nodes")
        return data

    def branch(side: str) -> np.ndarray:
        to_leaf = column(f"nodes_{side}leafs") != 0
        return np.concatenate([column(f"nodes_{side}nodeids") + count * to_leaf, own])

    modes = column("nodes_modes").astype(np.int64)
    zeros = np.zeros(leaves, np.int64)
    return Forest(
        roots=_ints(node, "tree_roots"),
        features=np.concatenate([column("nodes_featureids"), zeros]),
        modes=np.concatenate([modes, zeros + (modes[0] if count else 0)]),
        thresholds=np.concatenate([splits, zeros.astype(splits.dtype)]),
        if_true=branch("true"),
        if_false=branch("false"),
        missing_is_true=np.concatenate([column("nodes_missing_value_tracks_true", 0), zeros]),
        members=_members(node, modes) + [()] * leaves,
    )


def _members(node: NodeContext, modes: np.ndarray) -> list[Sequence[float]]:
    """The sets of the nodes whose mode is MEMBER, in their order, ends marked by NaN."""
    values = np.asarray(node.attribute("membership_values", np.zeros(0))).tolist()
    sets: list[list[float]] = [[]]
    for value in values:
        if value != value:
            sets.append([])
        else:
            sets[-1].append(value)
    if len(sets) - 1 != int((modes == MEMBER).sum()):
        raise node.malformed("one set of membership_values is needed per MEMBER node")
    following = iter(sets)
    return [next(following) if mode == MEMBER else () for mode in modes]


# ---- TreeEnsembleRegressor and TreeEnsembleClassifier -------------------------------------------


def _either(node: NodeContext, name: str, default: object) -> np.ndarray:
    """A float attribute, or its twin ``…_as_tensor``."""
    tensor = node.attribute(f"{name}_as_tensor")
    return np.asarray(node.attribute(name, default) if tensor is None else tensor)


def _labelled_forest(node: NodeContext) -> tuple[Forest, dict[tuple[int, int], int]]:
    """The forest, and (tree id, node id) -> row."""
    trees, ids = _ints(node, "nodes_treeids"), _ints(node, "nodes_nodeids")
    keys = list(zip(trees.tolist(), ids.tolist(), strict=False))
    rows = {key: row for row, key in enumerate(keys)}
    count = len(ids)
    modes = node.attribute("nodes_modes", [])
    columns = {
        name: np.asarray(node.attribute(name, [0] * count))
        for name in ("nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids",
                     "nodes_missing_value_tracks_true")
    }  # fmt: skip
    thresholds = _either(node, "nodes_values", [0.0] * count)
    if any(len(c) != count for c in (trees, modes, thresholds, *columns.values())):
        raise node.malformed("the nodes' attributes differ in length")
    leaf = np.array([mode == "LEAF" for mode in modes], bool)
    unknown = {mode for mode in modes if mode not in (*_MODES, "LEAF")}
    if unknown or not count:
        raise node.malformed(f"modes {sorted(unknown)}" if unknown else "there are no nodes")

    def branch(name: str) -> np.ndarray:
        pairs = zip(trees.tolist(), columns[name].tolist(), strict=True)
        wanted = [row if leaf[row] else rows.get(key, -1) for row, key in enumerate(pairs)]
        return np.array(wanted, np.int64)

    numbers = np.array([0 if mode == "LEAF" else _MODES.index(mode) for mode in modes], np.int64)
    common = int(numbers[~leaf][0]) if (~leaf).any() else 0
    first = {tree: row for row, tree in reversed(list(enumerate(trees.tolist())))}
    forest = Forest(
        roots=np.array([first[tree] for tree in sorted(first)], np.int64),
        features=np.where(leaf, 0, columns["nodes_featureids"]),
        modes=np.where(leaf, common, numbers),
        thresholds=thresholds,
        if_true=branch("nodes_truenodeids"),
        if_false=branch("nodes_falsenodeids"),
        missing_is_true=columns["nodes_missing_value_tracks_true"],
    )
    return forest, rows


def _labelled_scores(node: NodeContext, prefix: str, targets: int, aggregate: str) -> Value:
    forest, rows = _labelled_forest(node)
    keys = zip(
        _ints(node, f"{prefix}_treeids").tolist(),
        _ints(node, f"{prefix}_nodeids").tolist(),
        strict=False,
    )
    nodes = [rows.get(key, -1) for key in keys]
    if -1 in nodes:
        raise node.malformed(f"{prefix}_nodeids refers to a node that is not there")
    base = _either(node, "base_values", [0.0])
    if base.size not in (1, targets):
        raise node.malformed(f"{base.size} base_values for {targets} targets")
    x = rows_of(node)
    return _scores(
        node,
        _leaves(node, x, forest),
        np.array(nodes, np.int64),
        _ints(node, f"{prefix}_ids"),
        _either(node, f"{prefix}_weights", []).astype(x.dtype.numpy),
        np.broadcast_to(base.reshape(-1), (targets,)),
        count=len(forest.features),
        aggregate=aggregate,
    )


@handler("TreeEnsembleRegressor", domain=ML)
def tree_ensemble_regressor(node: NodeContext) -> Results:
    aggregate = node.attribute("aggregate_function", "SUM").lower()
    scores = _labelled_scores(node, "target", node.attribute("n_targets", 1), aggregate)
    kind = node.attribute("post_transform", "NONE")
    return node.call("post_transform", as_float(node, scores), kind=kind)


@handler("TreeEnsembleClassifier", domain=ML)
def tree_ensemble_classifier(node: NodeContext) -> Results:
    labels = label_values(node, "classlabels_int64s")
    classes = class_count(node, "classlabels_int64s")
    kind = node.attribute("post_transform", "NONE")
    scores = as_float(node, _labelled_scores(node, "class", classes, "sum"))
    if len(np.unique(_ints(node, "class_ids"))) == 1:
        only = int(_ints(node, "class_ids")[0])
        column = node.call("gather", scores, node.constant(np.array([only])), axis=1)
        complement = kind in ("NONE", "PROBIT") and classes > 1
        scores = node.call("two_sided", column, complement=complement)
    index, scores = classified(node, scores, kind)
    if classes == 1 and labels is not None:
        if labels[0] != 1:
            raise node.unsupported(f"the single class label {labels[0]}")
        return index, scores
    return label_of(node, index, labels), scores
