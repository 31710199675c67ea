import itertools

import numpy as np
import pytest

from tests.frontend.operators.run_operator import run
from tests.frontend.operators.run_symbolic import run_symbolic
from weft.frontend.operators.registry import instantiate
from weft.ir.build import placeholder
from weft.ir.errors import ExpressionError

rng = np.random.default_rng(0)


def reference(q, k, v, mask=None, lengths=None, *, past=0, causal=False, window=(-1, -1),
              softcap=0.0, scale=None):  # fmt: skip
    """One query at a time over the keys that it may see, in float64."""
    batch, heads, queries, size = q.shape
    shared = heads // k.shape[1]
    y = np.zeros((batch, heads, queries, v.shape[3]))
    for b, h, i in np.ndindex(batch, heads, queries):
        position = i + (past if lengths is None else lengths[b] - queries)
        seen, scores = [], []
        for j in range(k.shape[2]):
            out = lengths is not None and j >= lengths[b]
            out |= causal and j > position
            out |= window[0] >= 0 and j < position - window[0]
            out |= window[1] >= 0 and j > position + window[1]
            score = q[b, h, i] @ k[b, h // shared, j] * (scale or size**-0.5)
            score = softcap * np.tanh(score / softcap) if softcap else score
            if mask is not None:
                value = mask[b, h, i, j]
                out |= not value if mask.dtype == bool else value == -np.inf
                score = score if mask.dtype == bool else score + value
            if not out:
                seen.append(v[b, h // shared, j])
                scores.append(score)
        if seen:
            weights = np.exp(scores - np.max(scores))
            y[b, h, i] = weights @ np.array(seen) / weights.sum()
    return y


def tensors(heads=4, kv_heads=2, queries=3, keys=5):
    shapes = ((2, heads, queries, 8), (2, kv_heads, keys, 8), (2, kv_heads, keys, 6))
    return [rng.standard_normal(s) for s in shapes]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [(-1, -1), (1, -1), (0, 0), (-1, 1)])
@pytest.mark.parametrize("heads", [(1, 1), (4, 2), (3, 1)])
def test_what_each_query_sees(causal, window, heads):
    q, k, v = tensors(*heads)
    expected = reference(q, k, v, causal=causal, window=window)
    result = run("attention", q, k, v, causal=causal, window=window)
    np.testing.assert_allclose(result, expected, atol=1e-12)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (4, 1, 5), (2, 1, 3, 5), (2, 4, 3, 5), (3, 4)])
@pytest.mark.parametrize("boolean", [False, True])
def test_masks(shape, boolean):
    """The last shape is short: the key beyond it is left out. Some rows see nothing."""
    q, k, v = tensors()
    mask = rng.random(shape) < 0.6 if boolean else rng.standard_normal(shape)
    if not boolean:
        mask[rng.random(shape) < 0.3] = -np.inf
    if len(shape) > 1:
        mask[(0,) * (len(shape) - 1)] = False if boolean else -np.inf
    missing = 5 - shape[-1]
    whole = np.pad(mask, [(0, 0)] * (len(shape) - 1) + [(0, missing)],
                   constant_values=False if boolean else -np.inf)  # fmt: skip
    whole = np.broadcast_to(whole, (2, 4, 3, 5))
    expected = reference(q, k, v, whole, causal=True)
    np.testing.assert_allclose(run("attention", q, k, v, mask, causal=True), expected, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
def test_past_keys_come_first(causal):
    q, k, v = tensors()
    past_k, past_v = rng.standard_normal((2, 2, 4, 8)), rng.standard_normal((2, 2, 4, 6))
    y, keys, values = run("attention", q, k, v, None, past_k, past_v, causal=causal, present=True)
    np.testing.assert_array_equal(keys, np.concatenate([past_k, k], 2))
    np.testing.assert_array_equal(values, np.concatenate([past_v, v], 2))
    expected = reference(q, keys, values, past=4, causal=causal)
    np.testing.assert_allclose(y, expected, atol=1e-12)


def test_lengths_of_an_outer_cache():
    q, k, v = tensors()
    lengths = np.array([5, 1])
    for causal in (False, True):
        expected = reference(q, k, v, lengths=lengths, causal=causal)
        result = run("attention", q, k, v, None, None, None, lengths, causal=causal)
        np.testing.assert_allclose(result, expected, atol=1e-12)


def test_heads_in_one_dimension():
    q, k, v = tensors()
    flat = [t.transpose(0, 2, 1, 3).reshape(2, t.shape[2], -1) for t in (q, k, v)]
    y, keys, _ = run(
        "attention", *flat, q_heads=4, kv_heads=2, softcap=0.8, scale=0.3, present=True
    )
    expected = reference(q, k, v, softcap=0.8, scale=0.3)
    np.testing.assert_allclose(y, expected.transpose(0, 2, 1, 3).reshape(2, 3, -1), atol=1e-12)
    np.testing.assert_array_equal(keys, k)


def test_scores():
    q, k, v = tensors(2, 2)
    raw = np.einsum("bhid,bhjd->bhij", q, k) * 8**-0.5
    capped = 0.5 * np.tanh(raw / 0.5)
    masked = np.where(np.tri(3, 5, dtype=bool), capped, -np.inf)
    e = np.exp(masked - masked.max(-1, keepdims=True))
    for mode, expected in enumerate((raw, capped, masked, e / e.sum(-1, keepdims=True))):
        _, scores = run("attention", q, k, v, causal=True, softcap=0.5, scores_output=mode)
        np.testing.assert_allclose(scores, expected, atol=1e-12)


def test_symbolic_sizes():
    q, k, v = tensors()
    names = {0: {0: "b", 2: "i"}, 1: {0: "b", 2: "j"}, 2: {0: "b", 2: "j"}}
    expected = reference(q, k, v, causal=True)
    result = run_symbolic("attention", q, k, v, sizes=names, causal=True)
    np.testing.assert_allclose(result, expected, atol=1e-12)


BAD = {
    "head sizes": ([(1, 2, 3, 8), (1, 2, 3, 7), (1, 2, 3, 8)], {}),
    "heads": ([(1, 3, 3, 8), (1, 2, 3, 8), (1, 2, 3, 8)], {}),
    "positions": ([(1, 2, 3, 8), (1, 2, 3, 8), (1, 2, 4, 8)], {}),
    "batches": ([(1, 2, 3, 8), (2, 2, 3, 8), (2, 2, 3, 8)], {}),
    "no heads given": ([(1, 3, 8), (1, 3, 8), (1, 3, 8)], {}),
    "features": ([(1, 3, 8), (1, 3, 8), (1, 3, 8)], {"q_heads": 3, "kv_heads": 1}),
    "mask": ([(1, 2, 3, 8), (1, 2, 3, 8), (1, 2, 3, 8), (2, 2, 3, 3)], {}),
    "half a cache": ([(1, 2, 3, 8), (1, 2, 3, 8), (1, 2, 3, 8), (3,), (1, 2, 3, 8)], {}),
}


@pytest.mark.parametrize("what", BAD)
def test_what_does_not_fit_is_refused(what):
    shapes, attributes = BAD[what]
    with pytest.raises(ExpressionError):
        given = [placeholder(s, name=f"x{n}") for n, s in enumerate(shapes)]
        instantiate("attention", given, **attributes)


def test_every_bad_case_is_about_one_thing():
    """With the tensors of the first case put right, nothing is refused."""
    shapes = list(itertools.repeat((1, 2, 3, 8), 3))
    instantiate("attention", [placeholder(s, name=f"x{n}") for n, s in enumerate(shapes)])
