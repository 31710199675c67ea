"""Problems: what they are called by, as bytes and back, and calls that are made up."""

# ruff: noqa: F821
# mypy: disable-error-code="name-defined, valid-type"

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.api import graph_of
from weft.driver.advice import about
from weft.driver.graph_front import cluster_scops
from weft.ir.encoding import MALFORMED
from weft.ir.size_arithmetic import SizeError
from weft.runtime.records import names_of, scop_key
from weft.tuner.problem import Problem, problem_of_kernel
from weft.tuner.sizes import several

OPTIONS = weft.Options(threads=1, cache=False, workers=0)


@weft.kernel
def product(A: weft.f32[M, K], B: weft.f32[K, N], C: weft.f32[M, N]):
    for i in range(M):
        for j in range(N):
            for k in range(K):
                C[i, j] += A[i, k] * B[k, j]


@weft.kernel
def same(X: weft.f32[M, K], Y: weft.f32[K, N], Z: weft.f32[M, N]):
    for i in range(M):
        for j in range(N):
            for k in range(K):
                Z[i, j] += X[i, k] * Y[k, j]


@weft.kernel
def wider(A: weft.f64[M, K], B: weft.f64[K, N], C: weft.f64[M, N]):
    for i in range(M):
        for j in range(N):
            for k in range(K):
                C[i, j] += A[i, k] * B[k, j]


@weft.kernel
def turned(A: weft.f32[M, K], B: weft.f32[N, K], C: weft.f32[M, N]):
    for i in range(M):
        for j in range(N):
            for k in range(K):
                C[i, j] += A[i, k] * B[j, k]


@weft.kernel
def scaled(A: weft.f32[N], s: weft.f32, t: int):
    for i in range(N):
        A[i] = s * A[i] + t


def call(m: int, n: int, k: int, dtype: type = np.float32) -> dict[str, np.ndarray]:
    return {"A": np.ones((m, k), dtype), "B": np.ones((k, n), dtype), "C": np.ones((m, n), dtype)}


def test_the_same_program_has_one_key_whatever_things_are_called() -> None:
    one, other = product.lowered.scop, same.lowered.scop
    assert scop_key(one) == scop_key(other) and names_of(one) != names_of(other)
    others = [wider.lowered.scop, turned.lowered.scop, scaled.lowered.scop]
    assert len({scop_key(s) for s in (one, *others)}) == 4


def matmul(m: int, n: int, k: int, name: str, more: float = 0.0) -> weft.Tensor:
    x = weft.placeholder((m, k), name=f"{name}x")
    w = weft.placeholder((k, n), name=f"{name}w")
    r = weft.reduce_axis((0, k), name="r")
    return weft.compute((m, n), lambda i, j: weft.sum(x[i, r] * w[r, j], r) + more, name=f"{name}y")


def test_clusters_of_equal_programs() -> None:
    def scops(y: weft.Tensor) -> list[str]:
        return [scop_key(s) for s in cluster_scops(graph_of(y), OPTIONS).values()]

    assert scops(matmul(8, 9, 7, "a")) == scops(matmul(8, 9, 7, "b"))
    assert scops(matmul(8, 9, 7, "a")) != scops(matmul(8, 9, 6, "a"))
    assert scops(matmul(8, 9, 7, "a")) != scops(matmul(8, 9, 7, "a", more=1.0))


def test_families_are_of_all_sizes_and_names() -> None:
    sizes = [(4, 5, 6), (1, 1, 1), (7, 13, 0), (64, 64, 64)]
    problems = [problem_of_kernel(product.lowered, call(*s)) for s in sizes]
    assert len({p.family for p in problems}) == 1
    assert len({p.sizes for p in problems}) == len(sizes)
    arrays = dict(zip("XYZ", call(4, 5, 6).values(), strict=True))
    assert problem_of_kernel(same.lowered, arrays).family == problems[0].family
    others = [
        problem_of_kernel(wider.lowered, call(4, 5, 6, np.float64)),
        problem_of_kernel(turned.lowered, {**call(4, 5, 6), "B": np.ones((5, 6), np.float32)}),
    ]
    assert len({p.family for p in (problems[0], *others)}) == 3


def test_families_of_clusters_of_fixed_sizes() -> None:
    found = set()
    for m, n, k in ((8, 9, 7), (16, 32, 64)):
        (scop,) = cluster_scops(graph_of(matmul(m, n, k, "a")), OPTIONS).values()
        found.add(Problem(scop, (), ()).family)
    assert len(found) == 1


def test_what_records_are_about() -> None:
    scop = product.lowered.scop
    here = about(scop, OPTIONS)
    assert about(scop, replace(OPTIONS, threads=2)).context != here.context
    assert about(scop, replace(OPTIONS, strict=True)).context != here.context
    assert about(scop, replace(OPTIONS, target="x86-64-v2")).machine != here.machine
    assert replace(about(same.lowered.scop, OPTIONS), names=here.names) == here


@pytest.mark.parametrize("kernel", [product, scaled])
def test_as_bytes_and_back(kernel: weft.Kernel) -> None:
    arrays = call(3, 4, 5) if kernel is product else {"A": np.ones(3, np.float32), "s": 2.0, "t": 1}
    found = problem_of_kernel(kernel.lowered, arrays)  # type: ignore[arg-type]
    assert Problem.read(found.data) == found
    with pytest.raises(MALFORMED):
        Problem.read(found.data[:-3])
    with pytest.raises(MALFORMED):
        Problem.read(b"")


def test_made_up_calls_fit_and_are_the_same_for_a_seed(tmp_path: Path) -> None:
    arrays = {"A": np.ones(13, np.float32), "s": np.float32(2), "t": np.int64(1)}
    found = problem_of_kernel(scaled.lowered, arrays)
    one, again, other = found.arrays(0), found.arrays(0), found.arrays(1)
    assert one["A"].shape == (13,) and one["A"].dtype == np.float32
    np.testing.assert_array_equal(one["A"], again["A"])
    assert not np.array_equal(one["A"], other["A"])
    run = found.compiled(OPTIONS, {})
    expected = one["s"] * one["A"] + one["t"]
    run(*one.values())
    np.testing.assert_allclose(one["A"], expected, rtol=1e-6)


def test_shapes_that_contradict_each_other() -> None:
    with pytest.raises(SizeError, match="K"):
        problem_of_kernel(product.lowered, {**call(3, 4, 5), "B": np.ones((6, 4), np.float32)})


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ([(1,), (2,)], True),
        ([{"A": 1}, {"A": 2}], True),
        ((1, 2), False),
        ((), False),
        ("ab", False),
        (3, False),
        (None, False),
        ({"A": 1}, False),
        ([(1,), np.ones(2)], False),
    ],
)
def test_several_calls(args: object, expected: bool) -> None:
    assert several(args) == expected
