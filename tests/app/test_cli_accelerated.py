"""``weft run`` and ``weft compile`` for an accelerator."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result

from tests.weft.integer_models import (
    SIDE,
    conv_net,
    qdq_conv,
    qlinear_conv,
    residual_net,
    softmax_net,
)
from weft.accel.execution_order import ORDERS
from weft.app.cli import cli

SMALL = {"LOG_BATCH": 1, "LOG_BLOCK": 3, "LOG_WGT_BUFF_SIZE": 13, "TARGET": "sim"}


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [*map(str, arguments)])


def saved(model: onnx.ModelProto, path: Path) -> Path:
    onnx.save(model, path)
    return path


@pytest.fixture
def residual(tmp_path: Path) -> Path:
    return saved(residual_net(), tmp_path / "residual.onnx")


@pytest.fixture
def qlinear(tmp_path: Path) -> Path:
    return saved(qlinear_conv(), tmp_path / "qlinear.onnx")


@pytest.mark.long
def test_run_quantised(residual: Path) -> None:
    found = invoke("run", residual, "--target", "vta", "--quantize")
    assert found.exit_code == 0, found.output
    assert "cycles" in found.output and "utilisation" in found.output
    assert "results are equal to the same integers computed on the processor" in " ".join(
        found.output.split()
    )


def test_run_as_json(residual: Path) -> None:
    found = invoke("run", residual, "--target", "vta", "--quantize", "--json")
    assert found.exit_code == 0, found.output
    data = json.loads(found.stdout)
    assert data["equal"] is True and data["stats"]["accelerator"] == "vta"
    assert len(data["layers"]) == data["stats"]["offloaded"] >= 2
    assert sum(layer["cycles"] for layer in data["layers"]) == data["stats"]["cycles"] > 0


@pytest.mark.long
def test_another_configuration(residual: Path, tmp_path: Path) -> None:
    config = tmp_path / "vta_config.json"
    config.write_text(json.dumps(SMALL))
    cycles = []
    for more in ((), ("--config", config)):
        found = invoke("run", residual, "--target", "vta", "--quantize", "--json", *more)
        assert found.exit_code == 0, found.output
        data = json.loads(found.stdout)
        assert data["equal"] is True
        cycles.append(data["stats"]["cycles"])
    assert cycles[0] != cycles[1]


@pytest.mark.long
@pytest.mark.parametrize("make", (qlinear_conv, qdq_conv))
def test_integers_need_no_quantisation(make: object, tmp_path: Path) -> None:
    path = saved(make(), tmp_path / "integers.onnx")  # type: ignore[operator]
    found = invoke("run", path, "--target", "vta", "--json")
    assert found.exit_code == 0, found.output
    data = json.loads(found.stdout)
    assert data["equal"] is True and data["stats"]["offloaded"] >= 1


@pytest.mark.long
def test_a_stream_as_files(qlinear: Path, tmp_path: Path) -> None:
    stream = tmp_path / "out" / "stream.bin"
    stream.parent.mkdir()
    found = invoke("compile", qlinear, "--target", "vta", "-o", stream)
    assert found.exit_code == 0, found.output
    assert sorted(p.suffix for p in stream.parent.iterdir()) == [".bin", ".image", ".json"]
    found = invoke("accel", "check", stream)
    assert found.exit_code == 0 and "nothing to refuse" in found.output
    assert invoke("accel", "disasm", stream).output.splitlines()[-1].split()[1:3] == [
        "compute", "finish",
    ]  # fmt: skip
    results = []
    for order in (*ORDERS, "5"):
        output = tmp_path / "y.npz"
        found = invoke("accel", "run", stream, "--order", order, "--output", output)
        assert found.exit_code == 0, found.output
        with np.load(output) as file:
            (name,) = file.files
            results.append(file[name])
    assert results[0].shape[2:] == (SIDE, SIDE) or SIDE in results[0].shape
    assert len(np.unique(results[0])) > 9
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


def test_streams_of_several_layers(residual: Path, tmp_path: Path) -> None:
    found = invoke("compile", residual, "--target", "vta", "--quantize", "-o", tmp_path / "s.bin")
    assert found.exit_code == 0, found.output
    streams = sorted(tmp_path.glob("s.*.bin"))
    assert len(streams) >= 2
    for stream in streams:
        assert invoke("accel", "check", stream).exit_code == 0


def test_the_same_bytes_every_time(qlinear: Path, tmp_path: Path) -> None:
    files = []
    for name in ("one.bin", "other.bin"):
        assert invoke("compile", qlinear, "--target", "vta", "-o", tmp_path / name).exit_code == 0
        stream = tmp_path / name
        files.append((stream.read_bytes(), stream.with_suffix(".image").read_bytes()))
    assert files[0] == files[1]


@pytest.mark.parametrize("make", (softmax_net, conv_net))
def test_nothing_for_the_accelerator(make: object, tmp_path: Path) -> None:
    path = saved(make(), tmp_path / "none.onnx")  # type: ignore[operator]
    found = invoke("run", path, "--target", "vta")
    assert found.exit_code == 2 and "WEFT-E1033" in found.output
    assert "quantize" in found.output and "Traceback" not in found.output
    found = invoke("compile", path, "--target", "vta", "-o", tmp_path / "s.bin")
    assert found.exit_code == 2 and "WEFT-E1033" in found.output
    assert not (tmp_path / "s.bin").exists()


@pytest.mark.parametrize(
    ("text", "code"),
    (
        ('{"LOG_BLOCK": 12}', "WEFT-E1010"),
        ('{"LOG_ACC_BUFF_SIZE": 5}', "WEFT-E1010"),
        ("[]", "WEFT-E1010"),
        ("{", "WEFT-E1010"),
    ),
)
def test_impossible_configurations(qlinear: Path, tmp_path: Path, text: str, code: str) -> None:
    config = tmp_path / "vta_config.json"
    config.write_text(text)
    found = invoke("run", qlinear, "--target", "vta", "--config", config)
    assert found.exit_code == 2 and code in found.output


@pytest.mark.long
def test_memories_for_few_layers(tmp_path: Path) -> None:
    """Two accumulators: what needs three runs on the processor, and results are the same."""
    config = tmp_path / "vta_config.json"
    config.write_text('{"LOG_ACC_BUFF_SIZE": 7}')
    path = saved(residual_net(), tmp_path / "residual.onnx")
    found = invoke("run", path, "--target", "vta", "--quantize", "--config", config, "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["equal"] is True


def test_a_configuration_of_another_target(qlinear: Path, tmp_path: Path) -> None:
    config = tmp_path / "vta_config.json"
    config.write_text("{}")
    assert "--target vta" in invoke("run", qlinear, "--config", config).output
    missing = invoke("run", qlinear, "--target", "vta", "--config", tmp_path / "none.json")
    assert missing.exit_code == 2 and "none.json" in missing.output


@pytest.mark.long
def test_images_elsewhere(qlinear: Path, tmp_path: Path) -> None:
    """Compiled for an address, it is what relocation makes of the one for 0."""
    plain, there = tmp_path / "plain.bin", tmp_path / "there.bin"
    for path, more in ((plain, ()), (there, ("--base", "0x20000"))):
        found = invoke("compile", qlinear, "--target", "vta", "-o", path, *more)
        assert found.exit_code == 0, found.output
    moved = tmp_path / "moved.bin"
    assert invoke("accel", "relocate", plain, "--base", 0x20000, "-o", moved).exit_code == 0
    assert there.read_bytes() == moved.read_bytes() != plain.read_bytes()
    outputs = []
    for path in (plain, there):
        assert invoke("accel", "check", path).exit_code == 0
        arguments = ("accel", "run", path, "--output", tmp_path / "y.npz")
        assert invoke(*arguments).exit_code == 0
        with np.load(tmp_path / "y.npz") as arrays:
            outputs.append(dict(arrays))
    for name, array in outputs[0].items():
        np.testing.assert_array_equal(array, outputs[1][name])
    found = invoke("compile", qlinear, "--base", "0x1000")
    assert found.exit_code != 0 and "--base is for accelerators" in found.output
