"""``NAME.script`` in a plan: the schedule that a script makes, proved like any other."""

# ruff: noqa: F821
# mypy: disable-error-code="name-defined, valid-type"

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.ir.errors import IllegalScheduleError, PlanError, WeftError

OPTIONS = weft.Options(threads=1, cache=False)
RANDOM = np.random.default_rng(0)


@weft.kernel
def scan(A: weft.f64[N, N]):
    for i in range(1, N):
        for j in range(N - 1):
            A[i, j] = A[i - 1, j + 1] + 0.5 * A[i, j]


def by_hand(a: np.ndarray) -> np.ndarray:
    a = a.copy()
    for i in range(1, len(a)):
        a[i, :-1] = a[i - 1, 1:] + 0.5 * a[i, :-1]
    return a


def script_of(kernel: weft.Kernel) -> str:
    """Of Weft's own schedule."""
    return str(kernel.schedule().automatic())


@pytest.mark.parametrize("size", [0, 1, 2, 13, 65])
def test_a_script_decides_the_schedule(size: int) -> None:
    plain = weft.compile(scan, options=OPTIONS, plan={"scan.script": "s = s"})
    assert dict(plain.plan) == {"scan.script": "s = s"}
    own = weft.compile(scan, options=OPTIONS)
    again = weft.compile(scan, options=OPTIONS, plan={"scan.script": script_of(scan)})
    assert again.source("llvm") == own.source("llvm") != plain.source("llvm")
    a = RANDOM.random((size, size))
    for run in (plain, again, weft.compile(scan, options=OPTIONS, plan=str(again.plan))):
        made = a.copy()
        run(made)
        np.testing.assert_allclose(made, by_hand(a))


def test_in_a_graph_a_cluster_has_its_own() -> None:
    x = weft.placeholder((9, 11), name="x")
    y = weft.compute((9, 11), lambda i, j: 2.0 * x[i, j] + 1.0, name="y")
    names = list(weft.compile(y, options=OPTIONS).plan)
    made = weft.compile(y, options=OPTIONS, plan={"kernel0.script": "s = s"})
    assert list(made.plan) == ["kernel0.script"] != names
    given = RANDOM.random((9, 11)).astype(np.float32)
    np.testing.assert_allclose(made(given), 2 * given + 1, rtol=1e-6)


ILLEGAL = ["s = s\ns = s.parallel('i')", "s = s\ns = s.vectorize('i')"]


@pytest.mark.parametrize("script", ILLEGAL)
def test_an_illegal_script_is_refused_and_named(script: str) -> None:
    with pytest.raises(PlanError, match="WEFT-E0028") as caught:
        weft.compile(scan, options=OPTIONS, plan={"scan.script": script})
    assert "scan.script" in str(caught.value)


NONSENSE = ["", "x", "s = s.", "s = s.no_such(1)", "s = s.nest", "s = s.nest(__import__('os'))",
            "s = s.nest(1, 2, 3, 4)", "s = s\n3", "s = s.compile()", "s = s.replay('s = s')",
            "s = s.parallel('nowhere')", "s = s.parallel(3)", "s = s" + ".x" * 2000, "s = (" * 999,
            "s = s.vectorize('\\ud800')", "\0"]  # fmt: skip


@pytest.mark.parametrize("script", NONSENSE, ids=range(len(NONSENSE)))
def test_steps_without_sense_are_typed_errors(script: str) -> None:
    with pytest.raises(WeftError) as caught:
        weft.compile(scan, options=OPTIONS, plan={"scan.script": script})
    assert isinstance(caught.value, PlanError | IllegalScheduleError)
    assert "scan.script" in str(caught.value)


@pytest.mark.parametrize("script", [3, True])
def test_what_is_no_script(script: object) -> None:
    with pytest.raises(PlanError):
        weft.compile(scan, options=OPTIONS, plan={"scan.script": script})


def test_a_script_of_another_program() -> None:
    with pytest.raises(PlanError, match=r"WEFT-E0025: there is no decision 'other\.script'"):
        weft.compile(scan, options=OPTIONS, plan={"other.script": "s = s"})


def test_a_script_leaves_nothing_else_to_decide() -> None:
    with pytest.raises(PlanError, match="WEFT-E0025"):
        plan = {"scan.script": "s = s", "scan.strategy": "single"}
        weft.compile(scan, options=OPTIONS, plan=plan)


@pytest.mark.parametrize(
    ("script", "parts"),
    [
        ("s = s.split('j', 4)\ns = s.parallel('i')",
         ("WEFT-E0421", 'parallel("i")', "line 2: s = s.parallel('i')", "S0[i=1, j=1] writes A[1")),
        ("s = s\ns = s.split('q', 4)", ("WEFT-E0450", "line 2: s = s.split('q', 4)")),
        ("s = s\n\ns = s.split('i')", ("WEFT-E0460", "split(loop, size", "line 3: s = s.split")),
        ("s = s\ns = s.splat('i')", ("WEFT-E0018", "line 2: s = s.splat('i')")),
    ],
)  # fmt: skip
def test_what_is_wrong_is_found_in_the_script(script: str, parts: tuple[str, ...]) -> None:
    with pytest.raises(PlanError, match="WEFT-E0028") as caught:
        weft.compile(scan, options=OPTIONS, plan={"scan.script": script})
    for part in parts:
        assert part in caught.value.why
