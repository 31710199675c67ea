"""``Options(tuned="records")``: confirmed plans are taken, and records make nothing fail."""

# ruff: noqa: F821
# mypy: disable-error-code="name-defined, valid-type"

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.api import graph_of
from weft.driver.advice import about, advice, records_state
from weft.driver.graph_front import cluster_scops
from weft.ir.errors import CompileError, WeftWarning
from weft.runtime.records import Confirmed, Records

PLAIN = weft.Options(threads=1, cache=False)
RANDOM = np.random.default_rng(0)


@weft.kernel
def first(A: weft.f64[N, N], B: weft.f64[N, N]):
    for i in range(1, N - 1):
        for j in range(1, N - 1):
            B[i, j] = 0.2 * (A[i, j] + A[i - 1, j] + A[i + 1, j] + A[i, j - 1] + A[i, j + 1])


def product(name: str) -> weft.Tensor:
    x, w = (weft.placeholder((64, 64), name=f"{name}{each}") for each in "xw")
    k = weft.reduce_axis((0, 64), name="k")
    return weft.compute((64, 64), lambda i, j: weft.sum(x[i, k] * w[k, j], k), name=f"{name}y")


SCRIPT = "s = s"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records"


@pytest.fixture
def advised(path: Path) -> weft.Options:
    return replace(PLAIN, tuned="records", records=str(path))


def keep(path: Path, plan: dict[str, object], low: float = 1.1, **other: object) -> None:
    """A confirmed ``plan`` of the first kernel."""
    found = replace(about(first.lowered.scop, PLAIN), **other)  # type: ignore[arg-type]
    with Records(path) as records:
        records.keep(found, Confirmed(json.dumps(plan), low + 0.1, low, low + 0.2))


def serial(kernel: weft.Kernel = first) -> str:
    """The code of the script that changes nothing."""
    name = f"{kernel.__name__}.script"
    return weft.compile(kernel, options=PLAIN, plan={name: SCRIPT}).source("llvm")


def test_a_confirmed_plan_is_taken(path: Path, advised: weft.Options) -> None:
    untuned = weft.compile(first, options=PLAIN).source("llvm")
    assert weft.compile(first, options=advised).source("llvm") == untuned != serial()
    keep(path, {"first.script": SCRIPT})
    made = weft.compile(first, options=advised)
    assert made.source("llvm") == serial()
    assert [(d.name, d.given) for d in made.plan.decisions] == [("first.script", True)]
    assert weft.compile(first, options=PLAIN).source("llvm") == untuned
    a, b = RANDOM.random((2, 13, 13))
    expected = b.copy()
    expected[1:-1, 1:-1] = 0.2 * (
        a[1:-1, 1:-1] + a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]
    )
    made(a, b)
    np.testing.assert_allclose(b, expected)


def test_the_same_program_under_other_names(path: Path, advised: weft.Options) -> None:
    one, other = product("a"), product("the_other_")
    decisions = weft.compile(one, options=PLAIN).plan.decisions
    (tile,) = (d for d in decisions if d.name.endswith(".register_tile"))
    value = tile.options[1].value
    (scop,) = cluster_scops(graph_of(one), PLAIN).values()
    with Records(path) as records:
        records.keep(about(scop, PLAIN), Confirmed(json.dumps({tile.name: value}), 1.2, 1.1, 1.3))
    made = weft.compile(other, options=advised)
    taken = {d.name: d.chosen for d in made.plan.decisions if d.given}
    assert taken == {tile.name.replace("ay", "the_other_y"): value} != {tile.name: value}
    expected = weft.compile(other, options=PLAIN, plan=taken)
    assert made.source("llvm") == expected.source("llvm")
    assert made.source("llvm") != weft.compile(other, options=PLAIN).source("llvm")
    x, w = RANDOM.random((2, 64, 64)).astype(np.float32)
    np.testing.assert_allclose(made(x, w), x @ w, rtol=1e-5)


@pytest.mark.parametrize(
    "other",
    [{"machine": "another"}, {"context": "2 threads"}, {"version": "0.0"}, {"program": "another"}],
    ids=lambda other: next(iter(other)),
)
def test_records_of_something_else_are_not(
    path: Path, advised: weft.Options, other: dict[str, str]
) -> None:
    keep(path, {"first.script": SCRIPT}, **other)
    assert advice(first.lowered.scop, advised) == {}
    assert advice(first.lowered.scop, replace(advised, threads=2)) == {}


