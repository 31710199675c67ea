"""The suite as a command: rows, means, what is said when a kernel fails or a peer is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from weft.benchmarks import __main__ as command
from weft.benchmarks.polybench import run as suite
from weft.benchmarks.polybench.c_peer import compilers
from weft.benchmarks.polybench.run import Settings, run
from weft.benchmarks.report import geometric_mean
from weft.ir.errors import CompileError


def test_rows_of_a_timed_run(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    arguments = ["polybench", "--size", "mini", "--kernels", "jacobi-1d,trisolv", "--quick"]
    done = CliRunner().invoke(command.main, [*arguments, "--untiled", "--json", str(path)])
    assert done.exit_code == 0, done.output
    first, second, means = json.loads(path.read_text())
    assert (first["kernel"], second["kernel"]) == ("jacobi-1d", "trisolv")
    for row in (first, second):
        assert row["right"] and row["weft_ms"] > 0 and row["untiled_ms"] > 0 and row["gflops"] > 0
        assert 0 < row["compile_s"] < 300 and row["validation"].endswith("%")
    assert means["note"].startswith("2 of 2 right")
    if compilers():
        mean = geometric_mean([first["ratio"], second["ratio"]])
        assert means["ratio"] == pytest.approx(mean, abs=2e-3)


def test_every_dtype_is_verified() -> None:
    rows = list(run(Settings(kernels=("jacobi-1d", "floyd-warshall"), verify_only=True)))
    kinds = [(row["kernel"], row["dtype"]) for row in rows]
    assert kinds == [
        ("jacobi-1d", "float64"),
        ("jacobi-1d", "float32"),
        ("floyd-warshall", "int32"),
    ]
    assert all(row["right"] for row in rows)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [(["--threads", "0"], "1<=x<=1024"), (["--json", "nowhere/rows.json"], "no folder nowhere")],
)
def test_what_cannot_be_is_refused_at_once(arguments: list[str], text: str) -> None:
    done = CliRunner().invoke(command.main, ["polybench", *arguments])
    assert done.exit_code == 2 and text in done.output


def test_unknown_kernels_are_refused() -> None:
    done = CliRunner().invoke(command.main, ["polybench", "--kernels", "gem"])
    assert done.exit_code == 2 and "no kernel gem" in done.output


def test_a_missing_compiler_is_said_aloud(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(suite, "compilers", dict)
    row, means = run(Settings(size="mini", kernels=("mvt",), quick=True))
    assert "gcc is not on this machine" in capsys.readouterr().err
    assert row["right"] and "ratio" not in row and "ratio" not in means
    large = Settings(size="large", kernels=("jacobi-1d",), quick=True)
    note = next(run(large))["note"]
    assert "not verified: no C compiler" in note


def test_a_kernel_that_does_not_compile_is_a_row_and_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise CompileError("WEFT-E0999", "it does not")

    monkeypatch.setattr(suite, "compile_weft", refuse)
    done = CliRunner().invoke(command.main, ["polybench", "--size", "mini", "--kernels", "mvt"])
    assert done.exit_code == 1 and "does not compile" in done.output


def test_a_wrong_answer_is_a_row_and_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite.WeftProgram, "run", lambda self, arguments: None)
    arguments = ["polybench", "--size", "mini", "--kernels", "mvt", "--quick"]
    done = CliRunner().invoke(command.main, arguments)
    assert done.exit_code == 1 and "WRONG ANSWER" in done.output
