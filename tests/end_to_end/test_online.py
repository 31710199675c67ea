"""Softmax and attention over long rows, as users meet them."""

from __future__ import annotations

import numpy as np

import weft
from weft.codegen.machines.host import host_machine
from weft.frontend.operators.attention import attention
from weft.frontend.operators.softmax import softmax

OFF = weft.Options(cache=False, threads=1, workers=0, online="off")
ON = weft.Options(cache=False, threads=1, workers=0)


def test_softmax_of_a_long_row() -> None:
    x = weft.placeholder((2, 2_000_003), name="x")
    options = weft.Options(cache=False, threads=2, workers=0)
    compiled = weft.compile(softmax(x), options=options)
    assert "blocks of" in compiled.explain()
    assert compiled.stats["arena_bytes"] < 1 << 20  # x is read twice, and y written
    data = np.random.default_rng(0).normal(size=(2, 2_000_003)).astype(np.float32)
    data[1, 4096:50000] = -np.inf
    powers = np.exp(data - data.max(-1, keepdims=True), dtype=np.float64)
    np.testing.assert_allclose(compiled(data), powers / powers.sum(-1, keepdims=True), rtol=2e-6)


def test_attention_keeps_no_row_of_scores() -> None:
    keys = host_machine().caches[-1].size // 2048 + 1024  # 256 rows of scores fit in no cache
    shapes = {"q": 256, "k": keys, "v": keys}
    inputs = [weft.placeholder((1, 1, n, 32), name=name) for name, n in shapes.items()]
    (y,) = attention(*inputs)
    compiled = weft.compile(y, options=ON)
    # A quarter of the scores: a block of at least 128 of them leaves 32 sums.
    assert compiled.stats["arena_bytes"] <= 256 * keys
    assert "of scores that are made block by block" in compiled.explain()
    random = np.random.default_rng(1)
    data = [random.normal(size=t.shape).astype(np.float32) for t in inputs]
    q, k, v = (a.astype(np.float64)[0, 0] for a in data)
    s = q @ k.T / np.sqrt(32)
    p = np.exp(s - s.max(-1, keepdims=True))
    expected = p / p.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(compiled(*data)[0, 0], expected, rtol=0, atol=1e-6)


def test_attention_of_small_floats_keeps_none_either() -> None:
    keys = host_machine().caches[-1].size // 2048 + 1024
    shapes = {"q": 256, "k": keys, "v": keys}
    inputs = [
        weft.placeholder((1, 1, n, 32), dtype="bfloat16", name=name) for name, n in shapes.items()
    ]
    (y,) = attention(*inputs)
    compiled = weft.compile(y, options=ON)
    assert compiled.stats["arena_bytes"] <= 256 * keys
    random = np.random.default_rng(2)
    sizes = [(1, 1, n, 32) for n in shapes.values()]
    data = [random.normal(size=size).astype(inputs[0].dtype.numpy) for size in sizes]
    q, k, v = (a.astype(np.float64)[0, 0] for a in data)
    s = q @ k.T / np.sqrt(32)
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    error = abs(compiled(*data)[0, 0].astype(float) - p @ v)
    assert np.all(error <= 3 * 2.0**-8 * (p @ abs(v)))  # of a weight, of their sum, of the result


def test_the_switch_and_strict_turn_it_off() -> None:
    x = weft.placeholder((1, 2_000_000), name="x")
    strict = weft.Options(cache=False, threads=1, workers=0, strict=True)
    for options in (OFF, strict):
        assert "blocks of" not in weft.compile(softmax(x), options=options).explain()
    assert ON.key != OFF.key