def test_the_surest_of_the_latest_sizes_is_taken(path: Path, advised: weft.Options) -> None:
    keep(path, {"a.x": 1}, low=3.0, sizes="(('N', 9),)")
    keep(path, {"a.x": 2}, low=1.2)
    keep(path, {"a.x": 3}, low=1.5)
    keep(path, {"a.x": 4}, low=1.4)
    keep(path, {"a.x": 5}, low=1.0)  # not sure
    assert advice(first.lowered.scop, advised) == {"a.x": 3}


UNFIT = {
    "no such decision": {"S0.register_tile": 4},
    "no such value": {"S0.strategy": "by magic"},
    "no steps": {"first.script": "s = s.no_such_step()"},
    "no script": {"first.script": "import os"},
    "an illegal script": {"first.script": "s = s\ns = s.interchange('i', 'nowhere')"},
    "a number for a script": {"first.script": 3},
}


@pytest.mark.parametrize("plan", UNFIT.values(), ids=UNFIT)
def test_plans_that_do_not_fit_any_more(
    path: Path, advised: weft.Options, plan: dict[str, object]
) -> None:
    keep(path, plan)
    untuned = weft.compile(first, options=PLAIN).source("llvm")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", WeftWarning)
        made = weft.compile(first, options=advised)
    assert made.source("llvm") == untuned
    said = [str(w.message) for w in caught]
    if next(iter(plan)) == "S0.register_tile":
        assert said == []  # a decision that did not come up
    else:
        (only,) = said
        assert only.startswith("first: what the records say does not fit any more (WEFT-E")


def test_a_plan_that_is_given_comes_first(path: Path, advised: weft.Options) -> None:
    keep(path, {"first.script": "s = s.nowhere()"})
    made = weft.compile(first, options=advised, plan={"first.script": SCRIPT})
    assert made.source("llvm") == serial()


# ---- the compile cache ---------------------------------------------------------------------------


@pytest.fixture
def cached(tmp_path: Path, advised: weft.Options) -> Iterator[weft.Options]:
    yield replace(advised, cache=True, cache_dir=str(tmp_path / "cache"))


def test_the_compile_cache_notices_new_records(path: Path, cached: weft.Options) -> None:
    before = weft.compile(first, options=cached).source("llvm")
    assert weft.compile(first, options=cached).source("llvm") == before
    keep(path, {"first.script": SCRIPT})
    assert weft.compile(first, options=cached).source("llvm") == serial() != before
    keep(path, {"first.script": SCRIPT}, low=1.0)  # confirmed again, and not sure any more
    assert weft.compile(first, options=cached).source("llvm") == before
    keep(path, {"first.script": SCRIPT})
    with Records(path) as records:
        records.prune(older=0.0)
    assert weft.compile(first, options=cached).source("llvm") == before


def test_without_records_nothing_is_read(path: Path, cached: weft.Options) -> None:
    assert records_state(replace(cached, tuned="off")) == ""
    assert not path.exists()
    weft.compile(first, options=replace(cached, tuned="off"))
    assert not path.exists()


# ---- files ---------------------------------------------------------------------------------------


def test_records_that_cannot_be_read_make_nothing_fail(path: Path, advised: weft.Options) -> None:
    path.write_bytes(b"no database " * 1000)
    with pytest.warns(WeftWarning, match="cannot be used"):
        made = weft.compile(first, options=advised)
    assert made.source("llvm") == weft.compile(first, options=PLAIN).source("llvm")


@pytest.mark.parametrize(
    "wrong", [{"tuned": "on"}, {"tuned": True}, {"tuned": None}, {"records": 3}]
)
def test_bad_values_are_named(wrong: dict[str, object]) -> None:
    (name,) = wrong
    with pytest.raises(CompileError, match=rf"WEFT-E0001: option {name} is "):
        weft.Options(**wrong)  # type: ignore[arg-type]


def test_the_environment() -> None:
    found = weft.Options.from_environment({"WEFT_TUNED": "records", "WEFT_RECORDS": "/tmp/x"})
    assert (found.tuned, found.records) == ("records", "/tmp/x")
    with pytest.raises(CompileError, match="WEFT-E0001"):
        weft.Options.from_environment({"WEFT_TUNED": "yes"})
