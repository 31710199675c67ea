"""Long sums of few results go in parts, which are summed in a second launch; right in the twin
beside NumPy, and where loops around need a sum at once it is left as it is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft
from tests.polyhedral.policy.test_gpu_sweeps import plain
from weft.benchmarks.gpu.rows import product
from weft.codegen.machines.nvidia import A100, GPUS, H100
from weft.frontend.operators.attention import attention
from weft.ir.gpu import Gpu
from weft.polyhedral.policy.gpu import schedule_gpu
from weft.polyhedral.policy.gpu_parts import cycles
from weft.polyhedral.proof.prove import prove

TWIN = weft.Options(target="cuda-twin:sm_80", workers=0)


def parts(kernel: weft.Kernel, gpu: Gpu = H100) -> list[str]:
    """What is told of parts, of a schedule that is proved."""
    made = schedule_gpu(kernel.scop, gpu)
    prove(kernel.scop, made.scop, made.tree)
    return [note for note in made.notes if note.startswith("parts: ")]


@weft.kernel
def columns(A: weft.f64[5000, 70], s: weft.f64[70]):
    for j in range(70):
        s[j] = 1.0
        for i in range(5000):
            s[j] += A[i, j]


@weft.kernel
def greatest(A: weft.i32[3001, 33], s: weft.i32[33]):
    for i in range(3001):
        for j in range(33):
            s[j] = max(s[j], A[i, j])


@weft.kernel
def many(A: weft.f64[64, 100000], s: weft.f64[100000]):
    for j in range(100000):
        s[j] = 0.0
        for i in range(64):
            s[j] += A[i, j]


@weft.kernel
def rows(A: weft.f32[40, 5000], s: weft.f32[40]):
    for i in range(40):
        s[i] = 0.0
        for j in range(5000):
            s[i] += A[i, j]


@weft.kernel
def begun_again(A: weft.f64[900, 900], s: weft.f64[4], t: weft.f64[4]):
    for n in range(900):
        for j in range(4):
            s[j] = 0.0
            for i in range(900):
                s[j] += A[i, n] * j


@weft.kernel
def read_meanwhile(A: weft.f64[5000, 7], s: weft.f64[7], t: weft.f64[5000, 7]):
    for i in range(5000):
        for j in range(7):
            s[j] += A[i, j]
            t[i, j] = s[j]


@weft.kernel
def later(A: weft.f64[5000, 7], s: weft.f64[7]):
    for j in range(7):
        for i in range(3, 5000):
            s[j] += A[i, j]


@weft.kernel
def any_size(A: weft.f64[n, m], s: weft.f64[m]):  # noqa: F821
    for j in range(A.shape[1]):
        for i in range(A.shape[0]):
            s[j] += A[i, j]


@pytest.mark.parametrize("gpu", GPUS.values(), ids=list(GPUS))
@pytest.mark.parametrize("kernel", [columns, greatest], ids=lambda k: k.scop.name)
def test_few_long_sums_go_in_parts(kernel: weft.Kernel, gpu: Gpu) -> None:
    assert len(parts(kernel, gpu)) == 1


@pytest.mark.parametrize(
    "kernel", [many, rows, begun_again, read_meanwhile, later, any_size, plain],
    ids=lambda k: k.scop.name,
)  # fmt: skip
def test_others_stay_as_they_are(kernel: weft.Kernel) -> None:
    assert parts(kernel) == []


def summed(A: np.ndarray, s: np.ndarray) -> np.ndarray:
    return 1.0 + A.sum(0)


def highest(A: np.ndarray, s: np.ndarray) -> np.ndarray:
    return np.maximum(s, A.max(0))


@pytest.mark.parametrize(("kernel", "expected"), [(columns, summed), (greatest, highest)])
def test_parts_are_right(
    kernel: weft.Kernel, expected: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> None:
    random = np.random.default_rng(0)
    shape, dtype = ((5000, 70), np.float64) if kernel is columns else ((3001, 33), np.int32)
    A = (100 * random.standard_normal(shape)).astype(dtype)
    s = (100 * random.standard_normal(shape[1:])).astype(dtype)
    wanted = expected(A, s)
    program = kernel.compile(options=TWIN)
    assert program.source("cuda").count("WEFT_KERNEL(") == 3  # and its definition
    program(A, s)
    np.testing.assert_allclose(s, wanted, rtol=1e-12)


def test_a_vector_times_a_matrix() -> None:
    program = weft.compile(product((1, 300, 1031), "bfloat16").build(), options=TWIN)
    random = np.random.default_rng(1)
    a, b = (random.standard_normal(n).astype(weft.bf16.numpy) for n in ((1, 1031), (1031, 300)))
    wanted = a.astype(float) @ b.astype(float)
    np.testing.assert_allclose(program(a, b).astype(float), wanted, rtol=1e-2, atol=0.3)
    assert "parts: " in program.explain()


def test_one_query_over_many_keys() -> None:
    heads, keys, features = 2, 1000, 64
    shapes = (1, heads, 1, features), (1, heads, keys, features), (1, heads, keys, features)
    q, k, v = (weft.placeholder(s, name=n) for s, n in zip(shapes, "qkv", strict=True))
    (y,) = attention(q, k, v)
    program = weft.compile(y, options=TWIN)
    assert "along j" in program.explain()
    random = np.random.default_rng(2)
    a, b, c = (random.standard_normal(s).astype(np.float32) for s in shapes)
    scores = np.einsum("bhid,bhjd->bhij", a.astype(float), b) / features**0.5
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = np.einsum("bhij,bhjd->bhid", weights / weights.sum(-1, keepdims=True), c)
    np.testing.assert_allclose(program(a, b, c), wanted, atol=1e-6)


def test_the_price_is_memory_where_threads_are_enough() -> None:
    s = many.scop.statements[-1]
    assert s.update is not None
    sizes, moved = {"j": 100000, "i": 64}, 64 * 100000 * 8
    dims = dict(zip(s.dims, (100000, 64), strict=True))
    assert sorted(dims.values()) == sorted(sizes.values())
    floor = moved / A100.bandwidth * A100.clock
    assert cycles(many.scop, s, dims, 1, A100) == max(floor, 64 * A100.latency)
    assert cycles(many.scop, s, dims, 2, A100) > floor
