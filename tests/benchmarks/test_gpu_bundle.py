"""Bundles for GPUs, whose launcher runs here beside a driver that has none: kernels by their twins,
arguments, launches, checks and failures by the launcher itself, which never imports Weft."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from tests.benchmarks.gpu_twin import assemble_twin, fake_driver, shared_object
from weft.api import graph_of
from weft.benchmarks.__main__ import main
from weft.benchmarks.gpu import launcher
from weft.benchmarks.gpu.bundle import write_bundle
from weft.benchmarks.gpu.rows import PRODUCTS, line, product, rows, transposed
from weft.benchmarks.report import compare, read
from weft.benchmarks.timing import spread
from weft.codegen.cuda import nvrtc

TIMED = product((33, 40, 20), "float16")
CHOSEN = (
    product((35, 24, 50), "bfloat16", "TN", small=True),
    line("softmax", (5, 257), "bfloat16", small=True),
    transposed((2, 5, 7, 33), (0, 2, 3, 1), "bfloat16", small=True),
    TIMED,
)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    told = list(write_bundle(folder, CHOSEN, ("sm_90a",), assemble_twin))
    assert [row["name"] for row in told] == [row.name for row in CHOSEN]
    fake_driver(folder)
    return folder


def run(folder: Path, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The launcher, where there is no Weft."""
    command = [sys.executable, "-P", str(folder / "run.py"), "--out", str(folder / "rows.json")]
    given = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    given |= {"OMP_NUM_THREADS": "1", **environment}
    return subprocess.run([*command, *more], env=given, capture_output=True, text=True, cwd="/")


def faked(folder: Path, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run(
        folder, "--driver", str(folder / "libfake.so"), "--seconds", "0", *more, **environment
    )


def results(folder: Path) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in json.loads((folder / "rows.json").read_text())}


def test_rows_are_right_timed_and_comparable(bundle: Path) -> None:
    done = faked(bundle)
    assert done.returncode == 0, done.stdout + done.stderr
    found = results(bundle)
    assert list(found) == [row.name for row in CHOSEN]
    assert all(row["right"] and 0 <= row["max_error"] < 2**-7 for row in found.values())
    timed = found[TIMED.name]
    assert timed["weft_ms"] > 0 and [*timed["peers"]] == ["torch"] and timed["rounds"] >= 5
    assert [*timed["absent"]] == ["torch.compile", "triton"] and timed["peak_fraction"] > 0
    assert timed["bytes"] == 2 * (33 * 20 + 20 * 40 + 33 * 40)
    kept = read(bundle / "rows.json")
    (change,) = [c for c in compare(kept, kept) if c.name == TIMED.name]
    assert change.slower == 1.0 and change.noise < float("inf")


def changed(bundle: Path, folder: Path, change: Callable[[Any], object]) -> Path:
    """The bundle again, with another manifest."""
    shutil.copytree(bundle, folder, dirs_exist_ok=True)
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


STORE = "transposed_transposed[i0 * 1155"
ADDRESS = "LaunchFailed: cuLaunchKernel says CUDA_ERROR_ILLEGAL_ADDRESS (700)"
FAULTS = {  # a kernel that …, in place of a store, and what is said of it
    "stores": (STORE, "right (0.0e+00)"),
    "leaves results out": (f"if (block_index()) {STORE}", "WRONG, off by 1.0e+300"),
    "writes beside": (f"transposed_transposed[-1] = 0, {STORE}", "LaunchFailed: it wrote outside"),
    "has two answers": (f"static int n; if (n++ < 2310) {STORE}", "two runs have two answers"),
    "touches what is no memory": (f"fake_result = 700, {STORE}", ADDRESS),
    "stores, too": (STORE, "right (0.0e+00)"),
}
ENDS = {
    "ends the process": (f"abort(), {STORE}", "LaunchFailed: the process ended by signal 6"),
    "never ends": (f"for (;;) {STORE}", "Hung: longer than 5 s"),
    "stores": (STORE, "right (0.0e+00)"),
}


