"""What cannot be written as a library, and what the error says."""

from __future__ import annotations

from dataclasses import replace

import pytest

import weft
from tests.errors.hostile_models import model, node, value
from tests.weft.compiled_examples import chain
from weft.ir.errors import ArtifactError
from weft.runtime.executable import Executable
from weft.runtime.library import write_library


@pytest.mark.parametrize("file", ["chain", "chain.weft", "chain.a", "chain.dll", "chain.O"])
def test_a_suffix_that_says_nothing(file, tmp_path) -> None:
    with pytest.raises(ArtifactError, match="WEFT-E0711"):
        write_library(chain(), tmp_path / file)


@pytest.mark.parametrize("name", ["", "a-b", "9", "_a", "while", "a b", "é", "a" * 61, "x\n"])
def test_a_name_that_is_no_identifier(name, tmp_path) -> None:
    with pytest.raises(ArtifactError, match="WEFT-E0711"):
        write_library(chain(), tmp_path / "chain.o", name=name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("triple", ["x86_64-apple-darwin", "sparc64-unknown-linux-gnu"])
def test_a_target_without_threads(triple, tmp_path) -> None:
    other = replace(chain(), target=replace(chain().target, triple=triple))
    with pytest.raises(ArtifactError, match="WEFT-E0712") as caught:
        write_library(other, tmp_path / "chain.o")
    assert triple in caught.value.what


def test_a_folder_that_is_not_there(tmp_path) -> None:
    with pytest.raises(ArtifactError, match="WEFT-E0700"):
        write_library(chain(), tmp_path / "none" / "chain.o")
    with pytest.raises(ArtifactError, match="WEFT-E0700"):
        write_library(chain(), tmp_path / "none" / "chain.so")


def test_an_unwritable_header_is_the_headers_fault(tmp_path) -> None:
    header = tmp_path / "none" / "chain.h"
    for suffix in ("o", "so"):
        path = tmp_path / f"chain.{suffix}"
        path.write_bytes(b"older")
        with pytest.raises(ArtifactError, match="WEFT-E0700") as caught:
            write_library(chain(), path, header=header)
        assert caught.value.what == "the header cannot be written"
        assert caught.value.where == str(header)
        assert path.read_bytes() == b"older"
        path.unlink()
        with pytest.raises(ArtifactError, match="the header"):
            write_library(chain(), path, header=header)
        assert list(tmp_path.iterdir()) == []


def test_one_unwritable_place_leaves_the_other_file_alone(tmp_path) -> None:
    folder, file = tmp_path / "folder.o", tmp_path / "chain.o"
    folder.mkdir()
    file.write_bytes(b"older")
    for path, header, what in ((folder, file, "library"), (file, folder, "header")):
        with pytest.raises(ArtifactError, match="WEFT-E0700") as caught:
            write_library(chain(), path, header=header)
        assert caught.value.what == f"the {what} cannot be written"
        assert caught.value.where == str(folder)
        assert file.read_bytes() == b"older"
        assert sorted(tmp_path.iterdir()) == [file, folder]


def test_a_model_of_several_programs(tmp_path) -> None:
    """What follows depends on how many elements are not 0."""
    nodes = [node("NonZero", ["x"], ["places"]), node("Neg", ["places"], ["y"])]
    made = weft.compile(model(nodes, inputs=[value("x", ("n", 3))]))
    with pytest.raises(ArtifactError, match="WEFT-E0706"):
        made.export(tmp_path / "model.o")


def test_executables_write_the_same_each_time(tmp_path) -> None:
    for name in ("one", "two"):
        Executable(chain()).export(tmp_path / f"{name}.o", header=tmp_path / f"{name}.h")
    assert (tmp_path / "one.o").read_bytes() == (tmp_path / "two.o").read_bytes()
    assert (tmp_path / "one.h").read_text() == (tmp_path / "two.h").read_text()
