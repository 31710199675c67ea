"""Class probabilities from duels of classes.

Wu, Lin and Weng, "Probability Estimates for Multi-class Classification by Pairwise Coupling",
JMLR 5 (2004), algorithm 2, as libsvm runs it. (onnx.reference 1.23 differs for three classes and
more: it sums over the off-diagonal of Q.)
"""

from __future__ import annotations

from collections.abc import Callable

from weft import dtypes
from weft.frontend import build
from weft.frontend.build import compute, exp, max_over, maximum, minimum, reduce_axis, scan, select
from weft.frontend.operators.arguments import expect_same
from weft.frontend.operators.registry import operator
from weft.frontend.scalar_expr import Expr, literal
from weft.frontend.tensor_expr import Tensor, constant_size

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
