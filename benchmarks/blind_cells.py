"""Recurrent cells in `compute`: gates in another order, state as [hidden, batch]."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft
from weft.benchmarks.blind_case import Arrays, Case, built_in, random
from weft.frontend.build import compute, exp, placeholder, reduce_axis, scan, sum, tanh
from weft.frontend.scalar_expr import select
from weft.frontend.tensor_expr import Tensor

STEPS, BATCH, SIZE, HIDDEN = 16, 4, 64, 64


def lstm() -> Case:
    """An LSTM over 16 steps."""
    driven, rec = _driven(4), placeholder((4, HIDDEN, HIDDEN), name="rec")

    def step(itself: Any, t: Any, i: Any, b: Any) -> tuple[Any, Any]:
        def gate(g: int) -> Any:
            return driven[t, g, i, b] + _fed(itself, rec, t, g, i, b)

        kept = select(t >= 1, itself(1, t - 1, i, b), 0.0)
        cell = _sigmoid(gate(2)) * kept + _sigmoid(gate(0)) * tanh(gate(3))
        return _sigmoid(gate(1)) * tanh(cell), cell

    f32 = weft.float32
    own = scan((STEPS, HIDDEN, BATCH), step, dtypes_=(f32, f32), along=1, name="memory")
    return _case("LSTM", built_in("lstm", *_placeholders(4)), own, [0, 1, 2, 3])


def gru() -> Case:
    """A GRU over 16 steps."""
    driven, rec = _driven(3), placeholder((3, HIDDEN, HIDDEN), name="rec")

    def step(itself: Any, t: Any, i: Any, b: Any) -> tuple[Any]:
        def fed(g: int) -> Any:
            return _fed(itself, rec, t, g, i, b)

        kept = select(t >= 1, itself(0, t - 1, i, b), 0.0)
        update = _sigmoid(driven[t, 1, i, b] + fed(1))
        reset = _sigmoid(driven[t, 2, i, b] + fed(2))
        fresh = tanh(driven[t, 0, i, b] + reset * fed(0))
        return ((1.0 - update) * fresh + update * kept,)

    own = scan((STEPS, HIDDEN, BATCH), step, dtypes_=(weft.float32,), along=1, name="memory")
    theirs = built_in("gru", *_placeholders(3), linear_before_reset=True)
    return _case("GRU", theirs, own, [2, 0, 1])  # the built-in's gates are z, r, h


def _placeholders(gates: int) -> tuple[Tensor, Tensor, Tensor]:
    """What the built-in cells take: inputs, and weights of inputs and of the state."""
    return (
        placeholder((STEPS, BATCH, SIZE), name="x"),
        placeholder((1, gates * HIDDEN, SIZE), name="w"),
        placeholder((1, gates * HIDDEN, HIDDEN), name="r"),
    )


def _driven(gates: int) -> Tensor:
    """What the inputs add to each gate: [step, gate, hidden, batch]."""
    flow = placeholder((STEPS, SIZE, BATCH), name="flow")
    win = placeholder((gates, HIDDEN, SIZE), name="win")
    k = reduce_axis((0, SIZE), name="k")
    return compute(
        (STEPS, gates, HIDDEN, BATCH),
        lambda t, g, i, b: sum(win[g, i, k] * flow[t, k, b], axis=k),
        name="driven",
    )


def _fed(itself: Any, rec: Tensor, t: Any, g: int, i: Any, b: Any) -> Any:
    """What the state of the step before adds to gate ``g``."""
    q = reduce_axis((0, HIDDEN), name=f"q{g}")
    return sum(select(t >= 1, itself(0, t - 1, q, b), 0.0) * rec[g, i, q], axis=q)


def _sigmoid(value: Any) -> Any:
    return 1.0 / (exp(-value) + 1.0)


def _case(name: str, theirs: tuple[Tensor, ...], own: Any, order: list[int]) -> Case:
    """``order``: which of the built-in's gates each of ours is."""
    gates = len(order)

    def permuted(a: Arrays) -> Arrays:
        return (
            a[0].transpose(0, 2, 1),
            a[1].reshape(gates, HIDDEN, SIZE)[order],
            a[2].reshape(gates, HIDDEN, HIDDEN)[order],
        )

    def back(y: np.ndarray) -> np.ndarray:
        return y.transpose(0, 2, 1)[:, None]

    weights = (
        random(1, gates * HIDDEN, SIZE, scale=0.2),
        random(1, gates * HIDDEN, HIDDEN, scale=0.2),
    )
    data = (random(STEPS, BATCH, SIZE), *weights)
    return Case(name, theirs[:1], own[:1], data, permuted, back)
