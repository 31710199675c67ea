"""Laboratories: whatever a trial does becomes an answer that says so."""

# ruff: noqa: F821
# mypy: disable-error-code="name-defined, valid-type"

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

import weft
from tests.tuner.stubs import OPTIONS, Imagined, Inside, laboratory, problem
from weft.driver.advice import machine_key
from weft.driver.options import Options
from weft.ir.errors import CompileError
from weft.tuner import laboratory as laboratories
from weft.tuner import trial
from weft.tuner.laboratory import Built, Laboratory, Workshop
from weft.tuner.problem import problem_of_kernel
from weft.tuner.workplace import Here
from weft.workers import worker
from weft.workers.worker_pool import WorkerPool

# Jobs whose answers are in the names of the plans and artifacts that they are asked about.
ODD_JOBS = """
import os, time
import msgspec
from weft.ir.errors import PlanError

def misbehave(name):
    if "abort" in name:
        os.abort()
    if "hang" in name:
        time.sleep(60)
    if "memory" in name:
        raise MemoryError("no room")
    if "refuse" in name:
        raise PlanError("WEFT-E0028", "it cannot be compiled as the plan says")

def draft(payload):
    _, plans = msgspec.msgpack.decode(payload)
    for plan in plans:
        misbehave(str(plan))
    return msgspec.msgpack.encode([[1.0, str(plan), "{}", "", ""] for plan in plans])

def build(payload):
    _, plan, _ = msgspec.msgpack.decode(payload)
    misbehave(str(plan))
    return str(sorted(plan)).encode()

def rounds(payload):
    _, paths, *_ = msgspec.msgpack.decode(payload)
    for path in paths:
        misbehave(path)
        if "die-once" in path and not os.path.exists(path):
            open(path, "w").close()
            os.kill(os.getpid(), 9)
    seconds = [[1.0 + k] * 5 for k, _ in enumerate(paths)]
    return msgspec.msgpack.encode([seconds, ["nan" in path for path in paths], "here"])
"""
PATCH = """
from weft.workers.worker import JOBS
JOBS.update({name: f"odd_jobs:{name}" for name in ("draft", "build", "rounds")})
"""


class There(Here):
    def machine(self, options: Options) -> str:
        return "here"


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Laboratory]:
    (tmp_path / "odd_jobs.py").write_text(ODD_JOBS)
    (tmp_path / "sitecustomize.py").write_text(PATCH)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    for name in ("DRAFT_SECONDS", "BUILD_SECONDS"):
        monkeypatch.setattr(laboratories, name, 3.0)
    monkeypatch.setattr(laboratories, "SLACK", 1.0)
    with WorkerPool(2) as workers, WorkerPool(1) as timer:
        yield laboratory(There(workers, timer), tmp_path / "lab")


MISDEEDS = {
    "abort": "WEFT-E0570: a compiler worker crashed (SIGABRT)",
    "hang": "WEFT-E0571: a compiler worker was stopped after",
    "memory": "WEFT-E0902: job '{}' failed: MemoryError: no room",
    "refuse": "WEFT-E0028: it cannot be compiled as the plan says",
}


@pytest.mark.long
def test_drafts_and_builds_that_misbehave(odd: Laboratory) -> None:
    plans = [{"a": 1}, *({name: 1} for name in MISDEEDS), {"b": 1}]
    drafted = odd.draft(plans)
    assert [d.refused for d in (drafted[0], drafted[-1])] == ["", ""]
    built = odd.build(plans)
    assert built[0].path and built[-1].path and built[0].digest == "['a']"
    for (name, why), one, other in zip(MISDEEDS.items(), drafted[1:], built[1:], strict=False):
        assert one.refused.startswith(why.format("draft")), name
        assert other.refused.startswith(why.format("build")) and not other.path, name
    assert odd.build(plans[:1]) == built[:1]  # kept


@pytest.mark.long
def test_rounds_that_misbehave_cost_what_is_at_fault(odd: Laboratory, tmp_path: Path) -> None:
    base = Built({}, "base", "0")
    names = ["fine", *MISDEEDS, "nan", "also fine"]
    pairs = odd.timer.beside(base, [Built({}, name, name) for name in names], 0.1)
    found = dict(zip(names, pairs, strict=True))
    assert found["fine"] == found["also fine"] == ([1.0] * 5, [2.0] * 5)
    assert found["nan"] == "NaN where there was none"
    for name, why in MISDEEDS.items():
        assert str(found[name]).startswith(why.format("rounds"))
    once = str(tmp_path / "die-once")
    assert odd.timer.beside(base, [Built({}, once)], 0.1) == [([1.0] * 5, [2.0] * 5)]


