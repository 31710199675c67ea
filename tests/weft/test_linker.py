"""Every linker that is found makes a library that loads; where there is none, errors say so."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
from pathlib import Path

import pytest

from tests.weft.compiled_examples import chain
from weft.ir.errors import ArtifactError
from weft.runtime import library as linker
from weft.runtime.library import commands, link_shared, write_library

TRIPLE = chain().target.triple


def _names(code: Path, path: Path, triple: str) -> list[str]:
    return [Path(command[0]).name for command in commands(code, path, triple)]


@pytest.mark.long
@pytest.mark.parametrize("tool", ["cc", "gcc", "clang", "ld", "ld.lld", "ziglang"])
def test_each_linker(tool, tmp_path, monkeypatch) -> None:
    code, path = tmp_path / "chain.o", tmp_path / "chain.so"
    write_library(chain(), code)
    found = [c for c in commands(code, path, TRIPLE) if Path(c[0]).name == tool or tool in c]
    if not found:
        pytest.skip(f"no {tool} here: it is not tried")
    monkeypatch.setattr(linker, "commands", lambda *_: found)
    link_shared(code, path, TRIPLE)
    library = ctypes.CDLL(str(path))
    library.chain_message.restype = ctypes.c_char_p
    assert library.chain_message(0) == b"done"
    assert not hasattr(library, "weft_acquire")


def test_a_shared_library_is_one_file_and_nothing_is_left(tmp_path) -> None:
    if not _names(Path("a.o"), Path("a.so"), TRIPLE):
        pytest.skip("no linker here")
    write_library(chain(), tmp_path / "chain.so", header=tmp_path / "chain.h")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chain.h", "chain.so"]


def test_without_a_linker_an_error_says_what_would_do(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ArtifactError, match="WEFT-E0713") as caught:
        write_library(chain(), tmp_path / "chain.so")
    assert "(.o), which needs none" in caught.value.hint
    write_library(chain(), tmp_path / "chain.o")
    assert [path.name for path in tmp_path.iterdir()] == ["chain.o"]


def test_a_linker_that_fails_is_quoted(tmp_path, monkeypatch) -> None:
    said = ["sh", "-c", "echo no such emulation >&2; exit 1"]
    monkeypatch.setattr(linker, "commands", lambda *_: [said, ["/no/such/linker"]])
    with pytest.raises(ArtifactError, match="WEFT-E0714") as caught:
        write_library(chain(), tmp_path / "chain.so")
    assert "sh: no such emulation" in caught.value.why
    assert "/no/such/linker: " in caught.value.why
    assert list(tmp_path.iterdir()) == []


def test_linkers_of_this_machine_are_not_asked_for_another(monkeypatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    other = "riscv64-unknown-linux-gnu"
    named = _names(Path("a.o"), Path("a.so"), other)
    assert named[:2] == ["riscv64-linux-gnu-cc", "riscv64-linux-gnu-gcc"]
    assert "cc" not in named and "ld" not in named
    assert named[-1] == "ld.lld"
