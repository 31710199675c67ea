"""Attention on tensor cores, through the whole compiler: one launch, both products by warps, masked
or not, right in the twin beside float64 at sizes that no tile divides."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest

import weft
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
