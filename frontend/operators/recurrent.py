"""What recurrent networks share: one pass over time, its gates, and the outputs of all passes.

The inputs' share of the gates is one matrix product over all steps, outside the recurrence. The
recurrence itself is a scan over steps s; a backward pass visits time T-1-s, or with sequence
lengths length-1-s, and beyond a sequence's end the state stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weft.frontend.operators.activations import elu, hard_sigmoid, sigmoid, softplus
from weft.frontend.operators.sizes import axes_over, known, require, require_rank, unify, wide
from weft.ir import dtypes
from weft.ir.build import compute, maximum, minimum, sum, tanh
from weft.ir.dtypes import DType
from weft.ir.scalar_expr import Expr, cast, literal, select
from weft.ir.tensor_expr import Axis, Size, Tensor, as_size

Activation = tuple[str, float, float]  # name, alpha, beta

ACTIVATIONS: dict[str, Callable[[Expr, float, float], Expr]] = {
    "tanh": lambda x, a, b: tanh(x),
    "sigmoid": lambda x, a, b: sigmoid(x),
    "relu": lambda x, a, b: maximum(x, 0),
    "affine": lambda x, a, b: x * a + b,
    "leakyrelu": lambda x, a, b: select(x < 0, x * a, x),
    "thresholdedrelu": lambda x, a, b: select(x >= a, x, 0),
    "scaledtanh": lambda x, a, b: tanh(x * b) * a,
    "hardsigmoid": lambda x, a, b: hard_sigmoid(x, alpha=a, beta=b),
    "elu": lambda x, a, b: elu(x, alpha=a),
    "softsign": lambda x, a, b: x / (abs(x) + 1),
    "softplus": lambda x, a, b: softplus(x),
}


@dataclass(frozen=True, slots=True)
class Pass:
    """One direction ``d`` of a recurrent layer of ``gates`` gates.

    ``x`` (steps, batch, inputs), ``w`` (directions, gates·hidden, inputs), ``r`` (directions,
    gates·hidden, hidden), ``bias`` (directions, 2·gates·hidden), ``lengths`` (batch,),
    ``initial_h`` (directions, batch, hidden); ``batch_first`` swaps the batch to the front.
    """

    x: Tensor
    w: Tensor
    r: Tensor
    bias: Tensor | None
    lengths: Tensor | None
    initial_h: Tensor | None
    gates: int
    d: int
    reverse: bool
    batch_first: bool
    clip: float | None
    activations: tuple[Activation, ...]

    @property
    def steps(self) -> Size:
        return self.x.shape[1 if self.batch_first else 0]

    @property
    def batch(self) -> Size:
        return self.x.shape[0 if self.batch_first else 1]

    @property
    def hidden(self) -> int:
        return known(self.r.shape[2], "the hidden size")

    @property
    def dtype(self) -> DType:
        """The type of the state: float32 for the narrow floats."""
        return self.x.dtype.compute

    def length(self, b: Expr) -> Expr:
        """How many steps sequence ``b`` has."""
        if self.lengths is None:
            return as_size(self.steps)
        given = cast(self.lengths[b], dtypes.int64)
        return maximum(minimum(given, as_size(self.steps)), 0)

    def time(self, s: Expr, b: Expr) -> Expr:
        """The time that step ``s`` visits, and the step that visits time ``s``."""
        if not self.reverse:
            return s
        if self.lengths is None:
            return as_size(self.steps) - 1 - s
        return select(s < self.length(b), self.length(b) - 1 - s, s)

    def runs(self, s: Expr, b: Expr, new: Expr, old: Expr) -> Expr:
        """``new`` while the sequence lasts, then ``old``."""
        return new if self.lengths is None else select(s < self.length(b), new, old)

    def activate(self, which: int, value: Expr) -> Expr:
        """Activation number ``which`` of the clipped ``value``."""
        if self.clip is not None:
            value = maximum(minimum(value, self.clip), -self.clip)
        name, alpha, beta = self.activations[which]
        return ACTIVATIONS[name](value, alpha, beta)

    def initial(self, state: Tensor | None, b: Expr, h: Expr) -> Expr:
        if state is None:
            return literal(0, self.dtype)
        return wide(state[(b, self.d, h) if self.batch_first else (self.d, b, h)])

    def input_gates(self, recurrent_biases: int) -> Tensor:
        """x W + bias, (time, batch, gate, hidden); with r's bias for the first so many gates."""
        (i,) = axes_over(self.x.shape[2:], ["i"])
        hidden, rows = self.hidden, self.gates * self.hidden

        def body(t: Axis, b: Axis, g: Axis, h: Axis) -> Expr:
            row = g * hidden + h
            element = self.x[(b, t, i) if self.batch_first else (t, b, i)]
            value = sum(wide(element) * wide(self.w[self.d, row, i]), i)
            if self.bias is None:
                return value
            recurrent = wide(self.bias[self.d, row + rows])
            if recurrent_biases < self.gates:
                recurrent = select(g < recurrent_biases, recurrent, 0)
            return value + wide(self.bias[self.d, row]) + recurrent

        shape = (self.steps, self.batch, self.gates, hidden)
        return compute(shape, body, name="input_gates")

    def recurrent_gate(
        self,
        gate: int,
        s: Expr,
        h: Expr,
        state: Callable[[Expr], Expr],
        where: Expr | None = None,
    ) -> Expr:
        """Σ_k state(k) · r[gate, h, k] in step ``s``; in the first one 0 without an initial
        state."""
        (k,) = axes_over([self.hidden], ["k"])
        weight = wide(self.r[self.d, h + gate * self.hidden, k])
        if self.initial_h is None:
            where = s > 0 if where is None else (s > 0) & where
        return sum(state(k) * weight, k, where=where)


