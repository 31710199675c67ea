"""Loops that repeat indices which are data: right with good ones, and told of the first bad one."""
# ruff: noqa: F821, UP037

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.ir.errors import ExecutionError


@weft.kernel
def shortest(
    source: weft.i32["E"], target: weft.i32["E"], w: weft.f64["E"], rounds: int, d: weft.f64["V"]
):
    for _r in range(rounds):
        for e in range(E):
            d[target[e]] = min(d[target[e]], d[source[e]] + w[e])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("vertices", [1, 2, 17])
@pytest.mark.parametrize("edges", [0, 1, 7, 64])
def test_shortest_paths(threads: int, vertices: int, edges: int) -> None:
    rng = np.random.default_rng(edges)
    source, target = rng.integers(0, vertices, (2, edges)).astype(np.int32)
    w, d = rng.uniform(0, 1, edges), rng.uniform(0, 9, vertices)
    expected = d.copy()
    for _ in range(4):
        for s, t, weight in zip(source, target, w, strict=True):
            expected[t] = min(expected[t], expected[s] + weight)
    run = weft.compile(shortest, options=weft.Options(threads=threads))
    run(source, target, w, 4, d)
    np.testing.assert_array_equal(d, expected)
    if edges > 1:
        for bad in (vertices, -1):
            target[edges // 2] = bad
            with pytest.raises(ExecutionError, match=f"index {bad} of d is outside dimension 0"):
                run(source, target, w, 4, d)
        run(source, target, w, 0, d)  # nothing is read where no round is made
