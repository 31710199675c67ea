import numpy as np
import pytest

from tests.frontend.operators.run_operator import run
from tests.frontend.operators.run_symbolic import run_symbolic
from weft.frontend.operators.registry import instantiate
from weft.ir.build import placeholder
from weft.ir.errors import ExpressionError

rng = np.random.default_rng(0)
BATCH, STEPS, HEADS, SIZE, WIDTH = 2, 5, 2, 3, 4


def data(q_heads=HEADS, steps=STEPS):
    lead = (BATCH, steps)
    q, k, v = (
        rng.standard_normal((*lead, n)) for n in (q_heads * SIZE, HEADS * SIZE, HEADS * WIDTH)
    )
    return q, k, v, rng.standard_normal((BATCH, HEADS, SIZE, WIDTH))


def reference(q, k, v, state, decay=None, beta=None, scale=SIZE**-0.5):
    """One position after the other, every head a matrix."""
    steps, shared = q.shape[1], q.shape[2] // (HEADS * SIZE)
    q, k, v = (
        a.reshape(BATCH, steps, a.shape[2] // n, n) for a, n in ((q, SIZE), (k, SIZE), (v, WIDTH))
    )
    y, state = np.zeros((BATCH, steps, q.shape[2], WIDTH)), state.copy()
    for b, t, h in np.ndindex(BATCH, steps, HEADS):
        if decay is not None:
            state[b, h] *= np.exp(decay[b, t].reshape(HEADS, -1)[h])[:, None]
        new = v[b, t, h]
        if beta is not None:
            new = np.broadcast_to(beta[b, t], HEADS)[h] * (new - state[b, h].T @ k[b, t, h])
        state[b, h] += np.outer(k[b, t, h], new)
        for group in range(shared):
            y[b, t, h * shared + group] = scale * q[b, t, h * shared + group] @ state[b, h]
    return y.reshape(BATCH, steps, y.shape[2] * WIDTH), state


@pytest.mark.parametrize("decays", [None, HEADS, HEADS * SIZE])
@pytest.mark.parametrize("rates", [None, 1, HEADS])
@pytest.mark.parametrize("q_heads", [HEADS, 3 * HEADS])
def test_rules_and_shared_heads(decays, rates, q_heads):
    q, k, v, past = data(q_heads)
    decay = None if decays is None else -rng.random((BATCH, STEPS, decays))
    beta = None if rates is None else rng.random((BATCH, STEPS, rates))
    expected = reference(q, k, v, past, decay, beta)
    results = run("linear_attention", q, k, v, past, decay, beta, q_heads=q_heads, kv_heads=HEADS)
    for got, want in zip(results, expected, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-12)


@pytest.mark.parametrize("steps", [0, 1])
def test_few_positions_and_no_past(steps):
    q, k, v, past = data(steps=steps)
    expected = reference(q, k, v, np.zeros_like(past), scale=2.0)
    results = run("linear_attention", q, k, v, q_heads=HEADS, kv_heads=HEADS, scale=2.0)
    for got, want in zip(results, expected, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-12)


def test_symbolic_sizes():
    q, k, v, past = data()
    names = {n: {0: "b", 1: "t"} for n in range(3)} | {3: {0: "b"}}
    heads = {"q_heads": HEADS, "kv_heads": HEADS}
    results = run_symbolic("linear_attention", q, k, v, past, sizes=names, **heads)
    for got, want in zip(results, run("linear_attention", q, k, v, past, **heads), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("shapes", "heads"),
    [
        ([(1, 2, 6), (1, 2, 6), (1, 2, 8)], (3, 2)),
        ([(1, 2, 6), (1, 2, 6), (1, 2, 7)], (2, 2)),
        ([(1, 2, 8), (1, 2, 6), (1, 2, 8)], (2, 2)),
        ([(1, 2, 6), (1, 3, 6), (1, 2, 8)], (2, 2)),
        ([(1, 2, 6), (1, 2, 6), (1, 2, 8), (1, 2, 3, 5)], (2, 2)),
        ([(1, 2, 6), (1, 2, 6), (1, 2, 8), (1, 2, 3, 4), (1, 2, 4)], (2, 2)),
    ],
)
def test_what_does_not_fit_is_refused(shapes, heads):
    tensors = [placeholder(s, name=f"x{n}") for n, s in enumerate(shapes)]
    with pytest.raises(ExpressionError):
        instantiate("linear_attention", tensors, q_heads=heads[0], kv_heads=heads[1])
