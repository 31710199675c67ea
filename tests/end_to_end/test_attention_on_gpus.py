"""Attention on tensor cores, through the whole compiler: one launch, both products by warps, masked
or not, right in the twin beside float64 at sizes that no tile divides."""

from __future__ import annotations

import math
import warnings
from functools import cache
from unittest.mock import patch

import numpy as np
import pytest

import weft
from weft.codegen.held_fragments import HeldFactor, HeldSums
from weft.frontend.operators.attention import attention
from weft.ir.dtypes import as_dtype

TWIN = weft.Options(target="cuda-twin:sm_80", workers=0)
UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8}  # half the distance of neighbours at 1


def kernels_of(program: weft.Executable) -> str:
    return program.source("cuda").split("#endif\n\n", 1)[1]


@cache
def compiled(shape: tuple[int, ...], dtype: str, causal: bool) -> weft.Executable:
    q, k, v = (weft.placeholder(shape, dtype=dtype, name=name) for name in "qkv")
    (y,) = attention(q, k, v, causal=causal)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return weft.compile(y, options=TWIN)


def exact(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> tuple[np.ndarray, ...]:
    """Attention in float64, and what its sums have of absolute values."""
    scores = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return weights @ v, weights @ abs(v)


def check(shape: tuple[int, ...], dtype: str, causal: bool) -> None:
    random = np.random.default_rng(shape[2])
    given = [random.standard_normal(shape).astype(as_dtype(dtype).numpy) for _ in "qkv"]
    want, sums = exact(*(x.astype(float) for x in given), causal)
    got = compiled(shape, dtype, causal)(*given).astype(float)
    # A weight, a total of weights and a result are rounded once each; scores are of float32.
    assert np.all(abs(got - want) <= (3 * UNIT[dtype] + 1e-5) * sums)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_one_launch_multiplies_by_tensor_cores(dtype: str, causal: bool) -> None:
    """The scores twice, once for the maximum; no scores or weights go to memory."""
    short = {"float16": "f16", "bfloat16": "bf16"}[dtype]
    program = compiled((1, 2, 65, 64), dtype, causal)
    text = kernels_of(program)
    assert text.count("WEFT_KERNEL(") == 1 and text.count(f"mma_m16n8k16_{short}(") == 3
    assert program.stats["arena_bytes"] == 0
    check((1, 2, 65, 64), dtype, causal)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("positions", [1, 31, 33])
def test_other_sizes(positions: int, causal: bool) -> None:
    check((2, 1, positions, 64), "bfloat16", causal)
    check((1, 1, positions, 128), "float16", causal)


def test_heads_of_128_features_are_one_launch() -> None:
    text = kernels_of(compiled((1, 1, 33, 128), "float16", causal=False))
    assert text.count("WEFT_KERNEL(") == 1 and text.count("mma_m16n8k16_f16(") == 3


def test_one_program_for_all_lengths_and_grouped_heads() -> None:
    n, m = weft.var("n"), weft.var("m")
    shapes = {"q": (1, 4, n, 64), "k": (1, 2, m, 64), "v": (1, 2, m, 32)}
    (y,) = attention(*(weft.placeholder(s, dtype="bfloat16", name=x) for x, s in shapes.items()))
    program = weft.compile(y, options=TWIN)
    assert kernels_of(program).count("WEFT_KERNEL(") == 1
    random = np.random.default_rng(0)
    for queries, keys in ((1, 1), (65, 33), (7, 130)):
        sizes = [(1, 4, queries, 64), (1, 2, keys, 64), (1, 2, keys, 32)]
        given = [random.standard_normal(s).astype(as_dtype("bfloat16").numpy) for s in sizes]
        q, k, v = (x.astype(float) for x in given)
        want, sums = exact(q, np.repeat(k, 2, 1), np.repeat(v, 2, 1), causal=False)
        error = abs(program(*given).astype(float) - want)
        assert np.all(error <= (3 * UNIT["bfloat16"] + 1e-5) * sums)


def test_few_queries_over_many_keys_go_through_memory() -> None:
    """Sixteen rows leave all multiprocessors but one idle, if a block sweeps over their keys."""
    shapes = {"q": (1, 1, 16, 64), "k": (1, 1, 2000, 64), "v": (1, 1, 2000, 64)}
    given = [weft.placeholder(s, dtype="bfloat16", name=x) for x, s in shapes.items()]
    program = weft.compile(attention(*given)[0], options=TWIN)
    text = kernels_of(program)
    assert text.count("WEFT_KERNEL(") == 3 and text.count("mma_m16n8k16_bf16(") == 2
    random = np.random.default_rng(1)
    data = [random.standard_normal(s).astype(as_dtype("bfloat16").numpy) for s in shapes.values()]
    want, sums = exact(*(x.astype(float) for x in data), causal=False)
    error = abs(program(*data).astype(float) - want)
    assert np.all(error <= (3 * UNIT["bfloat16"] + 1e-5) * sums)


@weft.kernel
def in_loops(q: weft.f16[70, 40], k: weft.f16[90, 40], v: weft.f16[90, 50], y: weft.f32[70, 50]):
    s = weft.empty((70, 90), weft.f32)
    top = weft.empty((70,), weft.f32)
    p = weft.empty((70, 90), weft.f16)
    for i in range(70):
        for j in range(90):
            s[i, j] = 0.0
            for d in range(40):
                s[i, j] += weft.float32(q[i, d]) * weft.float32(k[j, d])
    for i in range(70):
        top[i] = -math.inf
        for j in range(90):
            top[i] = max(top[i], s[i, j])
    for i in range(70):
        for j in range(90):
            p[i, j] = weft.float16(weft.exp(s[i, j] - top[i]))
    for i in range(70):
        for e in range(50):
            y[i, e] = 0.0
            for j in range(90):
                y[i, e] += weft.float32(p[i, j]) * weft.float32(v[j, e])


def test_a_loop_kernel_goes_the_same_way_and_stores_its_results_once() -> None:
    program = in_loops.compile(options=TWIN)
    random = np.random.default_rng(2)
    shapes = [(70, 40), (90, 40), (90, 50)]
    q, k, v = (random.standard_normal(s).astype(np.float16) for s in shapes)
    y = np.zeros((70, 50), np.float32)
    program(q, k, v, y)
    scores = q.astype(float) @ k.astype(float).T
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    sums = weights @ abs(v.astype(float))
    assert np.all(abs(y - weights @ v.astype(float)) <= (UNIT["float16"] + 1e-5) * sums)
    text = kernels_of(program)
    assert text.count("WEFT_KERNEL(") == 1 and text.count("mma_m16n8k16_f16(") == 3
    assert sum(line.strip().startswith("y[") for line in text.splitlines()) == 1


def told(shape: tuple[int, ...]) -> str:
    """What the compiler says of attention that it does not take as it was planned."""
    q, k, v = (weft.placeholder(shape, dtype="bfloat16", name=name) for name in "qkv")
    with pytest.warns(weft.WeftWarning) as warned:
        weft.compile(attention(q, k, v)[0], options=TWIN)
    return "\n".join(str(w.message) for w in warned)


def test_weights_under_another_number_are_refused() -> None:
    """Each thread has the right elements, but not where the second product takes them from."""
    right = HeldFactor.element

    def swapped(self, sums, own):
        *tile, number = right(self, sums, own)
        return *tile, number // 4 * 4 + (number + 2) % 4

    with patch.object(HeldFactor, "element", swapped):
        assert "WEFT-E0428" in told((1, 1, 33, 64))


def test_parts_of_a_row_that_threads_share_are_refused() -> None:
    """Two threads that fold into one partial result race."""
    right = HeldSums.digit

    def shared(self, own, each, above):
        found = right(self, own, each, above)
        return found if found is None or (each, above) != (2, 8) else found // 2

    with patch.object(HeldSums, "digit", shared):
        assert "WEFT-E0426" in told((1, 1, 34, 64))
