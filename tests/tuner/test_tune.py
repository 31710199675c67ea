"""``weft.tune`` from end to end: what it finds compiles, and computes the same."""

# ruff: noqa: F821
# mypy: disable-error-code="name-defined, valid-type"

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import weft
from tests.tuner.stubs import Inside
from weft.ir.errors import CompileError
from weft.runtime.records import Records
from weft.tuner import search
from weft.tuner.tune import seconds_of

OPTIONS = weft.Options(threads=1, cache=False, workers=0)
RANDOM = np.random.default_rng(0)


@weft.kernel
def sweep(A: weft.f64[M, M], B: weft.f64[M, N]):
    for i in range(1, M):
        for j in range(N):
            B[i, j] += A[i, i - 1] * B[i - 1, j]


def by_hand(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    b = b.copy()
    for i in range(1, len(b)):
        b[i] += a[i, i - 1] * b[i - 1]
    return b


@weft.kernel
def scaled(A: weft.f32[N], s: weft.f32, t: int):
    for i in range(N):
        A[i] = s * A[i] + t


def product(m: int, n: int, k: int) -> weft.Tensor:
    x, w = weft.placeholder((m, k), name="x"), weft.placeholder((k, n), name="w")
    r = weft.reduce_axis((0, k), name="r")
    return weft.compute((m, n), lambda i, j: weft.sum(x[i, r] * w[r, j], r), name="y")


WEIGHT = RANDOM.standard_normal((12, 12)).astype(np.float32)


def network(rows: int | str = 5) -> onnx.ModelProto:
    """y = softmax(x · W) · W: several clusters."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
        helper.make_node("Softmax", ["a"], ["b"], name="soft", axis=1),
        helper.make_node("MatMul", ["b", "w"], ["y"], name="second"),
    ]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [rows, 12]) for n in "xy"]
    graph = helper.make_graph(
        nodes, "net", info[:1], info[1:], [numpy_helper.from_array(WEIGHT, "w")]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def network_in_numpy(x: np.ndarray) -> np.ndarray:
    a = x.astype(np.float64) @ WEIGHT
    e = np.exp(a - a.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True) @ WEIGHT


# ---- what may be tuned ---------------------------------------------------------------------------


@pytest.mark.long
def test_a_loop_kernel_in_place(inside: Inside, eager: None, tmp_path: Path) -> None:
    a, b = RANDOM.random((23, 23)), RANDOM.random((23, 17))
    kept = a.copy(), b.copy()
    found = weft.tune(sweep, (a, b), trials=6, options=OPTIONS, records=tmp_path / "records")
    np.testing.assert_array_equal(a, kept[0])
    np.testing.assert_array_equal(b, kept[1])  # calls that are timed have arrays of their own
    assert 6 <= found.trials < 9 and found.name == "sweep" and found.plan
    assert found.before == 2e-3 and found.after == 1e-3 and found.gain is not None
    run = weft.compile(sweep, options=OPTIONS, plan=found.plan)
    run(a, b)
    np.testing.assert_allclose(b, by_hand(*kept))
    assert json.loads(json.dumps(found.data()))["plan"] == dict(found.plan)
    assert "candidates timed" in str(found) and str(found).startswith("sweep: ")


@pytest.mark.parametrize("form", [list, lambda args: dict(zip("Ast", args, strict=True))])
def test_numbers_are_arguments_too(
    inside: Inside, tmp_path: Path, form: Callable[..., Any]
) -> None:
    args = form([np.ones(7, np.float32), 2.0, 3])
    found = weft.tune(scaled, args, trials=1, options=OPTIONS, records=tmp_path / "records")
    assert found.outcomes[0].name == "scaled"


@pytest.mark.parametrize("program", [False, True], ids=["tensors", "program"])
def test_tensors(inside: Inside, eager: None, tmp_path: Path, program: bool) -> None:
    y = product(13, 16, 11)
    source = weft.program([y]) if program else y
    found = weft.tune(source, trials=3, options=OPTIONS, records=tmp_path / "records")
    assert found.plan
    x, w = (RANDOM.random(s).astype(np.float32) for s in ((13, 11), (11, 16)))
    run = weft.compile(source, options=OPTIONS, plan=found.plan)
    np.testing.assert_allclose(run(x, w), x @ w, rtol=1e-5)


@pytest.mark.long
def test_a_model_of_several_clusters(inside: Inside, eager: None, tmp_path: Path) -> None:
    found = weft.tune(network(), trials=4, options=OPTIONS, records=tmp_path / "records")
    assert len(found.outcomes) >= 2 and found.plan
    x = RANDOM.random((5, 12)).astype(np.float32)
    run = weft.compile(network(), options=OPTIONS, plan=found.plan)
    np.testing.assert_allclose(run(x), network_in_numpy(x), rtol=1e-4)
    fixed = weft.tune(
        network("rows"),
        trials=1,
        options=OPTIONS,
        shapes={"x": (5, 12)},
        records=tmp_path / "records",
    )
    assert fixed.before > 0


def test_open_sizes_have_those_of_the_arguments(inside: Inside, tmp_path: Path) -> None:
    n = weft.var("n")
    x = weft.placeholder((n, 9), name="x")
    y = weft.compute((n, 9), lambda i, j: x[i, j] * 2.0, name="y")
    args = [np.ones((6, 9), np.float32)]
    found = weft.tune(y, args, trials=1, options=OPTIONS, records=tmp_path / "records")
    run = weft.compile(y, options=OPTIONS, plan=found.plan)
    for rows in (0, 1, 6, 11):
        given = RANDOM.random((rows, 9)).astype(np.float32)
        np.testing.assert_array_equal(run(given), 2 * given)
    with pytest.raises(CompileError, match="WEFT-E1102: the sizes of x are open"):
        weft.tune(y, trials=1, options=OPTIONS, records=tmp_path / "records")


@pytest.mark.long
def test_in_processes_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "DRAFTED", 6)
    monkeypatch.setattr(search, "VERIFIED", 3)
    heard: list[tuple[str, float]] = []
    found = weft.tune(
        scaled, (np.ones(1000, np.float32), 2.0, 3), trials=3,
        options=weft.Options(threads=1, workers=1), records=tmp_path / "records",
        tell=lambda name, best: heard.append((name, best)),
    )  # fmt: skip
    assert found.trials >= 2 and {name for name, _ in heard} == {"scaled"}


@pytest.mark.long
def test_the_same_seed_and_records_make_the_same_plan(inside: Inside, tmp_path: Path) -> None:
    path, a, b = tmp_path / "records", RANDOM.random((23, 23)), RANDOM.random((23, 17))
    first = weft.tune(sweep, (a, b), trials=6, seed=3, options=OPTIONS, records=path)
    timed = inside.asked["rounds"]
    again = weft.tune(sweep, (a, b), trials=6, seed=3, options=OPTIONS, records=path)
    assert again.plan == first.plan and again.gain == first.gain
    assert inside.asked["rounds"] - timed <= 2  # the untuned program, and what changes are worth


# ---- what is refused -----------------------------------------------------------------------------

ARGS = (np.ones((3, 3)), np.ones((3, 4)))


@pytest.mark.parametrize(
    "budget",
    [0, -1, 0.0, math.nan, math.inf, -math.inf, True, "0s", "", " ", "5 parsecs", "1d", "-5s",
     "1e3", "nan", "5ms", "s", None.__class__, [5], b"5s", "9" * 400, 10**400, "١s"],
)  # fmt: skip
def test_budgets_that_are_none(budget: Any) -> None:
    with pytest.raises(CompileError, match=r"WEFT-E1100: budget=.* is no budget") as caught:
        weft.tune(sweep, ARGS, budget=budget, options=OPTIONS)
    assert "90s, 5m or 1h" in str(caught.value)


@pytest.mark.parametrize("trials", [0, -3, True, 1.5, "7", math.nan])
def test_trials_that_are_none(trials: Any) -> None:
    with pytest.raises(CompileError, match=r"WEFT-E1100: trials=.* is no budget"):
        weft.tune(sweep, ARGS, trials=trials, options=OPTIONS)


@pytest.mark.parametrize("seed", [-1, 1.0, True, "0", None, 1 << 63])
def test_seeds_that_are_none(seed: Any) -> None:
    with pytest.raises(CompileError, match=r"WEFT-E1100: .* is no seed"):
        weft.tune(sweep, ARGS, trials=1, seed=seed, options=OPTIONS)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("5m", 300), ("1h", 3600), ("1.5h", 5400), (" 7 ", 7), ("0.5", 0.5), (3, 3)],
)
def test_budgets(text: str | float, seconds: float) -> None:
    assert seconds_of(text) == seconds


UNFIT = {
    "none": (None, "there are no arguments"),
    "too few": (ARGS[:1], "1 arguments, where 2 are taken: A, B"),
    "too many": ((*ARGS, 1), "3 arguments"),
    "no sequence": (5, "neither a sequence nor a mapping"),
    "text": ("AB", "neither a sequence nor a mapping"),
    "missing": ({"A": ARGS[0]}, "missing: B"),
    "unknown": ({"A": ARGS[0], "B": ARGS[1], "C": 1}, "not known: C"),
    "dtype": ((ARGS[0].astype(np.float32), ARGS[1]), "A is an array of float32, not of float64"),
    "ranks": ((np.ones(3), ARGS[1]), "A has 1 dimensions, not 2"),
    "a number": ((1.0, ARGS[1]), "A has 0 dimensions, not 2"),
    "sizes": ((np.ones((3, 3)), np.ones((4, 4))), "M"),
    "not square": ((np.ones((3, 4)), np.ones((3, 4))), "M"),
    "objects": (({}, ARGS[1]), "A is"),
    "ragged": (([[1], [1, 2]], ARGS[1]), "A is"),
}


@pytest.mark.parametrize(("args", "why"), UNFIT.values(), ids=UNFIT)
def test_arguments_that_do_not_fit(args: Any, why: str) -> None:
    with pytest.raises(CompileError, match="WEFT-E1102") as caught:
        weft.tune(sweep, args, trials=1, options=OPTIONS)
    assert why in str(caught.value)


@pytest.mark.parametrize("number", ["x", None, 2.5, 1 << 70, [1], {}])
def test_numbers_that_do_not_fit(number: Any) -> None:
    with pytest.raises(CompileError, match="WEFT-E1102"):
        weft.tune(scaled, (np.ones(3, np.float32), 2.0, number), trials=1, options=OPTIONS)


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ((np.ones((5, 12), np.float64),), "x is an array of float64, not of float32"),
        ((np.ones((5, 11), np.float32),), "dimension 1 of x is 11, not 12"),
        ((np.ones(12, np.float32),), "x has 1 dimensions, not 2"),
        ((), "0 arguments, where 1 are taken: x"),
    ],
)
def test_arguments_that_do_not_fit_a_model(args: Any, why: str) -> None:
    with pytest.raises(CompileError, match="WEFT-E1102") as caught:
        weft.tune(network(), args, trials=1, options=OPTIONS)
    assert why in str(caught.value)


@pytest.mark.parametrize("option", [{"seeds": (lambda s: s,)}, {"passes": (lambda graph: graph,)}])
@pytest.mark.parametrize("source", [sweep, network()], ids=["loops", "model"])
def test_options_with_functions(source: Any, option: dict[str, Any]) -> None:
    args = ARGS if source is sweep else None
    with pytest.raises(CompileError, match="WEFT-E1101: trials run in processes of their own"):
        weft.tune(source, args, trials=1, options=weft.Options(threads=1, **option))


def test_shapes_are_for_models() -> None:
    for source in (sweep, product(2, 2, 2)):
        with pytest.raises(CompileError, match="WEFT-E0013"):
            weft.tune(source, ARGS, trials=1, options=OPTIONS, shapes={"x": (1,)})  # type: ignore[arg-type]


def test_a_program_that_does_not_run(inside: Inside, tmp_path: Path) -> None:
    @weft.kernel
    def reads(A: weft.f32[N], at: weft.i64[N]):
        for i in range(N):
            A[i] = A[at[i]]

    args = (np.ones(3, np.float32), np.full(3, 99))
    with pytest.raises(CompileError, match="WEFT-E1103: reads does not run untuned") as caught:
        weft.tune(reads, args, trials=1, options=OPTIONS, records=tmp_path / "records")
    assert "WEFT-E" in caught.value.why


def test_a_model_that_does_not_run(
    inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.tuner.trial.load", lambda *_, **__: 1 / 0)
    with pytest.raises(CompileError, match="WEFT-E1103: net does not run untuned"):
        weft.tune(network(), trials=1, options=OPTIONS, records=tmp_path / "records")


# ---- Options(tuned="records") --------------------------------------------------------------------


@pytest.mark.long
def test_the_plan_is_taken_from_the_records(inside: Inside, eager: None, tmp_path: Path) -> None:
    path = tmp_path / "records"
    args = RANDOM.random((23, 23)), RANDOM.random((23, 17))
    found = weft.tune(sweep, args, trials=6, options=OPTIONS, records=path)
    with Records(path) as records:
        assert dict(found.plan) in [json.loads(row.plan) for _, row, _ in records.shown()]
        (about, row, _) = records.shown()[0]
        records.keep(about, replace(row, plan=json.dumps(dict(found.plan)), low=3.0))  # the best
    advised = weft.Options(threads=1, cache=False, tuned="records", records=str(path))
    run = weft.compile(sweep, options=advised)
    planned = weft.compile(sweep, options=OPTIONS, plan=found.plan)
    assert run.source("llvm") == planned.source("llvm")
    assert run.source("llvm") != weft.compile(sweep, options=OPTIONS).source("llvm")


@pytest.mark.long
def test_plans_of_clusters_are_taken_in_the_model(
    inside: Inside, eager: None, tmp_path: Path
) -> None:
    path = tmp_path / "records"
    found = weft.tune(network(), trials=8, options=OPTIONS, records=path)
    assert any(o.plan for o in found.outcomes)
    advised = weft.Options(threads=1, cache=False, tuned="records", records=str(path))
    run = weft.compile(network(), options=advised)
    taken = {d.own_name for d in run.plan.decisions if d.given}
    with Records(path) as records:
        plans = [json.loads(row.plan) for _, row, _ in records.shown()]
    assert taken and taken <= {name for plan in plans for name in plan}
    x = RANDOM.random((5, 12)).astype(np.float32)
    np.testing.assert_allclose(run(x), network_in_numpy(x), rtol=1e-4)
