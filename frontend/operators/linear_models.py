"""Classical machine learning on rows of features: scaling, linear models, kernels, scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from weft.frontend.operators.activations import sigmoid
from weft.frontend.operators.arguments import expect, expect_same
from weft.frontend.operators.registry import operator
from weft.ir import build, dtypes
from weft.ir.build import (
    compute,
    exp,
    log,
    max_over,
    maximum,
    minimum,
    reduce_axis,
    scan,
    select,
    sqrt,
    tanh,
)
from weft.ir.dtypes import DType
from weft.ir.scalar_expr import Expr, literal
from weft.ir.tensor_expr import Tensor, constant_size


@operator("binarize")
def binarize(x: Tensor, *, threshold: float) -> Tensor:
    """1 where ``x`` exceeds ``threshold``, else 0, in the dtype of ``x``."""
    exact = x.dtype if x.dtype.is_float else dtypes.float64

    def body(*i: Expr) -> Expr:
        return (x[i].astype(exact) > threshold).astype(x.dtype)

    return compute(x.shape, body, name="binarized")


@operator("scale_features")
def scale_features(x: Tensor, offset: Tensor, scale: Tensor, *, to: DType) -> Tensor:
    """``(x - offset) * scale``, both of size 1 or one per feature (last dimension), as ``to``."""
    exact = dtypes.float64 if x.dtype in (dtypes.float64, dtypes.int64) else dtypes.float32
    for table in (offset, scale):
        if constant_size(table.shape[0]) != 1:
            expect_same(table.shape, x.shape[-1:], "scale_features")

    def of(table: Tensor, i: tuple[Expr, ...]) -> Expr:
        single = constant_size(table.shape[0]) == 1
        return table[literal(0) if single else i[-1]].astype(exact)

    def body(*i: Expr) -> Expr:
        return ((x[i].astype(exact) - of(offset, i)) * of(scale, i)).astype(to)

    return compute(x.shape, body, name="scaled")


@operator("normalize_rows")
def normalize_rows(x: Tensor, *, norm: str) -> Tensor:
    """Each row (the last dimension) over its greatest magnitude, its L1 or its L2 norm."""
    expect(norm in ("MAX", "L1", "L2"), f"unknown norm {norm!r}", "normalize_rows")
    expect(x.rank in (1, 2), f"{x.shape} is not a row or rows", "normalize_rows", "WEFT-E0191")

    def size(*rows: Expr) -> Expr:
        j = reduce_axis((0, x.shape[-1]), name="j")
        value = x[(*rows, j)]
        if norm == "MAX":
            return max_over(abs(value), axis=j)
        return build.sum(abs(value) if norm == "L1" else value * value, axis=j)

    total = compute(x.shape[:-1], size, name="size")

    def body(*i: Expr) -> Expr:
        length = total[i[:-1]]
        return x[i] / build.maximum(sqrt(length) if norm == "L2" else length, 1e-30)

    return compute(x.shape, body, name="normalized")


@operator("linear_model")
def linear_model(x: Tensor, coefficients: Tensor, intercepts: Tensor) -> Tensor:
    """``x`` (sample, feature) times ``coefficients`` (target, feature)ᵀ, plus ``intercepts``."""
    expect_same(x.shape[1:], coefficients.shape[1:], "linear_model")
    expect_same(intercepts.shape, coefficients.shape[:1], "linear_model")
    k = reduce_axis((0, x.shape[1]), name="k")
    return compute(
        (x.shape[0], coefficients.shape[0]),
        lambda n, c: build.sum(x[n, k] * coefficients[c, k], axis=k) + intercepts[c],
        name="score",
    )


@operator("kernel")
def kernel(x: Tensor, vectors: Tensor, *, kind: str, parameters: Sequence[float]) -> Tensor:
    """(sample, vector) -> the kernel of a row of ``x`` and a support vector.

    ``kind`` is 'LINEAR', 'POLY', 'RBF' or 'SIGMOID'; ``parameters`` are gamma, coef0 and degree.
    """
    expect(kind in ("LINEAR", "POLY", "RBF", "SIGMOID"), f"unknown kernel {kind!r}", "kernel")
    expect(len(parameters) == 3, f"{len(parameters)} kernel parameters, not 3", "kernel")
    expect_same(x.shape[1:], vectors.shape[1:], "kernel")
    gamma, coef0, degree = parameters

    def body(n: Expr, v: Expr) -> Expr:
        k = reduce_axis((0, x.shape[1]), name="k")
        if kind == "RBF":
            difference = x[n, k] - vectors[v, k]
            return exp(build.sum(difference * difference, axis=k) * -gamma)
        dot = build.sum(x[n, k] * vectors[v, k], axis=k)
        if kind == "LINEAR":
            return dot
        inner = dot * gamma + coef0
        return tanh(inner) if kind == "SIGMOID" else inner**degree

    return compute((x.shape[0], vectors.shape[0]), body, name="kernel")


# ---- from scores to probabilities ---------------------------------------------------------------


@operator("post_transform")
def post_transform(x: Tensor, *, kind: str) -> Tensor:
    """Scores (sample, class) as ONNX's ``post_transform`` has them.

    'NONE', 'LOGISTIC', 'SOFTMAX', 'SOFTMAX_ZERO' (zeros keep out of the exponentials) or 'PROBIT'.
    """
    expect(kind in (*_ELEMENTWISE, *_BY_ROW), f"unknown transform {kind!r}", "post_transform")
    if kind in _ELEMENTWISE:
        function = _ELEMENTWISE[kind]
        return compute(x.shape, lambda *i: function(x[i]), name="transformed")
    c = reduce_axis((0, x.shape[1]), name="c")
    top = compute(x.shape[:1], lambda n: max_over(x[n, c], axis=c), name="top")
    weight = _BY_ROW[kind]
    weighted = compute(x.shape, lambda n, c: weight(x[n, c], top[n]), name="weighted")
    norm = compute(x.shape[:1], lambda n: build.sum(weighted[n, c], axis=c), name="norm")

    def share(n: Expr, c: Expr) -> Expr:
        part = weighted[n, c] / norm[n]
        return select(norm[n].equal(0), 0.5, part) if kind == "SOFTMAX_ZERO" else part

    return compute(x.shape, share, name="transformed")


def _probit(x: Expr) -> Expr:
    """√2 times the inverse error function of 2x - 1, by Winitzki's approximation."""
    y = x * 2.0 - 1.0
    inside = (literal(1.0, x.dtype) - y) * (y + 1.0)
    logarithm = log(inside)
    half = logarithm * 0.5 + 2.0 / (math.pi * 0.147)
    magnitude = sqrt(sqrt(half * half - logarithm / 0.147) - half)
    signed = select(y < 0, -magnitude, magnitude)
    return select(inside.equal(0), 0.0, signed) * 1.41421356


