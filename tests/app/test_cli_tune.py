"""``weft tune`` and ``weft records``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper, numpy_helper

import weft
from tests.tuner.stubs import Inside
from weft.app.cli import cli
from weft.driver.options import Options
from weft.runtime.records import About, Confirmed, Records, Trial
from weft.tuner import search, trial
from weft.tuner import tune as tuning

SOURCE = """
from __future__ import annotations
import sys
import numpy as np
import weft

@weft.kernel
def doubled(A: weft.f32[n]):
    for i in range(n):
        A[i] = 2.0 * A[i]

def good():
    return doubled, (np.ones(100, np.float32),)

def raises():
    raise RuntimeError("not today")

def ends():
    sys.exit(3)

def nothing():
    return None

def three():
    return 3, ()

def unfit():
    return doubled, (np.ones(100),)
"""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Trials in this process, by a clock that finds every plan twice as fast as the first; records
    of this test."""

    @contextmanager
    def here(options: Options) -> Iterator[Inside]:
        yield Inside()

    def taken(sets: Sequence[Any], seconds: float) -> list[list[float]]:
        return [[2e-3] * 5, *([1e-3] * 5 for _ in sets[0].calls[1:])]

    monkeypatch.setattr(tuning, "here", here)
    monkeypatch.setattr(trial, "_taken", taken)
    monkeypatch.setattr(search, "DRAFTED", 4)
    monkeypatch.setattr(search, "VERIFIED", 2)
    monkeypatch.setenv("WEFT_RECORDS", str(tmp_path / "records"))
    monkeypatch.setenv("WEFT_THREADS", "1")
    yield


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kernels.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 8]) for n in "xy"]
    weight = numpy_helper.from_array(np.eye(8, dtype=np.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "small", info[:1], info[1:], [weight])
    opset = [helper.make_opsetid("", 17)]
    path = tmp_path / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    return path


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(cli, [str(a) for a in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_a_kernel_of_a_file(file: Path, tmp_path: Path) -> None:
    plan, picture = tmp_path / "plan.json", tmp_path / "gain.svg"
    result = run("tune", f"{file}:good", "--trials", 24, "-o", plan, "--picture", picture)
    assert result.exit_code == 0, result.output
    assert result.output.startswith("doubled: 2 ms untuned, 1 ms tuned: 2.000 times as fast")
    found = json.loads(plan.read_text())
    assert found and ElementTree.parse(picture).getroot().tag.endswith("svg")
    names: dict[str, Any] = {"__name__": "kernels"}
    exec(compile(SOURCE, str(file), "exec"), names)
    made = weft.compile(names["doubled"], options=weft.Options(threads=1, cache=False), plan=found)
    a = np.arange(5, dtype=np.float32)
    made(a)
    np.testing.assert_array_equal(a, 2 * np.arange(5))


def test_json(file: Path) -> None:
    (data,) = json.loads(run("tune", f"{file}:good", "--trials", 24, "--json").output)["models"]
    assert data["name"] == "good" and data["gain"]["median"] == 2.0 and data["plan"]
    assert data["outcomes"][0]["trials"] >= 2


def test_a_model_and_its_records(model: Path) -> None:
    assert run("tune", model, "--trials", 6).exit_code == 0
    shown = json.loads(run("records", "show", "--json").output)
    assert shown["confirmed"] and shown["confirmed"][0]["gain"] == 2.0
    assert "2.000" in run("records", "show").output


FAULTS = {
    "raises": ("WEFT-E1104", "RuntimeError: not today"),
    "ends": ("WEFT-E1104", "SystemExit: 3"),
    "nothing": ("WEFT-E1104", "TypeError"),
    "nowhere": ("WEFT-E1104", "KeyError: 'nowhere'"),
    "three": ("WEFT-E", "int"),
    "unfit": ("WEFT-E1102", "A is an array of float64"),
}


@pytest.mark.parametrize(("function", "said"), FAULTS.items(), ids=FAULTS)
def test_functions_that_make_nothing_to_tune(
    file: Path, function: str, said: tuple[str, str]
) -> None:
    result = run("tune", f"{file}:{function}", "--trials", 1, "--json")
    assert result.exit_code == 2
    error = json.loads(result.output)["error"]
    assert error["code"].startswith(said[0]) and said[1] in error["what"] + error["why"]


@pytest.mark.parametrize("name", ["nowhere.py:good", "no such model"])
def test_files_that_are_none(name: str) -> None:
    result = run("tune", name, "--trials", 1)
    assert result.exit_code == 2 and result.stderr.startswith("error: WEFT-E")


@pytest.mark.long
def test_one_of_several_that_fails_ends_no_other(file: Path, model: Path, tmp_path: Path) -> None:
    plans = tmp_path / "plans"
    plans.mkdir()
    result = run(
        "tune", f"{file}:raises", f"{file}:good", tmp_path / "missing.onnx", model,
        "--trials", 1, "-o", plans, "--picture", plans / "gain.svg", "--json",
    )  # fmt: skip
    assert result.exit_code == 2
    rows = json.loads(result.stdout)["models"]
    assert [row.get("error", row["name"]) for row in rows] == [
        "WEFT-E1104", "good", "WEFT-E0800", "small"
    ]  # fmt: skip
    names = sorted(path.name for path in plans.iterdir())
    assert names == ["gain-good.svg", "gain-small.svg", "good.plan.json", "small.plan.json"]
    assert "not today" in result.stderr and "missing.onnx" in result.stderr


@pytest.mark.parametrize(
    "wrong",
    [
        ["--budget", "5 parsecs"], ["--budget", "0"], ["--budget", "-3s"], ["--trials", "0"],
        ["--trials", "1.5"], ["--seed", "x"], ["--picture", "x.png"], ["--nonsense"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_misuse(file: Path, wrong: list[str]) -> None:
    result = run("tune", f"{file}:good", *wrong)
    assert result.exit_code == 2 and "Error" in result.stderr


def test_values_that_cannot_be(file: Path, tmp_path: Path) -> None:
    name = f"{file}:good"
    assert "WEFT-E1100" in run("tune", name, "--seed", -1, "--trials", 1).stderr
    assert "WEFT-E0002" in run("tune", name, "--target", "z80", "--trials", 1).stderr
    nowhere = tmp_path / "no folder" / "plan.json"
    assert "WEFT-E1113" in run("tune", name, "--trials", 1, "-o", nowhere).stderr
    assert run("tune", name, name, "-o", nowhere).exit_code == 2
    assert run("tune").exit_code == 2


def test_clusters_that_are_none(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("weft.tuner.cluster.CONNECT", 0.3)
    result = run("tune", f"{file}:good", "--trials", 1, "--cluster", "tcp://127.0.0.1:1")
    assert result.exit_code == 2 and "WEFT-E1106" in result.stderr
    result = run("tune", "worker", "tcp://127.0.0.1:1")
    assert result.exit_code == 2 and "WEFT-E1106" in result.stderr
    assert run("tune", "worker").exit_code == 2
    assert "until its scheduler ends" in run("tune", "worker", "--help").output
    assert "worker" in run("tune", "--help").output


# ---- records -------------------------------------------------------------------------------------

ABOUT = About("p" * 12, "()", "f", "zen4 1", "1 threads", ("S0",))


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    path = tmp_path / "records"
    with Records(path) as records:
        records.keep(ABOUT, Confirmed('{"S0.strategy": "single"}', 1.5, 1.25, 1.75))
        records.keep(ABOUT, Trial("{}", 1, 1.0, "", 0.5))
        records.keep(replace(ABOUT, version="0.0"), Trial("{}", 1, 1.0, "", 0.5))
        records.keep(replace(ABOUT, machine="far"), Trial("{}", 1, 1.0, "", 0.5))
    return path


def test_records_leave_and_enter(kept: Path, tmp_path: Path) -> None:
    lines = run("records", "export").output
    assert len(lines.splitlines()) == 4
    file, other = tmp_path / "file.jsonl", tmp_path / "other"
    assert run("records", "export", file).output == "" and file.read_text() == lines
    assert run("records", "import", file, "--records", other).output == "4 records\n"
    assert run("records", "export", "--records", other).output == lines
    shown = run("records", "show", "--records", other)
    assert "zen4 1" in shown.output and "S0.strategy" in shown.output and "1.500" in shown.output


def test_imports_that_fail(kept: Path, tmp_path: Path) -> None:
    file, other = tmp_path / "file.jsonl", tmp_path / "other"
    file.write_text(run("records", "export").output + "{}\n")
    result = run("records", "import", file, "--records", other)
    assert result.exit_code == 2 and "WEFT-E1112" in result.stderr and f"{file}:5" in result.stderr
    assert run("records", "export", "--records", other).output == ""
    file.write_bytes(b"\xff\xfe\x00")
    assert "WEFT-E1113" in run("records", "import", file).stderr
    assert "WEFT-E1113" in run("records", "import", tmp_path / "missing").stderr
    assert "WEFT-E1113" in run("records", "import", tmp_path).stderr
    assert "WEFT-E1113" in run("records", "export", tmp_path / "none" / "x").stderr


def test_prune(kept: Path) -> None:
    assert run("records", "prune").output == "1 records removed\n"
    assert run("records", "prune", "--machine", "far").output == "1 records removed\n"
    assert run("records", "prune", "--days", 1).output == "0 records removed\n"
    assert run("records", "prune", "--days", 0).output == "2 records removed\n"
    assert run("records", "prune", "--days", -1).exit_code == 2
