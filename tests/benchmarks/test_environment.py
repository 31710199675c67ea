from __future__ import annotations

import subprocess
import sys

import pytest

from weft.benchmarks import environment

READY = {
    "OMP_NUM_THREADS": "2",
    "OPENBLAS_NUM_THREADS": "2",
    "MKL_NUM_THREADS": "2",
    "TVM_NUM_THREADS": "2",
    "OPENBLAS_CORETYPE": "Haswell",
    "ONEDNN_MAX_CPU_ISA": "ALL",
}


def test_an_environment_that_fits_is_left_alone() -> None:
    assert environment.wanted(2, READY) == {}
    changes = environment.wanted(1, READY)
    assert changes == dict.fromkeys(list(READY)[:4], "1")  # the user's core type stays


def test_the_fastest_core_type_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {"": 3.0, "Haswell": 2.0, "SkylakeX": float("inf"), "SapphireRapids": 2.5}
    monkeypatch.setattr(environment, "_time", lambda name, given: times[name])
    given = {name: value for name, value in READY.items() if name != "OPENBLAS_CORETYPE"}
    assert environment.wanted(2, given) == {"OPENBLAS_CORETYPE": "Haswell"}


def test_a_core_type_that_this_processor_lacks_loses(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], -4, "", "")

    monkeypatch.setattr(subprocess, "run", crash)
    assert environment._time("SkylakeX", {}) == float("inf")


def test_onednn_is_held_to_what_does_not_end_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def run(_: object, env: dict[str, str], **__: object) -> subprocess.CompletedProcess[str]:
        seen.append(env["ONEDNN_MAX_CPU_ISA"])
        return subprocess.CompletedProcess([], -4 if len(seen) < 3 else 1)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(environment, "find_spec", lambda name: object())
    given = {name: value for name, value in READY.items() if name != "ONEDNN_MAX_CPU_ISA"}
    assert environment.wanted(2, given) == {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
    assert seen == ["ALL", "AVX512_CORE_FP16", "AVX512_CORE_BF16"]
    monkeypatch.setattr(environment, "find_spec", lambda name: None)
    assert environment.wanted(2, given) == {}


def test_a_suite_runs_apart_in_what_was_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def run(command: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        seen.extend([command, env["OMP_NUM_THREADS"], env["HOME"]])
        return subprocess.CompletedProcess(command, 3)

    monkeypatch.setenv("HOME", "/here")
    monkeypatch.setattr(subprocess, "run", run)
    assert environment.run_apart(["gemm", "--quick"], {"OMP_NUM_THREADS": "7"}) == 3
    command = [sys.executable, "-m", "weft.benchmarks", "gemm", "--quick"]
    assert seen == [command, "7", "/here"]
