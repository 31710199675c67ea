"""What a tuner leaves behind: scripts and versions by size in plans, and plans in records."""

# ruff: noqa: F821, UP037

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import weft
from weft.driver.advice import about
from weft.driver.options import Options
from weft.ir.errors import PlanError, WeftWarning
from weft.ir.plan import Value
from weft.runtime.records import Confirmed, Records, plan_text


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


def test_a_plan_may_be_a_script() -> None:
    script = str(product.schedule().tile({"i": 8, "j": 8}))
    run = weft.compile(product, options=OPTIONS, plan={"product.script": script})
    assert run.plan["product.script"] == script
    own = product.compile(product.schedule().tile({"i": 8, "j": 8}), options=OPTIONS)
    assert run.source("llvm") == own.source("llvm")
    for n in (0, 1, 7, 17):
        right(run, n)


@pytest.mark.parametrize(
    "script",
    [
        "s = s\ns = s.reverse('k').parallel('k')",
        "s = s\ns = s.tile({'x': 8})",
        "s = s\ns = s.tile(open(1))",
    ],
)
def test_a_script_that_does_not_hold_is_refused(script: str) -> None:
    with pytest.raises(PlanError, match=r"WEFT-E0028[\s\S]*product\.script"):
        weft.compile(product, options=OPTIONS, plan={"product.script": script})


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


def recorded(path: Path, plan: dict[str, Value], low: float) -> Options:
    options = Options(**{**_fields(OPTIONS), "tuned": "records", "records": str(path)})
    with Records(path) as records:
        row = Confirmed(plan_text(plan), 1.3, low, 1.4)
        records.keep(about(product.scop, OPTIONS, "(('N', 9),)"), row)
    return options


def _fields(options: Options) -> dict[str, object]:
    return {name: getattr(options, name) for name in Options.__dataclass_fields__}


def test_confirmed_plans_are_taken_from_records(tmp_path: Path) -> None:
    path = tmp_path / "records"
    options = recorded(path, {"S0.k_tile": 48}, 1.1)
    run = weft.compile(product, options=options)
    assert run.plan["S0.k_tile"] == 48
    right(run, 9)
    assert weft.compile(product, options=OPTIONS).plan["S0.k_tile"] != 48
    own = weft.compile(product, options=options, plan={"S0.k_tile": 24})
    assert own.plan["S0.k_tile"] == 24  # a plan goes before records


def test_plans_that_are_not_sure_are_left(tmp_path: Path) -> None:
    options = recorded(tmp_path / "records", {"S0.k_tile": 48}, 1.0)
    assert weft.compile(product, options=options).plan["S0.k_tile"] != 48


def test_records_that_do_not_fit_any_more_are_left_with_a_warning(tmp_path: Path) -> None:
    options = recorded(tmp_path / "records", {"S0.strategy": "by magic"}, 1.1)
    with pytest.warns(WeftWarning, match="does not fit any more"):
        right(weft.compile(product, options=options), 9)