def _zero_aware(x: Expr, top: Expr) -> Expr:
    return select(abs(x) > 1e-7, exp(x - top), x * exp(-top))


_ELEMENTWISE: dict[str, Callable[[Expr], Expr]] = {
    "NONE": lambda x: x,
    "LOGISTIC": sigmoid,
    "PROBIT": _probit,
}
_BY_ROW: dict[str, Callable[[Expr, Expr], Expr]] = {
    "SOFTMAX": lambda x, top: exp(x - top),
    "SOFTMAX_ZERO": _zero_aware,
}


@operator("pairwise_votes")
def pairwise_votes(scores: Tensor, firsts: Tensor, seconds: Tensor, *, classes: int) -> Tensor:
    """(sample, class) -> how many of the duels ``firsts[p]`` against ``seconds[p]`` a class wins.

    The first wins where ``scores`` (sample, duel) is positive.
    """

    def body(n: Expr, c: Expr) -> Expr:
        p = reduce_axis((0, scores.shape[1]), name="p")
        winner = select(scores[n, p] > 0, firsts[p], seconds[p])
        return build.sum(winner.equal(c).astype(scores.dtype), axis=p)

    return compute((scores.shape[0], classes), body, name="votes")


@operator("two_sided")
def two_sided(x: Tensor, *, complement: bool) -> Tensor:
    """(sample, 1) scores of one class as scores of two: ``1 - x`` or ``-x`` beside ``x``."""
    expect_same(x.shape[1:], (1,), "two_sided")

    def body(n: Expr, c: Expr) -> Expr:
        score = x[n, 0]
        return select(c.equal(0), (literal(1.0, x.dtype) - score) if complement else -score, score)

    return compute((x.shape[0], 2), body, name="two_sided")


@operator("at_least")
def at_least(x: Tensor, *, threshold: float, yes: int, no: int, strictly: bool = False) -> Tensor:
    """``yes`` where the greatest score of a sample reaches ``threshold``, else ``no``. int64."""
    c = reduce_axis((0, x.shape[1]), name="c")

    def body(n: Expr) -> Expr:
        top = max_over(x[n, c], axis=c)
        reached = top > threshold if strictly else top >= threshold
        return select(reached, literal(yes), literal(no))

    return compute(x.shape[:1], body, name="label")


