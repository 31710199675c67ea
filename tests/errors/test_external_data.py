"""Weights outside the model: read from its folder, never from elsewhere, never past their end."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import weft
from tests.errors.hostile_models import initializer, outcome
from tests.errors.limited import limited


def external(location: str, **entries: object) -> onnx.ModelProto:
    changed = initializer(data_type=1, dims=[2, 3])
    tensor = changed.graph.initializer[0]
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in ({"location": location} | entries).items():
        tensor.external_data.add(key=key, value=str(text))
    return changed


def saved(folder, changed: onnx.ModelProto):
    path = folder / "model.onnx"
    path.write_bytes(changed.SerializeToString())
    return path


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "secret.bin").write_bytes(b"\0" * 24)
    inner = tmp_path / "model"
    inner.mkdir()
    (inner / "data.bin").write_bytes(np.arange(6, dtype=np.float32).tobytes() + b"\0" * 24)
    (inner / "link.bin").symlink_to(tmp_path / "secret.bin")
    (inner / "up").symlink_to(tmp_path)
    return inner


def test_external_data_is_read(folder):
    path = saved(folder, external("data.bin", offset=0, length=24))
    assert outcome(path, {"x": np.ones((2, 3), np.float32)}) == "fine"


def test_stages_and_schedules_read_it_too(folder):
    path = saved(folder, external("data.bin", offset=0, length=24))
    assert weft.lower(path).stages and weft.schedules(path)
    assert weft.compile(path, schedule=weft.schedules(path))


@pytest.mark.parametrize(
    "location",
    ["../secret.bin", "link.bin", "up/secret.bin", "/etc/passwd", "a/../../secret.bin", "", "a\0b",
     "..\\secret.bin", ".", "missing.bin", "/dev/zero"],
)  # fmt: skip
def test_external_data_outside_the_folder(folder, location):
    found = limited(lambda: outcome(saved(folder, external(location))))
    code = "E0261" if location in (".", "missing.bin") else "E0260"
    assert found.startswith(f"ModelError WEFT-{code}") and "'w'" in found, found


@pytest.mark.parametrize(
    "entries",
    [
        {"offset": 0, "length": 49},
        {"offset": 40, "length": 24},
        {"offset": -24, "length": 24},
        {"offset": 10**30},
        {"offset": "0x10"},
        {"offset": 0, "length": 20},
        {"offset": 0, "length": 0},
        {"offset": 48},
    ],
    ids=str,
)
def test_external_data_past_the_end(folder, entries):
    found = limited(lambda: outcome(saved(folder, external("data.bin", **entries))))
    short = entries.get("length") in (0, 20) or entries == {"offset": 48}
    code = "E0207" if short else "E0262"
    assert found.startswith(f"ModelError WEFT-{code}") and "'w'" in found, found


def test_external_data_needs_a_folder():
    assert "WEFT-E0204" in outcome(external("data.bin"))


def test_external_tensors_cannot_multiply_a_file(folder):
    (folder / "data.bin").write_bytes(b"\0" * (24 << 20))
    changed = external("data.bin", offset=0, length=6 << 22)
    first = changed.graph.initializer[0]
    first.dims[:] = [6 << 20]
    for index in range(1, 2000):
        copy = changed.graph.initializer.add()
        copy.CopyFrom(first)
        copy.name = f"w{index}"
        copy.dims[:] = [(6 << 20) - index]
        copy.external_data[1].value = str(index * 4)
        copy.external_data[2].value = str((6 << 22) - index * 4)
    found = limited(lambda: outcome(saved(folder, changed)))
    assert found.startswith("BudgetError WEFT-E0263"), found
