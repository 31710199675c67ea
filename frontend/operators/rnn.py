"""Recurrent layers: the plain cell, the GRU and the LSTM, as scans over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.frontend.operators.recurrent import (
    Activation,
    Pass,
    State,
    all_steps,
    check_shape,
    last_step,
    make_passes,
)
from weft.frontend.operators.registry import operator
from weft.frontend.operators.sizes import require, wide
from weft.ir.build import scan
from weft.ir.scalar_expr import Expr, literal, select
from weft.ir.tensor_expr import Tensor

TANH: Activation = ("tanh", 0.0, 0.0)
SIGMOID: Activation = ("sigmoid", 0.0, 0.0)
Itself = Callable[..., Expr]


@operator("rnn")
def rnn(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    initial_h: Tensor | None = None,
    *,
    direction: str = "forward",
    activations: Sequence[Activation] | None = None,
    clip: float | None = None,
    batch_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """(all states, last states) of h' = f(x W + h R + bias). See ``recurrent.Pass`` for shapes."""
    passes = make_passes(
        x, w, r, bias, lengths, initial_h, gates=1, direction=direction, clip=clip,
        activations=activations or _repeated(direction, TANH), batch_first=batch_first,
    )  # fmt: skip
    require(len(passes[0].activations) == 1, "a recurrent layer has one activation")
    states = [_rnn_states(p) for p in passes]
    return all_steps(passes, states), last_step(passes, states, initial_h, "last_h")


def _state_before(p: Pass, itself: Itself, s: Expr, b: Expr) -> Callable[[Expr], Expr]:
    """The hidden state before step ``s``, by its feature."""
    return lambda k: select(s > 0, itself(0, s - 1, b, k), p.initial(p.initial_h, b, k))


def _rnn_states(p: Pass) -> State:
    inputs = p.input_gates(1)

    def body(itself: Itself, s: Expr, b: Expr, h: Expr) -> tuple[Expr]:
        old = _state_before(p, itself, s, b)

        total = inputs[p.time(s, b), b, 0, h] + p.recurrent_gate(0, s, h, old)
        return (p.runs(s, b, p.activate(0, total), old(h)),)

    (states,) = scan((p.steps, p.batch, p.hidden), body, dtypes_=[p.dtype], name="rnn")
    return lambda s, b, h: states[s, b, h]


@operator("lstm")
def lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    peepholes: Tensor | None = None,
    *,
    direction: str = "forward",
    activations: Sequence[Activation] | None = None,
    clip: float | None = None,
    input_forget: bool = False,
    batch_first: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """(all states, last states, last cells) of the long short-term memory, gates i, o, f, c.

    ``peepholes`` (directions, 3·hidden) weigh the cell in gates i, o and f; ``input_forget``
    couples f = 1 - i. Hochreiter and Schmidhuber, 1997; Gers et al., 2002 (peepholes).
    """
    passes = make_passes(
        x, w, r, bias, lengths, initial_h, gates=4, direction=direction, clip=clip,
        activations=activations or _repeated(direction, SIGMOID, TANH, TANH),
        batch_first=batch_first,
    )  # fmt: skip
    require(len(passes[0].activations) == 3, "an LSTM has three activations")
    p = passes[0]
    lead = (p.batch, len(passes)) if batch_first else (len(passes), p.batch)
    check_shape("the initial cells of an LSTM", initial_c, (*lead, p.hidden))
    check_shape("the peepholes of an LSTM", peepholes, (len(passes), 3 * p.hidden))
    both = [_lstm_states(p, initial_c, peepholes, input_forget) for p in passes]
    states, cells = [h for h, _ in both], [c for _, c in both]
    return (
        all_steps(passes, states),
        last_step(passes, states, initial_h, "last_h"),
        last_step(passes, cells, initial_c, "last_c"),
    )