@pytest.mark.parametrize("faults", [FAULTS, pytest.param(ENDS, marks=pytest.mark.long)])
def test_a_row_that_fails_stops_no_other(
    faults: dict[str, tuple[str, str]], bundle: Path, tmp_path: Path
) -> None:
    def change(manifest: Any) -> None:
        row = next(row for row in manifest["rows"] if row["name"].startswith("transpose"))
        made = row["code"]["sm_90a"]
        text = (bundle / made["file"]).with_suffix(".cu").read_text()
        assert text.count(STORE) == 1, text
        manifest["rows"] = []
        for name, (new, _) in faults.items():
            code = shared_object(text.replace(STORE, new)).code
            (tmp_path / name).write_bytes(code)
            own = {**made, "file": name, "sha256": hashlib.sha256(code).hexdigest()}
            manifest["rows"].append({**row, "name": name, "code": {"sm_90a": own}})

    done = faked(changed(bundle, tmp_path, change), "--check", "--row-seconds", "5")
    lines = done.stdout.splitlines()
    assert done.returncode == 1 and len(lines) == len(faults) + 2, done.stdout + done.stderr
    for told, (name, (_, said)) in zip(lines[1:], faults.items(), strict=False):
        assert told.startswith(f"{name}: {said}")
    assert [row["right"] for row in results(tmp_path).values()] == [
        said.startswith("right") for _, said in faults.values()
    ]


STARTS: dict[str, tuple[dict[str, str], str]] = {
    "no GPU": ({"FAKE_COUNT": "0"}, "NoDriver: there is no GPU 0: the driver has 0\n"),
    "another generation": (
        {"FAKE_CAPABILITY": "100"},
        "OtherGeneration: compute capability 10.0; the bundle is for sm_90a\n",
    ),
}


@pytest.mark.parametrize("name", STARTS)
def test_what_cannot_begin_says_so(name: str, bundle: Path) -> None:
    environment, said = STARTS[name]
    done = faked(bundle, "--check", **environment)
    assert (done.returncode, done.stderr) == (2, said)


def test_without_a_driver(bundle: Path) -> None:
    done = run(bundle, "--driver", "libnone.so.1")
    assert done.returncode == 2 and done.stderr.startswith(
        "NoDriver: libnone.so.1 cannot be loaded"
    )


