from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from weft.benchmarks import __main__ as command
from weft.benchmarks import environment, suite
from weft.benchmarks.case import Case, Planned, one_node
from weft.benchmarks.suite import Settings


def _planned(name: str) -> Planned:
    def build() -> Case:
        x = np.ones(3, np.float32)
        model, inputs = one_node("Add", [("a", x), ("b", x)], ((3,), np.float32))
        return Case(name, "g", model, inputs, lambda: [x + x], 0.0, 3, limit="")

    return Planned(name, build)


@pytest.fixture(autouse=True)
def without_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "_sample", lambda bench: None)
    monkeypatch.setattr(suite, "ROW_SECONDS", 0.01)


def test_rows_come_in_order_and_calls_last() -> None:
    told: list[str] = []
    found = suite.run(
        [_planned("a"), _planned("b")],
        (),
        Settings(only=("b", "call*")),
        lambda row: told.append(row["name"]),
        row_seconds=0.01,
    )
    assert told == ["b", "call overhead", "call overhead, bound"]
    assert [row["name"] for row in found.rows] == told and not found.left_out
    assert all(row["right"] and row["facts"] == {} for row in found.rows)


def test_what_there_is_no_time_for_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "QUICK_SECONDS", 0.0)
    found = suite.run([_planned("a")], (), Settings(quick=True, only=("a",)))
    assert found.rows == [] and found.left_out == ["a"]


def test_a_suite_goes_into_an_environment_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(environment, "wanted", lambda threads, given: {"X": str(threads)})
    monkeypatch.setattr(environment, "run_apart", lambda *given: seen.append(given) or 5)
    arguments = ["gemm", "--threads", "2", "--only", "gemm w *"]
    assert CliRunner().invoke(command.main, arguments).exit_code == 5
    assert seen == [(arguments, {"X": "2"})]


def test_the_command_writes_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(environment, "wanted", lambda threads, given: {})
    monkeypatch.setattr(command.gemm, "PEERS", ())
    path = tmp_path / "rows.json"
    arguments = ["gemm", "--quick", "--only", "gemm x f32 64x*", "--json", str(path)]
    done = CliRunner().invoke(command.main, arguments)
    assert done.exit_code == 0, done.output
    (row,) = json.loads(path.read_text())
    assert row["name"] == "gemm x f32 64x64x64" and row["peers"] == {}
    assert {"weft_ms", "best_peer_ratio", "peak_fraction", "max_error", "spread"} <= row.keys()
    assert "multiply-add peak of float32" in done.output
