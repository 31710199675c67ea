from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import weft
from weft.app.cli import cli
from weft.codegen.calibrate import Measured
from weft.codegen.machines.host import host
from weft.codegen.machines.named import RECORDS
from weft.driver import targets
from weft.driver.options import Options
from weft.driver.targets import calibrate_host, calibrated_host, listed, measured_host, target_for
from weft.ir.errors import CompileError, WeftError
from weft.ir.machine import Machine

LEVELS = len(host().machine.caches)
MEASURED = Measured(
    3.5e9, 4, 2, 2, (1.0,) * LEVELS, 9.9e9, 1e-6, 1e11, (2e9,) * LEVELS, 19e9, 3e-5
)  # fmt: skip


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Options]:
    """A folder of its own, and measuring that takes no time."""
    monkeypatch.setattr(targets, "calibrate", lambda: MEASURED)
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    yield Options(cache_dir=str(tmp_path / "cache"), target="host-calibrated")


def program() -> weft.Tensor:
    x = weft.placeholder((5,), weft.float32, name="x")
    return weft.compute((5,), lambda i: x[i] * 2, name="y")


def test_measured_once_and_used_only_when_asked(options: Options) -> None:
    assert measured_host(options) is None
    with pytest.raises(CompileError, match="WEFT-E0004") as caught:
        weft.compile(program(), options=options)
    assert "weft targets --calibrate" in caught.value.hint
    made = calibrate_host(options)
    assert made == calibrated_host(options) == target_for(options)
    assert made.machine.frequency == 3.5e9
    assert measured_host(options) == MEASURED
    x = np.arange(5, dtype=np.float32)
    assert list(weft.compile(program(), options=options)(x)) == [0, 2, 4, 6, 8]
    assert target_for(Options(cache_dir=options.cache_dir)) == host()


def test_another_record_is_another_program_in_the_cache(options: Options) -> None:
    calibrate_host(options)
    weft.compile(program(), options=options)
    plain = weft.compile(program(), options=Options(cache_dir=options.cache_dir))
    assert "from_cache" not in plain.stats
    assert weft.compile(program(), options=options).stats["from_cache"]


def test_it_outlives_the_compiled_programs(options: Options) -> None:
    calibrate_host(options)
    assert CliRunner().invoke(cli, ["cache", "clear"]).exit_code == 0
    assert measured_host(options) == MEASURED


def test_damage_is_the_same_as_nothing(options: Options) -> None:
    calibrate_host(options)
    (entry,) = (Path(str(options.cache_dir)) / "calibration").glob("*.weft")
    entry.write_bytes(entry.read_bytes()[:-1] + b"?")
    assert measured_host(options) is None
    with pytest.raises(CompileError, match="WEFT-E0004"):
        calibrated_host(options)


def test_a_folder_that_cannot_be_used(tmp_path: Path, options: Options) -> None:
    (tmp_path / "file").write_text("")
    bad = Options(cache_dir=str(tmp_path / "file"))
    assert measured_host(bad) is None
    with pytest.raises(WeftError, match="WEFT-E0808"):
        calibrate_host(bad)


def test_the_list(options: Options) -> None:
    names = ["host", *(record.name for record in RECORDS)]
    assert [row.target.name for row in listed(options)] == names
    calibrate_host(options)
    assert [row.target.name for row in listed(options)] == ["host", "host-calibrated", *names[1:]]
    assert all(not row.lacking for row in listed(options)[:2])


def test_the_command(options: Options) -> None:
    run = CliRunner().invoke(cli, ["targets"])
    assert run.exit_code == 0 and "measured:" not in run.output
    for text in (
        "x86-64-v3",
        "16 x 256 bits",
        "fma sdot udot",
        "vpdpbusd",
        "32K 512K 16M",
        "runs here",
    ):
        assert text in run.output
    run = CliRunner().invoke(cli, ["targets", "--calibrate"])
    assert run.exit_code == 0 and "measured: 3.5 GHz, 2 multiply-adds a cycle" in run.output


def test_the_command_as_json(options: Options) -> None:
    run = CliRunner().invoke(cli, ["targets", "--calibrate", "--json"])
    rows = {row["name"]: row for row in json.loads(run.output)["targets"]}
    assert rows["host"]["host"] and rows["host"]["runs_here"] and not rows["host"]["lacking"]
    assert all({f.name for f in fields(Machine)} == row["machine"].keys() for row in rows.values())
    assert rows["host-calibrated"]["machine"]["frequency"] == 3.5e9
    portable = rows["x86-64-v3"]["machine"]
    assert portable["vector_bytes"] == 32 and portable["vector_registers"] == 16
    assert rows["x86-64-v3"]["instructions"] == ["fma"]
    assert {"vpdpbusd", "vdpbf16ps"} <= set(rows["znver5"]["instructions"])
    assert {"avx512vnni", "avx512bf16"} <= set(rows["znver5"]["machine"]["features"])
    assert rows["aarch64"]["instructions"] == ["fma", "sdot", "udot"]
    assert [c["size"] for c in portable["caches"]] == [32768, 524288, 16777216]