def test_without_memory(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_LOAD", "2")
    driver = launcher.Driver(str(bundle / "libfake.so"))
    with pytest.raises(launcher.OutOfMemory, match="cuModuleLoadData says CUDA_ERROR_OUT_OF_MEM"):
        launcher.Module(driver, b"", [], 0)


def first_launch(manifest: Any, row: int = 0) -> Any:
    return manifest["rows"][row]["code"]["sm_90a"]["launches"][0]


def test_launches_that_do_not_fit_are_not_made(bundle: Path, tmp_path: Path) -> None:
    def change(manifest: Any) -> None:
        first_launch(manifest, 0)["shared"] = 300_000
        first_launch(manifest, 1)["arguments"].append(3)
        first_launch(manifest, 2)["shared"] = 100_000  # which is there, if it is asked for

    done = faked(changed(bundle, tmp_path, change), "--check")
    names = [row.name for row in CHOSEN]
    assert done.returncode == 1 and done.stdout.splitlines()[1:4] == [
        f"{names[0]}: TooMuchSharedMemory: kernel0_0 asks for 300000 bytes, and a block has 232448",
        f"{names[1]}: BadBundle: kernel0_0 takes [8, 8, 8, 8, 8] bytes, and is given 6 × 8",
        f"{names[2]}: right (0.0e+00)",
    ]


BAD = {
    "another version": (lambda m: m.update(version=2), "a manifest of version 2, not 1"),
    "no rows": (lambda m: m.pop("rows"), "KeyError"),
    "no blocks": (lambda m: first_launch(m).update(blocks=0), "0 blocks of"),
    "no such input": (
        lambda m: first_launch(m).update(arguments=[{"memory": "input", "index": 2, "offset": 0}]),
        "there is no input 2",
    ),
    "another file": (
        lambda m: m["rows"][0]["code"]["sm_90a"].update(sha256="0"),
        "is not what the manifest was written for",
    ),
    "no file": (
        lambda m: m["rows"][0]["code"]["sm_90a"].update(file="none"),
        "No such file",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_damaged_bundle(name: str, bundle: Path, tmp_path: Path) -> None:
    change, said = BAD[name]
    done = run(changed(bundle, tmp_path, change), "--dry-run")
    assert done.returncode == 2 and done.stderr.startswith("BadBundle: ") and said in done.stderr


def test_a_dry_run_shows_the_launches_and_needs_nothing(bundle: Path) -> None:
    done = run(bundle, "--dry-run")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == len(CHOSEN)
    assert done.stdout.splitlines()[1] == (
        "softmax bfloat16 5x257, sm_90a: kernel0_0, 5 blocks of 256 threads, 5 arguments"
    )


def test_the_code_for_a_gpu() -> None:
    made = launcher.Bundle.__new__(launcher.Bundle)
    made.manifest = {"architectures": ["sm_80", "sm_86", "sm_90a"]}
    found = [made.architecture(c) for c in ((8, 0), (8, 6), (8, 9), (9, 0))]
    assert found == ["sm_80", "sm_86", "sm_86", "sm_90a"]
    for other in ((7, 5), (10, 0), (12, 0)):
        with pytest.raises(launcher.OtherGeneration, match="sm_80, sm_86, sm_90a"):
            made.architecture(other)


def test_errors_count_beyond_one_rounding() -> None:
    exact = torch.tensor([1.0, -4.0], dtype=torch.float64)
    assert launcher.error_of(exact, exact, 0.0) == (0.0, 0.0)
    off = torch.tensor([1.25, -4.0], dtype=torch.float64)
    assert launcher.error_of(off, exact, 0.125) == (0.0625, 0.03125)
    for bad in (float("nan"), float("inf")):
        found = launcher.error_of(torch.tensor([bad, -4.0]), exact, 0.125)
        assert found == (float("inf"), float("inf"))


def test_spread_is_that_of_other_suites() -> None:
    samples = [1.0, 1.5, 1.25, 1.125, 2.0]
    assert launcher.spread(samples) == spread(samples)


def test_every_row_has_a_name_of_its_own_and_a_program() -> None:
    found = list(rows())
    names = [row.name for row in found]
    assert len({*names}) == len(names)
    assert len(PRODUCTS) >= 12 and sum(m <= 64 for m, _, _ in PRODUCTS) >= 3
    for row in found:
        arguments = row.torch.removeprefix("lambda ").split(":")[0].split(", ")
        assert [value.name for value in graph_of(row.build()).inputs] == arguments
    groups = Counter(row.group.split()[0] for row in found if not row.small)
    assert {*groups} == {
        "gemm", "softmax", "layer", "rms", "gelu", "residual", "transpose", "attention", "conv",
    }  # fmt: skip
    assert groups["conv"] == 24


@pytest.mark.long
def test_small_rows_are_right_in_the_twin(tmp_path: Path) -> None:
    small = [row for row in rows() if row.small]
    list(write_bundle(tmp_path, small, ("sm_90a",), assemble_twin))
    fake_driver(tmp_path)
    done = faked(tmp_path, "--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_nvidias_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "PACKAGE", "no-such-package")
    done = CliRunner().invoke(main, ["gpu", "--bundle", str(tmp_path / "there")])
    assert done.exit_code == 1 and "WEFT-E0509" in done.output
    assert not (tmp_path / "there").exists()


def test_an_architecture_without_a_record(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        main, ["gpu", "--bundle", str(tmp_path / "there"), "--architectures", "sm_1"]
    )
    assert done.exit_code == 2 and "'sm_1' is none" in done.output
