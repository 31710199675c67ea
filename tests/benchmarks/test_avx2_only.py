from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from weft.benchmarks import __main__ as command
from weft.benchmarks import environment
from weft.benchmarks import environment as avx2_only

_FEATURES = """
import threading
import llvmlite.binding as binding
def tell():
    found = binding.get_host_cpu_features()
    print(*sorted(name for name, there in found.items() if there))
tell()
thread = threading.Thread(target=tell)
thread.start()
thread.join()
"""


def _features(changes: dict[str, str]) -> list[set[str]]:
    """Of a process and of a thread in it."""
    given = {**os.environ, **changes}
    done = subprocess.run(
        [sys.executable, "-c", _FEATURES], env=given, capture_output=True, text=True, check=True
    )
    return [set(line.split()) for line in done.stdout.splitlines()]


def test_a_held_process_and_its_threads_see_avx2_alone() -> None:
    try:
        with avx2_only.changes() as changes:
            assert avx2_only.held(changes) and not avx2_only.held({})
            own, held = _features({}), _features(changes)
    except avx2_only.Unheld as reason:
        pytest.skip(f"not here: {reason}")
    newer = {name for name in own[0] if name.startswith(("avx512", "amx", "avxvnni", "avx10"))}
    assert held[0] == held[1] == own[0] - newer
    assert not os.path.exists(changes["LD_PRELOAD"])


def test_other_faults_still_end_a_held_process() -> None:
    crash = "import ctypes; ctypes.string_at(0)"
    try:
        with avx2_only.changes() as changes:
            given = {**os.environ, **changes}
            done = subprocess.run([sys.executable, "-c", crash], env=given, capture_output=True)
    except avx2_only.Unheld as reason:
        pytest.skip(f"not here: {reason}")
    assert done.returncode == -11


def test_without_a_compiler_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avx2_only, "compilers", dict)
    done = CliRunner().invoke(command.main, ["gemm", "--avx2"])
    assert done.exit_code == 1 and "gcc or clang" in done.output


def test_a_suite_runs_again_where_libraries_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    @contextmanager
    def changes() -> Iterator[dict[str, str]]:
        yield {"LD_PRELOAD": "/x/avx2_only.so"}

    monkeypatch.setattr(avx2_only, "changes", changes)
    monkeypatch.setattr(environment, "run_apart", lambda *given: seen.append(given) or 3)
    arguments = ["models", "--avx2", "--threads", "2"]
    assert CliRunner().invoke(command.main, arguments).exit_code == 3
    assert seen == [(arguments, {"LD_PRELOAD": "/x/avx2_only.so"})]