@pytest.mark.long
def test_a_finalist_that_breaks_down_costs_no_other(odd: Laboratory) -> None:
    base, names = Built({}, "base"), ["fine", "abort"]
    fine, broken = odd.timer.confirm(base, [Built({}, name) for name in names], 0.1, 2)
    assert fine == [([1.0] * 5, [2.0] * 5)] * 2
    assert [str(each)[:10] for each in broken] == ["WEFT-E0570"] * 2


@pytest.mark.long
def test_a_worker_that_is_killed_in_the_middle(tmp_path: Path) -> None:
    """Real trials, whose worker somebody kills with signal 9 while it times."""
    with WorkerPool(1) as workers, WorkerPool(1) as timer:
        lab = laboratory(Here(workers, timer), tmp_path / "lab")
        (base,) = lab.build([{}])
        lab.timer.beside(base, [base], 0.01)  # it is up
        (process,) = (w.process for w in timer._idle)

        def kill() -> None:
            time.sleep(0.2)
            os.kill(process.pid, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        (pair,) = lab.timer.beside(base, [base], 1.0)
        killer.join()
        assert not isinstance(pair, str) and len(pair[0]) == len(pair[1]) > 2  # tried once more


# ---- answers -------------------------------------------------------------------------------------


def timed(seconds: object, spoiled: object = (False, False), machine: str = "a machine") -> bytes:
    return msgspec.msgpack.encode([seconds, spoiled, machine])


GOOD = [[1.0, 2.0], [3.0, 4.0]]
SENSELESS = {
    "nothing": b"",
    "junk": b"\xc1\xff",
    "another message": msgspec.msgpack.encode(["a", "b"]),
    "too few": timed(GOOD[:1]),
    "too many": timed([*GOOD, [1.0, 1.0]]),
    "no rounds": timed([[], []]),
    "other rounds": timed([[1.0], [1.0, 2.0]]),
    "zero": timed([[0.0, 1.0], [1.0, 1.0]]),
    "before it began": timed([[1.0, 1.0], [-1.0, 1.0]]),
    "NaN": timed([[1.0, 1.0], [float("nan"), 1.0]]),
    "for ever": timed([[1.0, 1.0], [float("inf"), 1.0]]),
    "spoiled too few": timed(GOOD, [False]),
}


@pytest.mark.parametrize("answer", SENSELESS.values(), ids=SENSELESS)
def test_answers_without_sense(tmp_path: Path, answer: bytes) -> None:
    timer = laboratory(Imagined(), tmp_path / "lab").timer
    assert timer._pairs(answer, [0]) == ["an answer without sense"]


def test_answers_of_another_machine(tmp_path: Path) -> None:
    timer = laboratory(Imagined(), tmp_path / "lab").timer
    assert timer._pairs(timed(GOOD), [0]) == [tuple(GOOD)]
    assert timer._pairs(timed(GOOD, machine="b"), [0]) == ["timed on b, not on a machine"]


@pytest.mark.parametrize("width", [1, 2, 3, 50])
def test_programs_are_timed_in_as_many_groups_as_there_are_places(
    tmp_path: Path, width: int
) -> None:
    place = Imagined(width=width, noise=0.0)
    lab = laboratory(place, tmp_path / "lab")
    plans = [{}, *({f"S0.d{k}": "1"} for k in range(4)), {"S0.d3": "2"}]
    base, *others = lab.build(plans)
    before = place.jobs
    pairs = lab.timer.beside(base, others, 1.0)
    assert place.jobs - before == min(width, 5)
    ratios = [one[0] / other[0] for one, other in pairs]  # type: ignore[misc]
    truth = [place.seconds({}) / place.seconds(plan) for plan in plans[1:]]
    np.testing.assert_allclose(ratios, truth)
    assert lab.timer.beside(base, [], 1.0) == []


# ---- real trials ---------------------------------------------------------------------------------


@weft.kernel
def heat(A: weft.f64[N, N], B: weft.f64[N, N]):
    for i in range(1, N - 1):
        for j in range(1, N - 1):
            B[i, j] = 0.2 * (A[i, j] + A[i - 1, j] + A[i + 1, j] + A[i, j - 1] + A[i, j + 1])


def test_a_real_trial(tmp_path: Path) -> None:
    """Drafts, builds and rounds in this process."""
    random = np.random.default_rng(0)
    arrays = {name: random.random((17, 17)) for name in "AB"}
    found = problem_of_kernel(heat.lowered, arrays)
    (tmp_path / "lab").mkdir()
    lab = Workshop(Inside(), tmp_path / "lab").laboratory(found, OPTIONS, arrays)
    untuned, other, wrong, illegal = lab.draft(
        [{}, {"heat.script": "s = s"}, {"no.such": 1}, {"heat.script": "s = s.parallel('x')"}]
    )
    assert not untuned.refused and untuned.estimate >= lab.bound() > 0
    assert not other.refused and other.digest != untuned.digest
    assert wrong.refused.startswith("WEFT-E0025") and illegal.refused.startswith("WEFT-E")
    base, plain, refused = lab.build([{}, {"heat.script": "s = s"}, {"no.such": 1}])
    assert refused.refused.startswith("WEFT-E0025") and base.digest != plain.digest
    run = weft.load(plain.path)
    expected = arrays["B"].copy()
    a = arrays["A"]
    expected[1:-1, 1:-1] = 0.2 * (
        a[1:-1, 1:-1] + a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]
    )
    made = arrays["B"].copy()
    run(arrays["A"], made)
    np.testing.assert_allclose(made, expected)
    (pair,) = lab.timer.beside(base, [plain], 0.01)
    assert len(pair[0]) == len(pair[1]) >= trial.ALLOCATIONS


