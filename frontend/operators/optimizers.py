"""One step of gradient descent for one tensor: Adagrad, Adam, momentum.

``rate`` and ``count`` (of updates so far) are scalars; everything else has the shape of ``x``.
"""

from __future__ import annotations

from weft.frontend.operators.registry import operator
from weft.frontend.operators.sizes import require, require_rank, unify
from weft.ir.build import computes, power, sqrt
from weft.ir.scalar_expr import Expr, cast, select
from weft.ir.tensor_expr import Axis, Tensor


@operator("adagrad")
def adagrad(
    rate: Tensor,
    count: Tensor,
    x: Tensor,
    gradient: Tensor,
    squares: Tensor,
    *,
    decay: float = 0.0,
    epsilon: float = 1e-6,
    norm: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """(x, accumulated squares) after one step. Duchi, Hazan and Singer, 2011."""
    _check(x, gradient, squares)

    def body(*i: Axis) -> tuple[Expr, Expr]:
        g = gradient[i] + x[i] * norm
        total = squares[i] + g * g
        step = _scalar(rate) / (cast(_scalar(count), rate.dtype) * decay + 1.0)
        return x[i] - cast(step, x.dtype) * g / (sqrt(total) + epsilon), total

    return computes(x.shape, body, name="adagrad", like=body)  # type: ignore[return-value]


@operator("adam")
def adam(
    rate: Tensor,
    count: Tensor,
    x: Tensor,
    gradient: Tensor,
    mean: Tensor,
    squares: Tensor,
    *,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm: float = 0.0,
    norm_after: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """(x, mean gradient, mean squared gradient) after one step. Kingma and Ba, 2015."""
    _check(x, gradient, mean, squares)

    def body(*i: Axis) -> tuple[Expr, Expr, Expr]:
        g = gradient[i] + x[i] * norm
        v = mean[i] * alpha + g * (1.0 - alpha)
        h = squares[i] * beta + g * g * (1.0 - beta)
        t = cast(_scalar(count), rate.dtype)
        correction = sqrt(1.0 - power(beta, t)) / (1.0 - power(alpha, t))
        step = select(_scalar(count) > 0, _scalar(rate) * correction, _scalar(rate))
        moved = x[i] - cast(step, x.dtype) * v / (sqrt(h) + epsilon)
        return moved * (1.0 - norm_after), v, h

    return computes(x.shape, body, name="adam", like=body)  # type: ignore[return-value]


@operator("momentum")
def momentum(
    rate: Tensor,
    count: Tensor,
    x: Tensor,
    gradient: Tensor,
    velocity: Tensor,
    *,
    alpha: float,
    beta: float,
    norm: float,
    nesterov: bool = False,
) -> tuple[Tensor, Tensor]:
    """(x, velocity) after one step; the first one weighs the gradient by 1, not ``beta``."""
    _check(x, gradient, velocity)

    def body(*i: Axis) -> tuple[Expr, Expr]:
        g = gradient[i] + x[i] * norm
        weighted = select(_scalar(count) > 0, g * beta, g)
        v = velocity[i] * alpha + weighted
        along = g + v * alpha if nesterov else v
        return x[i] - cast(_scalar(rate), x.dtype) * along, v

    return computes(x.shape, body, name="momentum", like=body)  # type: ignore[return-value]


def _scalar(tensor: Tensor) -> Expr:
    require(all(size == 1 for size in tensor.shape), "a learning rate or count must be a scalar")
    return tensor[(0,) * tensor.rank]


def _check(x: Tensor, *others: Tensor) -> None:
    for other in others:
        require_rank(other, "the state of an optimizer", x.rank, x.rank)
        for own, size in zip(other.shape, x.shape, strict=True):
            unify(own, size, "the sizes of an optimizer's tensors")
