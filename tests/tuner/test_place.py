"""``weft.place``: right results whoever runs what, and no provider that it does not survive."""

from __future__ import annotations

import copy
import json
import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import weft
from tests.tuner.small_graphs import data, layers, reference
from tests.weft.registered import forgotten
from weft.ir.errors import CallError, CompileError, PlanError, ProviderError
from weft.runtime.executable import available_threads

QUICK = weft.Options(threads=available_threads(), texts=False)  # those of NumPy's BLAS
X = data()


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    with forgotten():
        yield


def placed(*providers: Any, model: Any = None, x: np.ndarray = X, **more: Any) -> weft.Placed:
    more = {"seconds": 0.1, "patience": 20.0, "options": QUICK} | more
    return weft.place(model or layers(), {"x": x}, providers=providers, **more)


def check(found: weft.Placed, x: np.ndarray = X) -> None:
    for one, other in zip(found(x), reference(x), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def parts(*parts: tuple[str, str]) -> dict[str, Any]:
    """A placement: who runs which nodes, "a b" say."""
    return {"version": 1, "parts": [{"provider": p, "nodes": n.split()} for p, n in parts]}


def test_whatever_is_taken_is_right() -> None:
    found = placed("weft", "onnxruntime", "numpy")
    check(found)
    report = json.loads(json.dumps(found.report()))
    assert set(report["whole"]) == {"weft", "onnxruntime"}
    assert report["taken"] in (*report["whole"], "combination") and report["refused"] == []
    assert [part["provider"] for part in report["parts"]] == list(found.providers)
    assert found.explain().splitlines()[0] == f"taken: {report['taken']}"
    again = placed("onnxruntime", "numpy", placement=json.loads(json.dumps(found.placement)))
    check(again)
    assert (again.placement, again.providers) == (found.placement, found.providers)
    assert dict(again.report()) == {} and again.explain().count("\n") == len(found.providers) - 1


@pytest.mark.parametrize(
    "placement",
    [
        parts(("weft", "a b c d y")),
        parts(("onnxruntime", "a b c d y")),
        parts(("numpy", "a b"), ("onnxruntime", "c"), ("weft", "d"), ("numpy", "y")),
        parts(("onnxruntime", "a b c"), ("weft", "d y")),
    ],
)
def test_placements_that_are_given(placement: dict[str, Any]) -> None:
    check(placed("onnxruntime", "numpy", placement=placement))


# ---- providers that are to be survived -----------------------------------------------------------


def kills(part: weft.Subgraph) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kills_later(part: weft.Subgraph) -> Callable[..., Any]:
    return lambda *arrays: kills(part)


def hangs(part: weft.Subgraph) -> Callable[..., Any]:
    return lambda *arrays: time.sleep(1000)


def raises(part: weft.Subgraph) -> None:
    raise MemoryError("none left")


def answers(part: weft.Subgraph, change: Callable[[np.ndarray], np.ndarray]) -> Callable[..., Any]:
    shapes = [v.shape for v in part.graph.outputs]
    return lambda *arrays: [change(np.zeros(shape, np.float32)) for shape in shapes]


def nan(part: weft.Subgraph) -> Callable[..., Any]:
    return answers(part, lambda zeros: zeros + np.float32(np.nan))


def zeros(part: weft.Subgraph) -> Callable[..., Any]:
    return answers(part, lambda zeros: zeros)


def nothing(part: weft.Subgraph) -> None:
    return None


@pytest.mark.parametrize(
    ("provider", "code", "what"),
    [
        (kills, "E1511", "the process ended by SIGKILL"),
        (kills_later, "E1511", "the process ended by SIGKILL"),
        (hangs, "E1512", "the process was silent for 2 s"),
        (raises, "E1510", "it raises MemoryError"),
        (nan, "E1515", "that are NaN or infinite, or should be"),
        (zeros, "E1515", "is the largest element"),
        (lambda part: 7, "E1513", "it gives a int"),
    ],
)
def test_survived(provider: Any, code: str, what: str) -> None:
    found = placed(provider, nothing, patience=2.0)
    check(found)
    if code in ("E1511", "E1512"):
        assert len(found.refusals) == 2  # it is not asked for ever
    assert found.providers == ("weft",) and found.refusals
    assert {error.code for error in found.refusals} == {f"WEFT-{code}"}
    assert all(error.what.endswith(what) for error in found.refusals)
    name = provider.__name__
    assert all(error.where.startswith(f"provider {name}, node") for error in found.refusals)
    assert any(f"WEFT-{code}: provider {name}" in line for line in found.report()["refused"])


def test_one_that_fails_in_the_end_only() -> None:
    """It behaves while it is watched; Weft runs what it does not."""
    here = os.getpid()

    def two_faced(part: weft.Subgraph) -> Callable[..., Any] | None:
        if os.getpid() == here:
            raise OSError("not here")
        results: list[Any] = []
        interpreted = weft.tuner.providers.numpy.numpy(part)
        return interpreted and (lambda *arrays: results or interpreted(*arrays))

    plan = parts(("two_faced", "a b"), ("weft", "c d y"))
    with pytest.raises(ProviderError, match="WEFT-E1510"):
        placed(two_faced, placement=plan)
    check(placed(two_faced))


# ---- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("placement", "what"),
    [
        ({}, "it has no parts of version 1"),
        ({"version": 2, "parts": []}, "it has no parts of version 1"),
        ([1], "it has no parts of version 1"),
        ({"version": 1, "parts": ["weft"]}, "a part has no provider or no nodes"),
        ({"version": 1, "parts": [{"provider": "weft", "nodes": []}]}, "a part has no provider"),
        ({"version": 1, "parts": [{"provider": "weft", "nodes": [1]}]}, "a part has no provider"),
        (parts(("blas", "a b c d y")), "nobody of providers is called 'blas'"),
        (parts(("weft", "a b c d y z")), "the model has no node 'z'"),
        (parts(("weft", "a b c d")), "node 'y' is in 0 parts"),
        (parts(("weft", "a b c d y"), ("weft", "y")), "node 'y' is in 2 parts"),
        (parts(("weft", "c d y"), ("weft", "a b")), "'b' is computed after weft reads it"),
        (parts(("weft", "a b d y"), ("numpy", "c")), "'c' is computed after weft reads it"),
        (parts(("weft", "a"), ("weft", "b c d y")), "weft has some nodes of a unit, and not all"),
        (parts(("weft", "a a b c d y")), "weft has some nodes of a unit, and not all"),
    ],
)
def test_placements_that_do_not_fit(placement: Any, what: str) -> None:
    with pytest.raises(PlanError, match="WEFT-E1502") as caught:
        placed("numpy", placement=placement)
    assert caught.value.what.startswith(f"the placement does not fit: {what}")


