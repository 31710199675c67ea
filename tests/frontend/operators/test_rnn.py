"""Recurrent layers against plain loops over time, one sequence at a time, in float64."""

import numpy as np
import pytest

from tests.frontend.operators.run_operator import run
from tests.frontend.operators.run_symbolic import run_symbolic
from weft.frontend.operators.registry import instantiate
from weft.ir.build import placeholder
from weft.ir.errors import ExpressionError

rng = np.random.default_rng(0)
GATES = {"rnn": 1, "gru": 3, "lstm": 4}


def sigmoid(v):
    return 1 / (1 + np.exp(-v))


FUNCTIONS = {
    "tanh": lambda v, a, b: np.tanh(v),
    "sigmoid": lambda v, a, b: sigmoid(v),
    "relu": lambda v, a, b: np.maximum(v, 0),
    "affine": lambda v, a, b: a * v + b,
    "leakyrelu": lambda v, a, b: np.where(v < 0, a * v, v),
    "thresholdedrelu": lambda v, a, b: np.where(v >= a, v, 0),
    "scaledtanh": lambda v, a, b: a * np.tanh(b * v),
    "hardsigmoid": lambda v, a, b: np.clip(a * v + b, 0, 1),
    "elu": lambda v, a, b: np.where(v < 0, a * np.expm1(np.minimum(v, 0)), v),
    "softsign": lambda v, a, b: v / (1 + abs(v)),
    "softplus": lambda v, a, b: np.log1p(np.exp(v)),
}
DEFAULTS = {
    "rnn": [("tanh", 0, 0)],
    "gru": [("sigmoid", 0, 0), ("tanh", 0, 0)],
    "lstm": [("sigmoid", 0, 0), ("tanh", 0, 0), ("tanh", 0, 0)],
}


def step(op, x, h, c, w, r, bias, peep, act, more):
    """One step of one sequence: (h, c)."""
    n = h.shape[0]
    wb, rb = bias[: bias.size // 2], bias[bias.size // 2 :]
    gate = [w[g * n : (g + 1) * n] @ x + wb[g * n : (g + 1) * n] for g in range(GATES[op])]
    back = [r[g * n : (g + 1) * n] @ h + rb[g * n : (g + 1) * n] for g in range(GATES[op])]
    if op == "rnn":
        return act(0, gate[0] + back[0]), c
    if op == "gru":
        z, reset = act(0, gate[0] + back[0]), act(0, gate[1] + back[1])
        if more.get("linear_before_reset"):
            candidate = act(1, gate[2] + reset * back[2])
        else:
            candidate = act(1, gate[2] + r[2 * n :] @ (reset * h) + rb[2 * n :])
        return (1 - z) * candidate + z * h, c
    i = act(0, gate[0] + back[0] + peep[:n] * c)
    f = 1 - i if more.get("input_forget") else act(0, gate[2] + back[2] + peep[2 * n :] * c)
    c = f * c + i * act(1, gate[3] + back[3])
    return act(0, gate[1] + back[1] + peep[n : 2 * n] * c) * act(2, c), c


def reference(op, x, w, r, bias, lengths, h0, c0, peep, *, direction="forward", clip=None,
              activations=None, **more):  # fmt: skip
    steps, batch, hidden = x.shape[0], x.shape[1], r.shape[2]
    reverses = {"forward": [0], "reverse": [1], "bidirectional": [0, 1]}[direction]
    functions = activations or DEFAULTS[op] * len(reverses)
    each = len(functions) // len(reverses)
    y = np.zeros((steps, len(reverses), batch, hidden))
    last_h, last_c = h0.copy(), c0.copy()
    for d, reverse in enumerate(reverses):

        def act(which, v, d=d):
            name, a, b = functions[d * each + which]
            return FUNCTIONS[name](v if clip is None else np.clip(v, -clip, clip), a, b)

        for b in range(batch):
            h, c = h0[d, b], c0[d, b]
            times = range(lengths[b])
            for t in reversed(times) if reverse else times:
                h, c = step(op, x[t, b], h, c, w[d], r[d], bias[d], peep[d], act, more)
                y[t, d, b] = h
            last_h[d, b], last_c[d, b] = h, c
    return (y, last_h, last_c)[: 3 if op == "lstm" else 2]


def data(op, steps=4, batch=3, inputs=2, hidden=5, directions=1):
    g = GATES[op]
    shapes = [
        (steps, batch, inputs),
        (directions, g * hidden, inputs),
        (directions, g * hidden, hidden),
        (directions, 2 * g * hidden),
    ]
    x, w, r, bias = (rng.standard_normal(s) for s in shapes)
    lengths = np.full(batch, steps, np.int32)
    h0, c0 = rng.standard_normal((2, directions, batch, hidden))
    return [x, w, r, bias, lengths, h0, c0, rng.standard_normal((directions, 3 * hidden))]


def check(op, given, absent=(), **attributes):
    """Run on ``given`` less the ``absent`` optional inputs, which are zeros for the reference."""
    expected = reference(op, *given, **attributes)
    count = 8 if op == "lstm" else 6
    inputs = [None if n in absent else a for n, a in enumerate(given[:count])]
    for got, want in zip(run(op, *inputs, **attributes), expected, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-12)


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_every_input_and_direction(op, direction):
    given = data(op, directions=2 if direction == "bidirectional" else 1)
    given[4][:] = [4, 0, 3]
    check(op, given, direction=direction)


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (7, 2, 3, 1), (0, 2, 3, 4), (3, 0, 2, 2)])
def test_only_the_required_inputs(op, sizes):
    given = data(op, *sizes)
    for n in (3, 5, 6, 7):
        given[n][:] = 0
    check(op, given, absent=range(3, 8))


