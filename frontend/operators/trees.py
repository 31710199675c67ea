"""Decision trees: a walk of bounded depth over tables of nodes.

A leaf is a node whose two branches lead to itself, so every walk takes the same number of steps.
This is the tree traversal strategy of Hummingbird (Nakandala et al., "A Tensor Compiler for Unified
Machine Learning Prediction Serving", OSDI 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ml_dtypes

from weft.frontend.operators.arguments import expect, expect_same
from weft.frontend.operators.registry import operator
from weft.ir import build, dtypes
from weft.ir.build import compute, reduce_axis, scan, scatter, select
from weft.ir.scalar_expr import Expr, apply, literal
from weft.ir.tensor_expr import Tensor, as_size

COMPARISONS = ("le", "lt", "ge", "gt", "eq", "ne")
MEMBER = len(COMPARISONS)  # mode of a node that asks whether the feature is in a set


@operator("tree_leaves")
def tree_leaves(
    x: Tensor,
    roots: Tensor,
    features: Tensor,
    modes: Tensor,
    thresholds: Tensor,
    if_true: Tensor,
    if_false: Tensor,
    missing_is_true: Tensor,
    members: Tensor,
    first_member: Tensor,
    member_count: Tensor,
    *,
    depth: int,
    used_modes: Sequence[int],
    most_members: int,
) -> Tensor:
    """(sample, tree) -> the node that sample's row of ``x`` (sample, feature) reaches. int64.

    ``roots`` has one node per tree, the other tables one row per node: the feature that it looks
    at, how it compares (an index into ``COMPARISONS``, or ``MEMBER``), with what, and where to go
    on. NaN takes the false branch unless ``missing_is_true``. ``members[first_member[n]:][:
    member_count[n]]`` is the set of node n. ``depth`` is the longest way to a leaf.
    """
    expect(x.rank == 2, f"{x.shape} is not (sample, feature)", "tree_leaves", "WEFT-E0191")
    expect(thresholds.dtype == x.dtype, f"{thresholds.dtype} thresholds", "tree_leaves")
    unknown = [mode for mode in used_modes if not 0 <= mode <= MEMBER]
    expect(not unknown and len(used_modes) > 0, f"modes {tuple(used_modes)}", "tree_leaves")

    def holds(mode: int, node: Expr, value: Expr) -> Expr:
        if mode < MEMBER:
            return apply(COMPARISONS[mode], value, thresholds[node])
        m = reduce_axis((0, most_members), name="m")
        inside = m < member_count[node]
        equal = select(inside, value.equal(members[first_member[node] + m]), False)
        return build.any_over(equal, axis=m)

    def step(node: Expr, sample: Expr) -> Expr:
        value = x[sample, features[node]]
        first, *others = used_modes
        passed = holds(first, node, value)
        for mode in others:
            passed = select(modes[node].equal(mode), holds(mode, node, value), passed)
        passed = select(build.isnan(value), missing_is_true[node], passed)
        return select(passed, if_true[node], if_false[node])

    def body(
        itself: Callable[..., Expr], level: Expr, sample: Expr, tree: Expr
    ) -> tuple[Expr, ...]:
        node = itself(0, level - 1, sample, tree)
        return (select(level >= 1, step(node, sample), roots[tree]),)

    shape = (depth + 1, x.shape[0], roots.shape[0])
    (walk,) = scan(shape, body, dtypes_=(dtypes.int64,), along=1, name="walk")
    return compute(shape[1:], lambda sample, tree: walk[depth, sample, tree], name="leaf")


@operator("tree_scores")
def tree_scores(
    leaves: Tensor,
    targets: Tensor,
    weights: Tensor,
    first_weight: Tensor,
    weight_count: Tensor,
    base: Tensor,
    *,
    most_weights: int,
    aggregate: str,
) -> Tensor:
    """(sample, target) -> the weights of a sample's leaves put together, plus ``base`` (target).

    Node n gives ``weights[k]`` to ``targets[k]`` for the ``weight_count[n]`` k from
    ``first_weight[n]`` on. ``aggregate`` is 'sum', 'average' (over trees), 'min' or 'max'; the
    last two give a target without weights the type's greatest and least finite value.
    """
    expect(aggregate in _MONOIDS, f"unknown aggregate {aggregate!r}", "tree_scores")
    expect_same(targets.shape, weights.shape, "tree_scores")
    samples, trees = leaves.shape
    dtype = weights.dtype
    limit = float(ml_dtypes.finfo(dtype.numpy).max)
    start = {"min": limit, "max": -limit}.get(aggregate, 0.0)
    empty = compute((samples, base.shape[0]), lambda n, c: literal(start, dtype), name="no_score")

    def body(n: Expr, t: Expr, k: Expr) -> tuple[tuple[Expr, ...], Expr]:
        at = first_weight[leaves[n, t]] + k
        return (n, targets[at]), weights[at]

    scores = scatter(
        empty,
        (samples, trees, most_weights),
        body,
        combine=_MONOIDS[aggregate],
        condition=lambda n, t, k: k < weight_count[leaves[n, t]],
        name="scores",
    )

    def final(n: Expr, c: Expr) -> Expr:
        score = scores[n, c]
        if aggregate == "average":
            score = score / as_size(trees).astype(dtype)
        return score + base[c]

    return compute(scores.shape, final, name="score")


_MONOIDS = {"sum": "add", "average": "add", "min": "min", "max": "max"}
