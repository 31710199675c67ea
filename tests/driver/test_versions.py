"""``NAME.versions`` in a plan: all statements once for each range of sizes."""

# ruff: noqa: F821, UP037

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.driver.options import Options
from weft.ir.errors import PlanError


@weft.kernel
def product(A: weft.f64["N", "K"], B: weft.f64["K", "M"], C: weft.f64["N", "M"]):
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            for k in range(A.shape[1]):
                C[i, j] += A[i, k] * B[k, j]


OPTIONS = Options(threads=1, cache=False, workers=0, target="x86-64-v3")


def right(run: weft.Executable, n: int, m: int = 3) -> None:
    random = np.random.default_rng(n)
    A, B, C = random.random((n, n)), random.random((n, m)), random.random((n, m))
    expected = C + A @ B
    run(A, B, C)
    np.testing.assert_allclose(C, expected, rtol=1e-12)


def test_versions_by_size_have_decisions_of_their_own() -> None:
    plan = {"product.versions": "N >= 8; N >= 40", "S0_edge.k_tile": 16}
    run = weft.compile(product, options=OPTIONS, plan=plan)
    tiles = {d.name: d.chosen for d in run.plan.decisions if d.name.endswith(".k_tile")}
    assert tiles["S0_edge.k_tile"] == 16 and tiles["S0.k_tile"] != 16
    for n in (0, 1, 7, 8, 9, 39, 40, 41):
        right(run, n)


def test_versions_by_what_is_no_size_are_refused() -> None:
    for conditions in ("nonsense", "N == 3", ""):
        with pytest.raises(PlanError, match="WEFT-E0028"):
            weft.compile(product, options=OPTIONS, plan={"product.versions": conditions})


def test_versions_that_no_size_takes_are_dropped() -> None:
    plan = {"product.versions": "N >= 40; N >= 8"}
    run = weft.compile(product, options=OPTIONS, plan=plan)
    names = {name.partition(".")[0] for name in run.plan if name.endswith("_tile")}
    assert "S0_edge" in names and "S0_edge_2" not in names
    for n in (0, 7, 8, 39, 40):
        right(run, n)


@weft.kernel
def square(A: weft.f64["N", "N"], B: weft.f64["N", "N"], C: weft.f64["N", "N"]):
    for i in range(N):
        for j in range(N):
            C[i, j] = 0.0
            for k in range(N):
                C[i, j] += A[i, k] * B[k, j]


def test_no_version_of_few_rows_where_many_steps_are_as_many_rows() -> None:
    run = weft.compile(square, options=OPTIONS)
    versions = {name.partition(".")[0] for name in run.plan if name.endswith(".i_tile")}
    assert versions == {"S1", "S1_few_steps"}
    for n in (0, 1, 255, 256, 384, 385, 386):
        A, B = np.random.default_rng(n).random((2, n, n))
        C = np.empty((n, n))
        run(A, B, C)
        np.testing.assert_allclose(C, A @ B, rtol=1e-12)