@pytest.mark.parametrize("op", GATES)
def test_clipping(op):
    check(op, data(op), clip=0.3)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_activations(name):
    activation = (name, 0.7, 0.4)
    check("rnn", data("rnn"), activations=[activation])
    both = [activation, ("tanh", 0.0, 0.0), ("sigmoid", 0.0, 0.0), activation]
    check("gru", data("gru", directions=2), activations=both, direction="bidirectional")


def test_variants_of_the_cells():
    check("lstm", data("lstm"), input_forget=True)
    given = data("gru", directions=2)
    given[4][:] = [2, 4, 1]
    check("gru", given, linear_before_reset=True, direction="bidirectional")
    given = data("gru")
    given[3][:] = 0
    check("gru", given, absent=[3], linear_before_reset=True)


@pytest.mark.parametrize("op", GATES)
def test_batch_first_is_the_same_transposed(op):
    given = data(op, directions=2)
    given[4][:] = [4, 2, 3]
    given = given[: 8 if op == "lstm" else 6]
    swapped = [a.swapaxes(0, 1) if n in (0, 5, 6) else a for n, a in enumerate(given)]
    plain = run(op, *given, direction="bidirectional")
    y, *last = run(op, *swapped, direction="bidirectional", batch_first=True)
    np.testing.assert_array_equal(y, plain[0].transpose(2, 0, 1, 3))
    for got, want in zip(last, plain[1:], strict=True):
        np.testing.assert_array_equal(got, want.swapaxes(0, 1))


def test_half_precision_keeps_its_state_in_float32():
    """A thousand steps of +2^-12: each would be lost on a float16 state of 1."""
    x = np.full((1024, 1, 1), 2.0**-12, np.float16)
    one = np.ones((1, 1, 1), np.float16)
    _, last = run("rnn", x, one, one, None, None, one, activations=[("affine", 1.0, 0.0)])
    assert last[0, 0, 0] == 1.25


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("steps", [1, 5])
def test_symbolic_steps_and_batch(op, steps):
    x, w, r, *_ = data(op, steps=steps)
    got = run_symbolic(op, x, w, r, sizes={0: {0: "s", 1: "b"}})
    for one, want in zip(got, run(op, x, w, r), strict=True):
        np.testing.assert_array_equal(one, want)


@pytest.mark.parametrize(
    ("shapes", "attributes"),
    [
        ([(4, 3, 2), (1, 5, 3), (1, 5, 5)], {}),
        ([(4, 3, 2), (1, 5, 2), (1, 5, 4)], {}),
        ([(4, 3, 2), (2, 5, 2), (2, 5, 5)], {}),
        ([(4, 3, 2), (1, 5, 2), (1, 5, 5), (1, 5)], {}),
        ([(4, 3, 2), (1, 5, 2), (1, 5, 5)], {"direction": "both"}),
        ([(4, 3, 2), (1, 5, 2), (1, 5, 5)], {"activations": [("jump", 0.0, 0.0)]}),
        ([(4, 3), (1, 5, 2), (1, 5, 5)], {}),
    ],
)
def test_what_does_not_fit_is_refused(shapes, attributes):
    tensors = [placeholder(s, name=f"x{n}") for n, s in enumerate(shapes)]
    with pytest.raises(ExpressionError):
        instantiate("rnn", tensors, **attributes)