# ---- Class probabilities from duels of classes.
#
# Wu, Lin and Weng, "Probability Estimates for Multi-class Classification by Pairwise Coupling",
# JMLR 5 (2004), algorithm 2, as libsvm runs it. (onnx.reference 1.23 differs for three classes
# and more: it sums over the off-diagonal of Q.)


_P, _QP, _PQP, _DONE = range(4)  # the components of the iteration's state
_PREPARE = 3  # steps of an iteration before the classes' turns
CLIP = 1e-7


@operator("couple_duels")
def couple_duels(scores: Tensor, slopes: Tensor, offsets: Tensor, pair_of: Tensor) -> Tensor:
    """(sample, class) probabilities from ``scores`` (sample, duel) of every pair of classes.

    Class i beats j > i with probability 1 / (1 + exp(slope * score + offset)) of duel
    ``pair_of[i, j]``.
    """
    classes = pair_of.shape[0]
    expect_same(pair_of.shape, (classes, classes), "couple_duels")
    expect_same(slopes.shape, scores.shape[1:], "couple_duels")
    expect_same(offsets.shape, scores.shape[1:], "couple_duels")
    one = literal(1.0, scores.dtype)

    def beats(n: Expr, p: Expr) -> Expr:
        chance = one / (exp(scores[n, p] * slopes[p] + offsets[p]) + 1.0)
        return maximum(minimum(chance, 1.0 - CLIP), CLIP)

    duel = compute(scores.shape, beats, name="duel")

    def chance(n: Expr, i: Expr, j: Expr) -> Expr:
        return select(i < j, duel[n, pair_of[i, j]], one - duel[n, pair_of[j, i]])

    def quadratic(n: Expr, i: Expr, j: Expr) -> Expr:
        k = reduce_axis((0, classes), name="k")
        loss = select(k.equal(i), 0.0, chance(n, k, i))
        return select(
            i.equal(j), build.sum(loss * loss, axis=k), -chance(n, j, i) * chance(n, i, j)
        )

    q = compute((scores.shape[0], classes, classes), quadratic, name="q")
    return _minimize(q)


def _minimize(q: Tensor) -> Tensor:
    """The p on the simplex that minimises p'Qp, for each sample: Gauss-Seidel, 100 rounds at most.

    A round is a scan over steps: Qp afresh, p'Qp, whether p is close enough, each class's turn.
    """
    samples, classes, _ = q.shape
    count = constant_size(classes)
    assert count is not None
    rounds, steps = max(100, count), _PREPARE + count
    start = (literal(1.0 / count, q.dtype), literal(0.0, q.dtype), literal(0.0, q.dtype))
    kinds = (q.dtype, q.dtype, q.dtype, dtypes.bool_)

    def body(
        itself: Callable[..., Expr], turn: Expr, step: Expr, n: Expr, c: Expr
    ) -> tuple[Expr, ...]:
        def last(component: int, k: Expr) -> Expr:
            """The state before this step."""
            begin = start[component] if component < _DONE else literal(False, dtypes.bool_)
            earlier = select(turn > 0, itself(component, turn - 1, steps - 1, n, k), begin)
            return select(step > 0, itself(component, turn, step - 1, n, k), earlier)

        k = reduce_axis((0, classes), name="k")
        product = build.sum(q[n, c, k] * last(_P, k), axis=k)
        square = build.sum(last(_P, k) * last(_QP, k), axis=k)
        error = max_over(abs(last(_QP, k) - last(_PQP, k)), axis=k)
        t = step - _PREPARE
        diff = (last(_PQP, t) - last(_QP, t)) / q[n, t, t]
        grown = diff + 1.0
        p = (last(_P, c) + select(c.equal(t), diff, 0.0)) / grown
        qp = (last(_QP, c) + diff * q[n, t, c]) / grown
        pqp = (last(_PQP, c) + diff * (diff * q[n, t, t] + last(_QP, t) * 2.0)) / (grown * grown)

        def moved(component: int, value: Expr) -> Expr:
            """``value`` in a class's turn, unless p is close enough; guarded, for t may be < 0."""
            kept = last(component, c)
            return select(step >= _PREPARE, select(last(_DONE, c), kept, value), kept)

        return (
            moved(_P, p),
            select(step.equal(0), product, moved(_QP, qp)),
            select(step.equal(1), square, moved(_PQP, pqp)),
            select(step.equal(2), last(_DONE, c) | (error < 0.005 / count), last(_DONE, c)),
        )

    shape = (rounds, steps, samples, classes)
    p = scan(shape, body, dtypes_=kinds, along=2, name="coupling")[_P]
    return compute((samples, classes), lambda n, c: p[rounds - 1, steps - 1, n, c], name="chance")