def make_passes(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Tensor | None,
    lengths: Tensor | None,
    initial_h: Tensor | None,
    *,
    gates: int,
    direction: str,
    activations: Sequence[Activation],
    clip: float | None,
    batch_first: bool,
) -> list[Pass]:
    """One pass per direction; ``activations`` are those of all passes, one after the other."""
    reverses = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
    require(direction in reverses, f"unknown direction {direction!r}", ", ".join(reverses))
    count = len(reverses[direction])
    require(len(activations) % count == 0, f"{len(activations)} activations, {direction}")
    each = len(activations) // count
    for name, _, _ in activations:
        require(name in ACTIVATIONS, f"unknown activation {name!r}", ", ".join(ACTIVATIONS))
    _check(x, w, r, bias, lengths, initial_h, gates, count, batch_first)
    return [
        Pass(
            x, w, r, bias, lengths, initial_h, gates, d, reverse, batch_first, clip or None,
            tuple(activations[d * each : (d + 1) * each]),
        )
        for d, reverse in enumerate(reverses[direction])
    ]  # fmt: skip


def _check(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Tensor | None,
    lengths: Tensor | None,
    initial_h: Tensor | None,
    gates: int,
    directions: int,
    batch_first: bool,
) -> None:
    for name, tensor in (("input", x), ("weights", w), ("recurrent weights", r)):
        require_rank(tensor, f"the {name} of a recurrent layer", 3, 3)
    rows = gates * known(r.shape[2], "the hidden size")
    batch = x.shape[0 if batch_first else 1]
    state = (batch, directions) if batch_first else (directions, batch)
    expected: list[tuple[str, Tensor | None, tuple[Size, ...]]] = [
        ("weights", w, (directions, rows, x.shape[2])),
        ("recurrent weights", r, (directions, rows, r.shape[2])),
        ("bias", bias, (directions, 2 * rows)),
        ("sequence lengths", lengths, (batch,)),
        ("initial state", initial_h, (*state, r.shape[2])),
    ]
    for what, given, shape in expected:
        check_shape(f"the {what} of a recurrent layer", given, shape)


def check_shape(what: str, tensor: Tensor | None, shape: Sequence[Size]) -> None:
    """E0150 or E0152 where a tensor that is present does not have ``shape``."""
    if tensor is not None:
        require_rank(tensor, what, len(shape), len(shape))
        for own, size in zip(tensor.shape, shape, strict=True):
            unify(own, size, f"sizes of {what}, found and expected,")


State = Callable[[Expr, Expr, Expr], Expr]  # (step, batch, hidden) -> element


def all_steps(passes: Sequence[Pass], states: Sequence[State]) -> Tensor:
    """Y: (time, direction, batch, hidden), or with the batch in front; 0 beyond a sequence."""
    first = passes[0]

    def element(t: Expr, d: Expr, b: Expr, h: Expr) -> Expr:
        values = [state(p.time(t, b), b, h) for p, state in zip(passes, states, strict=True)]
        value = values[0] if len(values) == 1 else select(d.equal(0), values[0], values[1])
        zero = literal(0, first.dtype)
        return cast(first.runs(t, b, value, zero), first.x.dtype)

    sizes = (first.steps, len(passes), first.batch, first.hidden)
    if not first.batch_first:
        return compute(sizes, element, name="all_steps")
    swapped = (sizes[2], sizes[0], sizes[1], sizes[3])
    return compute(swapped, lambda b, t, d, h: element(t, d, b, h), name="all_steps")


def last_step(
    passes: Sequence[Pass], states: Sequence[State], initial: Tensor | None, name: str
) -> Tensor:
    """Y_h: the state after each sequence, (direction, batch, hidden) or with the batch in front."""
    first = passes[0]
    steps = as_size(first.steps)

    def element(d: Expr, b: Expr, h: Expr) -> Expr:
        values = [
            select(steps > 0, state(steps - 1, b, h), p.initial(initial, b, h))
            for p, state in zip(passes, states, strict=True)
        ]
        value = values[0] if len(values) == 1 else select(d.equal(0), values[0], values[1])
        return cast(value, first.x.dtype)

    sizes = (len(passes), first.batch, first.hidden)
    if not first.batch_first:
        return compute(sizes, element, name=name)
    swapped = (sizes[1], sizes[0], sizes[2])
    return compute(swapped, lambda b, d, h: element(d, b, h), name=name)
