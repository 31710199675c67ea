"""Streams come back from their files as they were, and nothing else comes back at all."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weft.accel.artifact import Artifact, Layout, Placed
from weft.accel.machines.vta import Config, vta
from weft.ir.accelerator import Queue
from weft.ir.dtypes import i8, i32
from weft.ir.errors import ArtifactError, CompileError, StreamError, WeftError
from weft.ir.instruction_stream import Issue, Stream, decode
from weft.offload.stream_files import read_stream, write_stream

BLOCK_32 = vta(Config(log_block=5))


def artifact(machine: Any = BLOCK_32) -> Artifact:
    issues = (Issue("load_inp", {"x_size": 3, "y_size": 1, "push_next": 1}), Issue("finish", {}))
    stream = Stream(machine, issues)
    tensors = (
        Placed("x", "input", i8, Layout((1, 3, 5), ((0, 2), (1, 16)), (1, 0, 2)), 0),
        Placed("y", "output", i32, Layout((4,)), 160),
    )
    return Artifact(stream, np.arange(200, dtype=np.uint8), tensors)


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    given = artifact()
    paths = write_stream(given, tmp_path / "s.bin")
    assert [path.name for path in paths] == ["s.bin", "s.json", "s.image"]
    assert paths[0].read_bytes() == given.stream.encode()  # raw
    assert paths[2].read_bytes() == given.image.tobytes()
    for path in (paths[0], paths[1], str(paths[0])):
        found = read_stream(path)
        assert found.stream.accelerator.configuration == BLOCK_32.configuration
        assert found.stream == decode(found.stream.accelerator, given.stream.encode())
        assert found.tensors == given.tensors
        np.testing.assert_array_equal(found.image, given.image)
        found.image[0] = 1  # is writable
    assert read_stream(paths[0], BLOCK_32).stream.accelerator is BLOCK_32


def changed(path: Path, *keys: Any, to: Any) -> None:
    whole = data = json.loads(path.read_text())
    for key in keys[:-1]:
        data = data[key]
    data[keys[-1]] = to
    path.write_text(json.dumps(whole))


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


CORRUPT: list[tuple[str, Any, str]] = [
    ("s.bin", lambda p: p.write_bytes(p.read_bytes()[:-1]), "E1024: the stream s.bin has 31 bytes"),
    ("s.bin", lambda p: flip(p, 3), "E1024: the stream s.bin is not the one"),
    ("s.image", lambda p: p.write_bytes(b""), "E1024: the image s.image has 0 bytes"),
    ("s.image", lambda p: flip(p, 199), "E1024: the image s.image is not the one"),
    ("s.json", lambda p: p.write_bytes(p.read_bytes()[:-9]), "E1024: the manifest is no manifest"),
    ("s.json", lambda p: p.write_bytes(b"[" * 100_000), "E1024: the manifest is no manifest"),
    ("s.json", lambda p: p.write_bytes(b"\xff"), "E1024: the manifest is no manifest"),
    ("s.json", lambda p: changed(p, "version", to=2), "E1024.*version 2"),
    ("s.json", lambda p: changed(p, "other", to=2), "E1024.*\n.*unknown field `other`"),
    ("s.json", lambda p: changed(p, "instructions", to=3), "E1024: the stream has 2 instructions"),
    ("s.json", lambda p: changed(p, "image", "file", to="../s.image"), "E1024: '../s.image'"),
    ("s.json", lambda p: changed(p, "tensors", 0, "dtype", to="int9"), "E1024: .*places tensors"),
    ("s.json", lambda p: changed(p, "tensors", 0, "shape", to=[1 << 62] * 3), "E1024: .*places"),
    ("s.json", lambda p: changed(p, "tensors", 0, "shape", to=[1] * 40), "E1024: .*places"),
    ("s.json", lambda p: changed(p, "tensors", 1, "address", to=185), "E1024: .*places"),
    ("s.json", lambda p: changed(p, "tensors", 1, "role", to="other"), "E1024: .*no manifest"),
    ("s.json", lambda p: changed(p, "machine", "name", to="other"), "E1023: no machine is known"),
    ("s.json", lambda p: changed(p, "machine", "configuration", "log_block", to=4),
     "E1025: the stream is for another configuration"),
    ("s.json", lambda p: changed(p, "machine", "configuration", "log_block", to=99),
     "E1010: no VTA configuration: LOG_BLOCK = 99"),
    ("s.json", lambda p: changed(p, "machine", "configuration", "other", to=1),
     "E1023: no configuration of vta"),
    ("s.json", lambda p: p.unlink(), "E1026: cannot read"),
    ("s.image", lambda p: p.unlink(), "E1026: cannot read"),
    ("s.image", lambda p: (p.unlink(), os.mkfifo(p)), "E1026: cannot read"),
    ("s.json", lambda p: (p.unlink(), os.mkfifo(p)), "E1026: cannot read"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "message"), CORRUPT)
def test_what_is_no_artifact(tmp_path: Path, name: str, change: Any, message: str) -> None:
    write_stream(artifact(), tmp_path / "s.bin")
    change(tmp_path / name)
    with pytest.raises(WeftError, match=f"WEFT-{message}") as caught:
        read_stream(tmp_path / "s.bin")
    assert isinstance(caught.value, ArtifactError | CompileError)


def test_bits_flipped_anywhere(tmp_path: Path) -> None:
    """Are always found, but for those in the manifest that mean nothing."""
    given = artifact()
    for path in write_stream(given, tmp_path / "s.bin"):
        whole = path.read_bytes()
        for at in range(0, len(whole), 7):
            flip(path, at)
            try:
                found = read_stream(tmp_path / "s.bin")
            except (ArtifactError, StreamError, CompileError):
                pass
            else:
                assert path.suffix == ".json"
                np.testing.assert_array_equal(found.image, given.image)
            path.write_bytes(whole)


def test_other_machines(tmp_path: Path) -> None:
    path, _, _ = write_stream(artifact(), tmp_path / "s.bin")
    with pytest.raises(ArtifactError, match=r"WEFT-E1025: .*\n.*log_block is 5 in .*, 4 here"):
        read_stream(path, vta())
    slow = replace(BLOCK_32, queues=tuple(Queue(q.name, 3) for q in BLOCK_32.queues))
    with pytest.raises(ArtifactError, match=r"WEFT-E1025: .*\n.*memories, queues"):
        read_stream(path, slow)
    with pytest.raises(ArtifactError, match="WEFT-E1025: the stream is for 'vta', not for 'other'"):
        read_stream(path, replace(BLOCK_32, name="other"))


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="WEFT-E1026: cannot write"):
        write_stream(artifact(), tmp_path / "none" / "s.bin")