def test_nan_where_there_was_none_is_told(tmp_path: Path) -> None:
    """Two programs that differ: one divides 0 by 0."""

    @weft.kernel
    def fine(A: weft.f64[n]):
        for i in range(n):
            A[i] = A[i] + 1.0

    @weft.kernel
    def broken(A: weft.f64[n]):
        for i in range(n):
            A[i] = (A[i] - A[i]) / (A[i] - A[i])

    paths = []
    for kernel in (fine, broken):
        path = str(tmp_path / kernel.__name__)
        weft.compile(kernel, options=OPTIONS).save(path)
        paths.append(path)
    found = problem_of_kernel(fine.lowered, {"A": np.ones(7)})
    asked = trial.Rounds(trial.task_of(found.data, OPTIONS), paths, "", 0, 0.01)
    answer = trial.rounds(msgspec.msgpack.encode(asked))
    assert msgspec.msgpack.decode(answer, type=trial.Timed).spoiled == [False, True]
    turned = trial.Rounds(trial.task_of(found.data, OPTIONS), paths[::-1], "", 0, 0.01)
    answer = trial.rounds(msgspec.msgpack.encode(turned))
    assert msgspec.msgpack.decode(answer, type=trial.Timed).spoiled == [False, False]


def test_arrays_are_those_of_the_call_and_begin_at_other_places(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    arrays = {"A": random.random((5, 7)), "n": np.asarray(3), "empty": np.empty((0, 4), np.float32)}
    path = tmp_path / "arrays"
    path.write_bytes(trial.write_arrays(arrays))
    read = trial._arrays(str(path))
    for name, array in arrays.items():
        np.testing.assert_array_equal(read[name], array)
        assert read[name].dtype == array.dtype and read[name].shape == array.shape
    places = [trial._placed(arrays["A"], k) for k in range(3)]
    assert len({p.ctypes.data % 4096 for p in places}) == 3
    for place in places:
        np.testing.assert_array_equal(place, arrays["A"])
        assert place.ctypes.data % 64 == 0


@pytest.mark.parametrize(
    "options",
    [
        {"passes": (lambda graph: graph,)},
        {"seeds": (lambda s: s,)},
        {"instructions": ("no such",)},
    ],
)
def test_options_that_other_processes_cannot_have(options: dict[str, object]) -> None:
    with pytest.raises(CompileError, match="WEFT-E1101"):
        trial.task_of(problem().data, Options(**options))  # type: ignore[arg-type]


def test_tasks_hold_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    options = Options(threads=2, strict=True, target="x86-64-v3", winograd="off", memory=5)
    task = trial.task_of(problem().data, options)
    monkeypatch.setenv("WEFT_STRICT", "0")
    monkeypatch.setenv("WEFT_TUNED", "records")
    monkeypatch.setenv("WEFT_VERIFY", "full")
    read = trial.read_options(task)
    assert (read.tuned, read.verify, read.cache) == ("off", "normal", False)
    assert read.key == options.key and (read.threads, read.target) == (2, "x86-64-v3")


def test_jobs_are_known_to_workers() -> None:
    for name in ("draft", "build", "rounds", "machine"):
        assert worker.JOBS[name] == f"weft.tuner.trial:{name}"
    task = trial.task_of(problem().data, OPTIONS)
    assert trial.machine(msgspec.msgpack.encode(task)).decode() == machine_key(OPTIONS)
