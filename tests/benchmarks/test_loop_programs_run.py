"""Loop programs as a command: rows, the mean, what is wrong is said."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from weft.benchmarks import __main__ as command
from weft.benchmarks.loop_programs import run as suite
from weft.benchmarks.loop_programs.run import PROGRAMS, Settings, run
from weft.benchmarks.polybench.c_peer import compilers
from weft.benchmarks.report import geometric_mean


def test_rows_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    arguments = ["programs", "--kernels", "kronecker,rnn", "--quick", "--cpu-time"]
    done = CliRunner().invoke(command.main, [*arguments, "--json", str(path)])
    assert done.exit_code == 0, done.output
    first, second, means = json.loads(path.read_text())
    assert (first["kernel"], second["kernel"]) == ("kronecker", "rnn")
    assert means["note"].startswith("2 of 2 right")
    if compilers():
        assert all(row["weft_ms"] > 0 and float(row["error"]) < 1e-5 for row in (first, second))
        mean = geometric_mean([first["ratio"], second["ratio"]])
        assert means["ratio"] == pytest.approx(mean, abs=2e-3)


def test_unknown_programs_are_refused() -> None:
    done = CliRunner().invoke(command.main, ["programs", "--kernels", "gemm"])
    assert done.exit_code == 2 and "no program gemm" in done.output


@pytest.mark.skipif(not compilers(), reason="nothing to compare with")
def test_a_wrong_answer_is_said_aloud(monkeypatch: pytest.MonkeyPatch) -> None:
    program = dataclasses.replace(PROGRAMS["pascal"], large=40)
    monkeypatch.setattr(suite, "PROGRAMS", {"pascal": program})
    monkeypatch.setattr(suite, "fresh", lambda given: {n: x + 0 for n, x in given.items()})
    assert next(run(Settings(quick=True)))["right"]
    monkeypatch.setattr(suite, "fresh", lambda given: {n: x + 1 for n, x in given.items()})
    row, mean = run(Settings(quick=True))
    assert not row["right"] and row["note"].startswith("WRONG ANSWER") and not mean["right"]