def test_a_part_that_its_provider_does_not_take() -> None:
    with pytest.raises(ProviderError, match="WEFT-E1503"):
        placed(nothing, placement=parts(("nothing", "a b"), ("weft", "c d y")))


def test_what_has_no_parts() -> None:
    n = weft.var("n")
    x, fixed = weft.placeholder((n,), name="x"), weft.placeholder((3,), name="x")
    y = weft.compute((n,), lambda i: x[i] + 1, name="y")
    z = weft.compute((3,), lambda i: fixed[i] + 1, name="z")
    in_place = weft.ir.tensor_expr.Program("p", (fixed,), (z,), ((0, 0),))

    @weft.kernel
    def kernel(A: weft.f64[N]):  # noqa: F821
        A[0] = 1.0

    for model in (y, in_place, fixed, kernel):
        with pytest.raises(CompileError, match="WEFT-E1500"):
            weft.place(model, {"x": np.zeros(3, np.float32)}, options=QUICK)


def test_providers_that_there_are_not() -> None:
    for providers, what in (
        (("onnxruntme",), "there is no provider 'onnxruntme'"),
        ((3,), "there is no provider 3"),
        ((nothing, nothing), "two providers are called 'nothing'"),
    ):
        with pytest.raises(CompileError, match="WEFT-E1501") as caught:
            placed(*providers)
        assert caught.value.what == what
        assert 3 in providers or nothing in providers or "onnxruntime" in caught.value.hint


