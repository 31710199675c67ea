"""Open architectures: a few in the interpreter, one as machine code, and what the table says."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'weft[torch]'")
pytest.importorskip("transformers", reason="transformers is not installed")

from tests.end_to_end.open_architectures import (
    as_imported,
    compiled,
    main,
    rows,
)
from weft.benchmarks.architectures.open_sizes import ARCHITECTURES


@pytest.mark.parametrize("name", ["unet", "llama with own cache", "state space"])
def test_as_imported(name: str) -> None:
    (row,) = rows([name], as_imported)
    assert not row.wrong and row.right >= 5, row


@pytest.mark.parametrize("name", ["mixer", "llama with own cache"])
def test_as_machine_code(name: str) -> None:
    (row,) = rows([name], compiled)
    assert not row.wrong and row.right >= 5 and row.compiled == 1, row


def test_what_is_refused_has_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--interpreted", "--only", "fnet"]) == 0
    head, row, last = capsys.readouterr().out.splitlines()
    assert "recompiled" in head and last == "0 of 1, 0 wrong"
    assert row.split()[:4] == ["fnet", "b", "s", "WEFT-E0272:"] and "complex64" in row


def test_the_list() -> None:
    assert len(ARCHITECTURES) >= 24
    for architecture in ARCHITECTURES.values():
        assert len(set(architecture.tried) - {architecture.exported}) >= 5