def _lstm_states(
    p: Pass, initial_c: Tensor | None, peepholes: Tensor | None, input_forget: bool
) -> tuple[State, State]:
    inputs = p.input_gates(4)

    def peep(gate: int, h: Expr, cell: Expr) -> Expr:
        if peepholes is None:
            return literal(0, p.dtype)
        return wide(peepholes[p.d, h + gate * p.hidden]) * cell

    def body(itself: Itself, s: Expr, b: Expr, h: Expr) -> tuple[Expr, Expr]:
        old = _state_before(p, itself, s, b)

        def gate(number: int, cell: Expr | None = None) -> Expr:
            value = inputs[p.time(s, b), b, number, h] + p.recurrent_gate(number, s, h, old)
            return value if cell is None or peepholes is None else value + peep(number, h, cell)

        old_cell = select(s > 0, itself(1, s - 1, b, h), p.initial(initial_c, b, h))
        enter = p.activate(0, gate(0, old_cell))
        forget = 1.0 - enter if input_forget else p.activate(0, gate(2, old_cell))
        cell = forget * old_cell + enter * p.activate(1, gate(3))
        state = p.activate(0, gate(1, cell)) * p.activate(2, cell)
        return p.runs(s, b, state, old(h)), p.runs(s, b, cell, old_cell)

    states, cells = scan(
        (p.steps, p.batch, p.hidden), body, dtypes_=[p.dtype, p.dtype], name="lstm"
    )
    return (lambda s, b, h: states[s, b, h]), (lambda s, b, h: cells[s, b, h])


@operator("gru")
def gru(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    initial_h: Tensor | None = None,
    *,
    direction: str = "forward",
    activations: Sequence[Activation] | None = None,
    clip: float | None = None,
    linear_before_reset: bool = False,
    batch_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """(all states, last states) of the gated recurrent unit, gates z, r, h. Cho et al., 2014.

    ``linear_before_reset`` applies the reset gate to the recurrent product, not to the state.
    """
    passes = make_passes(
        x, w, r, bias, lengths, initial_h, gates=3, direction=direction, clip=clip,
        activations=activations or _repeated(direction, SIGMOID, TANH),
        batch_first=batch_first,
    )  # fmt: skip
    require(len(passes[0].activations) == 2, "a GRU has two activations")
    step = _gru_reset_product if linear_before_reset else _gru_reset_state
    states = [step(p) for p in passes]
    return all_steps(passes, states), last_step(passes, states, initial_h, "last_h")


def _gru_reset_product(p: Pass) -> State:
    """h~ = g(x W + bias + r ⊙ (h R + bias)): all products are of the old state."""
    inputs = p.input_gates(2)

    def body(itself: Itself, s: Expr, b: Expr, h: Expr) -> tuple[Expr]:
        old = _state_before(p, itself, s, b)

        given = [inputs[p.time(s, b), b, gate, h] for gate in range(3)]
        update = p.activate(0, given[0] + p.recurrent_gate(0, s, h, old))
        reset = p.activate(0, given[1] + p.recurrent_gate(1, s, h, old))
        product = p.recurrent_gate(2, s, h, old)
        if p.bias is not None:
            product = product + wide(p.bias[p.d, h + 5 * p.hidden])
        candidate = p.activate(1, given[2] + reset * product)
        state = (1.0 - update) * candidate + update * old(h)
        return (p.runs(s, b, state, old(h)),)

    (states,) = scan((p.steps, p.batch, p.hidden), body, dtypes_=[p.dtype], name="gru")
    return lambda s, b, h: states[s, b, h]


def _gru_reset_state(p: Pass) -> State:
    """h~ = g(x W + bias + (r ⊙ h) R): needs all of r first, so each step has two phases.

    The scan runs over (step, phase): phase 0 leaves the reset gate, phase 1 the new state.
    """
    inputs = p.input_gates(3)

    def body(itself: Itself, s: Expr, phase: Expr, b: Expr, h: Expr) -> tuple[Expr]:
        first, second = phase.equal(0), phase.equal(1)

        def old(k: Expr) -> Expr:
            return select(s > 0, itself(0, s - 1, 1, b, k), p.initial(p.initial_h, b, k))

        def reset_state(k: Expr) -> Expr:
            return itself(0, s, 0, b, k) * old(k)

        given = [inputs[p.time(s, b), b, gate, h] for gate in range(3)]
        reset = p.activate(0, given[1] + p.recurrent_gate(1, s, h, old, first))
        update = p.activate(0, given[0] + p.recurrent_gate(0, s, h, old, second))
        candidate = p.activate(1, given[2] + p.recurrent_gate(2, s, h, reset_state, second))
        state = (1.0 - update) * candidate + update * old(h)
        return (select(first, reset, p.runs(s, b, state, old(h))),)

    (states,) = scan((p.steps, 2, p.batch, p.hidden), body, dtypes_=[p.dtype], along=2, name="gru")
    return lambda s, b, h: states[s, 1, b, h]


def _repeated(direction: str, *each: Activation) -> tuple[Activation, ...]:
    return each * (2 if direction == "bidirectional" else 1)
