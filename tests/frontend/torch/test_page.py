"""The page on PyTorch runs from top to bottom, by the backend's name."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'weft[torch]'")

import weft
from tests.weft.documents import outputs

PAGE = Path(__file__).parents[3] / "docs" / "pytorch.md"


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", weft.WeftWarning)
        assert len(list(outputs(PAGE.read_text()))) == 4
    assert (tmp_path / "model.weft").exists()