def test_the_door() -> None:
    asked: list[str] = []

    @weft.provider("mine")
    def provider(part: weft.Subgraph) -> None:
        asked.append(part.graph.name)

    placed("mine", placement=parts(("weft", "a b c d y")))
    assert asked == []
    with pytest.raises(ProviderError, match="E1503"):
        placed("mine", placement=parts(("mine", "a b c d y")))
    assert asked == ["layers"]
    with pytest.raises(CompileError, match="WEFT-E0006"):
        weft.provider("other")(7)
    for name in ("mine", "numpy", "weft"):
        with pytest.raises(CompileError, match="WEFT-E0005"):
            weft.provider(name)(nothing)


# ---- calls ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mixed() -> weft.Placed:
    return placed("numpy", placement=parts(("numpy", "a b"), ("weft", "c d"), ("numpy", "y")))


def test_calls(mixed: weft.Placed) -> None:
    y, d = mixed(x=X)
    assert [spec.name for spec in mixed.inputs] == ["x"]
    assert mixed.output_names == ("y", "d")
    places = np.empty((5, 7), np.float32), np.empty((7, 5), np.float32).T
    assert mixed(X[::-1][::-1], out=places)[1] is places[1]
    np.testing.assert_array_equal(places[0], y)
    np.testing.assert_array_equal(places[1], d)
    by_name = mixed.run({"x": np.asfortranarray(X)}, out={"d": places[1]})
    np.testing.assert_array_equal(by_name["y"], y)
    assert list(by_name) == ["y", "d"] and by_name["d"] is places[1]
    check(mixed, data() * 3)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda p: p(), "E0601"),
        (lambda p: p(X, X), "E0600"),
        (lambda p: p(z=X), "E0601"),
        (lambda p: p.run(X), "E0602"),
        (lambda p: p(X.astype(np.float64)), "E0603"),
        (lambda p: p(X[0]), "E0604"),
        (lambda p: p(X[:4]), "E0605"),
        (lambda p: p(X, out=[np.empty((5, 7)), None]), "E0606"),
        (lambda p: p(X, out=[np.empty((5, 7), np.float32)]), "E0606"),
        (lambda p: p(X, out=[X.copy()] * 2), "E0606"),
        (lambda p: pickle.dumps(p), "E0614"),
    ],
)
def test_unfit_calls(mixed: weft.Placed, call: Callable[[Any], object], code: str) -> None:
    with pytest.raises(CallError, match=code):
        call(mixed)


def test_unfit_samples() -> None:
    with pytest.raises(CallError, match="E0602"):
        weft.place(layers(), X, options=QUICK)  # type: ignore[arg-type]
    with pytest.raises(CallError, match="E0603"):
        placed(x=X.astype(np.float64))


def test_a_copy_is_itself(mixed: weft.Placed) -> None:
    assert copy.deepcopy(mixed) is mixed


def test_open_sizes_are_those_of_the_inputs() -> None:
    x, plan = data(3), parts(("onnxruntime", "a b"), ("weft", "c d y"))
    check(placed("onnxruntime", model=layers("n"), x=x, placement=plan), x)


def test_outputs_that_are_inputs_or_constants() -> None:
    x = weft.placeholder((3,), "float32", name="x")
    y = weft.compute((3,), lambda i: x[i] * 2, name="y")
    given = np.arange(3, dtype=np.float32)
    found = weft.place([y, x], {"x": given}, seconds=0.1, options=QUICK)
    twice, same = found(given)
    np.testing.assert_array_equal(twice, 2 * given)
    np.testing.assert_array_equal(same, given)
    assert not np.shares_memory(same, given)
