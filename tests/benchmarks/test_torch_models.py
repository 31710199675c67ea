"""The suite of PyTorch models: a small one fixed and open, and what compare makes of the rows."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'weft[torch]'")
pytest.importorskip("transformers", reason="transformers is not installed")

import weft
from weft.benchmarks import torch_models
from weft.benchmarks.architectures import contestants
from weft.benchmarks.architectures.measured import MEASURED
from weft.benchmarks.report import compare, missing, read
from weft.benchmarks.torch_models import Settings, means, run


@pytest.mark.long
def test_rows_of_a_small_model(tmp_path: Path) -> None:
    settings = Settings(quick=True, only=("small mixer",), cpu_time=True)
    rows = list(run(settings))
    assert [row["name"] for row in rows] == ["small mixer fixed", "small mixer open"]
    for row in rows:
        assert row["right"] and row["compile_s"] > 0 and row["weft_ms"] > 0
        assert set(row["relative"]) == {"eager", "onnxruntime"}, row["note"]
        assert row["low"] <= row["high"]
        best = min(row["eager_ms"], row["onnxruntime_ms"])
        assert row["ratio"] == pytest.approx(best / row["weft_ms"], rel=0.02)
    assert "over_fixed" not in rows[0] and rows[1]["over_fixed"] > 0

    file = tmp_path / "rows.json"
    file.write_text(json.dumps(rows))
    old = read(file)
    slower = copy.deepcopy(old)
    for pair in slower[1]["relative"].values():
        pair[:] = [10 * pair[0], 0.0]
    assert [c.regressed for c in compare(old, slower)] == [False, True]
    assert missing(old, slower[1:]) == ["small mixer fixed"]

    first = f"geometric mean, fixed: {rows[0]['ratio']:.3f} of the best"
    assert means(rows)[0].startswith(first)


def test_who_is_wrong_or_fails_takes_no_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weft's refusal is a row that is not right; a peer's is a note."""

    def refused(*_: object, **__: object) -> object:
        raise weft.CompileError("WEFT-E0010", "not this one")

    monkeypatch.setattr(weft, "compile", refused)
    monkeypatch.setattr(contestants, "onnxruntime", lambda *_: lambda: [0])
    (row, _) = run(Settings(quick=True, only=("small mixer",), cpu_time=True))
    assert not row["right"] and row["relative"] == {} and "ratio" not in row
    weft_note, peer_note = row["note"].split("; ")
    assert weft_note == "weft: CompileError: WEFT-E0010: not this one"
    assert peer_note.startswith("onnxruntime: wrong by")


def test_names() -> None:
    assert set(Settings(only=("swin", "small swin")).architectures) == {"swin", "small swin"}
    assert set(Settings().architectures) == set(MEASURED)
    assert set(Settings(quick=True).architectures) == set(torch_models.FEW)
    with pytest.raises(ValueError, match="no architecture swim in resnet18"):
        _ = Settings(only=("swim",)).architectures


@pytest.mark.parametrize("name", MEASURED)
def test_measured_sizes_are_of_open_code_everywhere(name: str) -> None:
    """PyTorch makes other code for 1, and what was exported was no open size at all."""
    (measured,) = MEASURED[name].tried
    assert min(measured) >= 2 and min(MEASURED[name].exported) >= 2
    assert all(a != b for a, b in zip(measured[1:], MEASURED[name].exported[1:], strict=True))
