from __future__ import annotations

import os
import platform
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.properties.alarm import alarm
from tests.weft.compiled_examples import chain, transpose, update
from weft.codegen.llvm.target import host_target
from weft.codegen.machines.host import host_processor
from weft.ir.errors import ArtifactError
from weft.ir.scalar_expr import Var, apply, select
from weft.runtime import artifact, compiled
from weft.runtime.compiled import Compiled
from weft.runtime.executable import Executable, load

n = Var("n")


def encoded(compiled: Compiled, **options: bool) -> bytes:
    return b"".join(bytes(piece) for piece in artifact.encode(compiled, **options))


def decoded(data: bytes) -> Compiled:
    return artifact.decode(memoryview(data), "memory")


CONSTANTS = (
    ("weights", np.arange(12, dtype=np.float32).reshape(3, 4)),
    ("nothing", np.zeros((0, 5), np.int64)),
    ("scalar", np.array(3, np.int8)),
    ("half", np.array([1.5, -2], ml_dtypes.bfloat16)),
    ("tiny", np.array([[1, -2]], ml_dtypes.int4)),
    ('odd "name"\n', np.array([True, False])),
    ("turned", np.arange(6, dtype=np.float64).reshape(2, 3).T),
)


def test_everything_survives() -> None:
    tricky = select(n.equal(3) | ~(n < 7), (n * 4 + 63) // 64, apply("min", n % 5, -n))
    original = replace(
        transpose(), constants=CONSTANTS, derived=(("mn", tricky),), checks=((), ("a", "b")),
        certificate=b"what was proved",
    )  # fmt: skip
    copy = decoded(encoded(original))
    for field in Compiled.__dataclass_fields__:
        if field not in ("constants", "texts", "stats", "explain"):
            assert getattr(copy, field) == getattr(original, field), field
    assert copy.explain() == original.explain() == "nothing was fused"
    assert dict(copy.texts) == dict(original.texts)
    assert dict(copy.stats) == {"kernels": 1, "share": 0.25}
    for (name, array), (expected_name, expected) in zip(copy.constants, CONSTANTS, strict=True):
        assert name == expected_name and array.dtype == expected.dtype
        np.testing.assert_array_equal(array, expected)
    assert decoded(encoded(update(True))).in_place == update(True).in_place


def test_certificates_may_be_left_out() -> None:
    whole = replace(chain(), certificate=b"what was proved")
    assert decoded(encoded(whole, certificate=False)).certificate == b""
    assert decoded(encoded(whole, texts=False)).certificate == whole.certificate


def test_the_same_program_gives_the_same_bytes() -> None:
    assert encoded(chain()) == encoded(chain())


def test_constants_are_mapped_read_only_and_aligned(tmp_path: Path) -> None:
    path = tmp_path / "a.weft"
    artifact.write(replace(chain(), constants=CONSTANTS), path)
    for _, array in artifact.read(path).constants:
        assert array.ctypes.data % 64 == 0
        assert not array.flags.writeable and not array.flags.owndata


def test_written_atomically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.weft"
    artifact.write(chain(), path)
    before = path.read_bytes()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        artifact.write(transpose(), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_are_the_users_usual_ones(tmp_path: Path) -> None:
    plain, path = tmp_path / "plain", tmp_path / "a.weft"
    plain.write_bytes(b"")
    artifact.write(chain(), path)
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_unwritable_and_unreadable_places(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="WEFT-E0700"):
        artifact.write(chain(), tmp_path / "no" / "folder" / "a.weft")
    for path in (tmp_path / "missing.weft", tmp_path):
        with pytest.raises(ArtifactError, match="WEFT-E0700"):
            artifact.read(path)
    (tmp_path / "empty.weft").touch()
    with pytest.raises(ArtifactError, match="WEFT-E0700"):
        artifact.read(tmp_path / "empty.weft")


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.weft")
    with alarm(5):
        for path in (tmp_path / "pipe.weft", Path("/dev/zero")):
            with pytest.raises(ArtifactError, match=r"WEFT-E0700.*\n.*\n.*not a regular file"):
                artifact.read(path)
    (tmp_path / "link.weft").symlink_to(tmp_path / "there.weft")
    artifact.write(chain(), tmp_path / "there.weft")
    assert artifact.read(tmp_path / "link.weft").name == chain().name


# ---- damage -------------------------------------------------------------------------------------

GOOD = encoded(replace(chain(), constants=CONSTANTS))


def test_every_flipped_bit_is_noticed() -> None:
    """One bit in every 37th byte, and in all of the first 600: prefix, header, blobs, padding."""
    for position in [*range(600), *range(600, len(GOOD), 37), len(GOOD) - 1]:
        data = bytearray(GOOD)
        data[position] ^= 1 << (position % 8)
        with pytest.raises(ArtifactError):
            decoded(bytes(data))


def test_every_truncation_is_noticed() -> None:
    for length in [*range(300), *range(300, len(GOOD), 101), len(GOOD) - 1]:
        with pytest.raises(ArtifactError):
            decoded(GOOD[:length])
    with pytest.raises(ArtifactError, match="WEFT-E0702"):
        decoded(GOOD + b"\0")


@settings(max_examples=300, derandomize=True)
@given(st.data())
def test_hostile_files_end_in_an_error_even_unchecked(data: st.DataObject) -> None:
    """With the checksum out of the way: bytes of the header replaced at random."""
    damaged = bytearray(GOOD)
    header = int.from_bytes(GOOD[16:24], "little")
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(64, 63 + header))
        damaged[position] = data.draw(st.integers(0, 255))
    try:
        found = artifact.decode(memoryview(bytes(damaged)), "memory", checked=True)
    except ArtifactError:
        return
    assert isinstance(found, Compiled)


def test_blobs_outside_the_file() -> None:
    from weft.runtime import artifact_header

    header = int.from_bytes(GOOD[16:24], "little")
    fields = msgspec.msgpack.decode(GOOD[64 : 64 + header])
    body = memoryview(GOOD)[64 + header :]
    for place in ([0, 1 << 40], [1 << 40, 8], [-64, 8], [0, -1]):
        fields["blobs"][0] = place
        with pytest.raises(artifact_header.MALFORMED):
            artifact_header.decode_header(memoryview(msgspec.msgpack.encode(fields)), body)


def test_other_formats_and_files() -> None:
    with pytest.raises(ArtifactError, match=r"WEFT-E0701.*no Weft artifact"):
        decoded(b"\x7fELF" + bytes(500))
    newer = bytearray(GOOD)
    newer[8] = 99
    with pytest.raises(ArtifactError, match=r"WEFT-E0703.*format 99, this Weft reads 5"):
        decoded(bytes(newer))


def saved_and_read(compiled: Compiled, folder: Path) -> Compiled:
    artifact.write(compiled, folder / "a.weft")
    return artifact.read(folder / "a.weft")


def test_another_processor(tmp_path: Path) -> None:
    target = host_target()
    better = replace(target, cpu="zen99", features=target.features + ",+quantum,-magic")
    with pytest.raises(ArtifactError, match=r"WEFT-E0705.*another processor \(zen99\)") as caught:
        saved_and_read(replace(chain(), target=better), tmp_path)
    assert "lacks quantum" in str(caught.value)
    other = replace(target, triple="vax-unknown-netbsd")
    with pytest.raises(ArtifactError, match="lacks vax-unknown-netbsd"):
        saved_and_read(replace(chain(), target=other), tmp_path)


def test_a_processor_of_the_same_words_needs_no_other_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading LLVM takes longer, and more memory, than all else."""
    target = host_target()
    unable = replace(chain(), target=replace(target, features=target.features + ",+quantum"))
    here = replace(unable, processor=host_processor())
    saved_and_read(here, tmp_path)  # the features are not even looked at
    for processor in ("", "of other words"):
        with pytest.raises(ArtifactError, match="lacks quantum"):
            saved_and_read(replace(here, processor=processor), tmp_path)
    monkeypatch.setattr(compiled, "host_processor", lambda: "")  # a system that does not tell
    saved_and_read(replace(chain(), processor=""), tmp_path)
    with pytest.raises(ArtifactError, match="lacks quantum"):
        saved_and_read(replace(unable, processor=""), tmp_path)


LOADING = """
import re, sys
from pathlib import Path
import numpy as np
import weft

program = weft.load(sys.argv[1])
print(program(np.arange(5, dtype=np.float32)).tolist())
packages = {"islpy", "llvmlite", "networkx", "onnx", "msgspec"}
print(*sorted(packages & set(sys.modules)))
print(re.search(r"RssFile:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""


def run_apart(path: Path) -> list[str]:
    """What a fresh process prints that loads the program and calls it."""
    command = [sys.executable, "-c", LOADING, str(path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="LLVM links elsewhere")
def test_loading_and_running_needs_no_compiler(tmp_path: Path) -> None:
    """Neither its packages nor the parts of a file of constants that the call does not read."""
    path, large = tmp_path / "a.weft", tmp_path / "large.weft"
    x = weft.placeholder((5,), weft.float32, name="x")
    program = weft.compile(weft.compute((5,), lambda i: x[i] * 2.0, name="y"))
    assert isinstance(program, Executable)
    program.save(path)
    unused = (("unused", np.ones(1 << 23)),)  # 64 MiB
    artifact.write(replace(program.compiled, constants=unused), large)
    small = run_apart(path)
    assert small[:2] == ["[0.0, 2.0, 4.0, 6.0, 8.0]", "msgspec"]
    assert int(run_apart(large)[2]) - int(small[2]) < 16 << 10  # KiB


def test_objects_that_cannot_be_linked(tmp_path: Path) -> None:
    path = tmp_path / "a.weft"
    for objects in ((b"no object",), chain().objects[:1]):
        artifact.write(replace(chain(), objects=objects), path)
        with pytest.raises(ArtifactError, match="WEFT-E0704"):
            load(path)


def test_a_loaded_program_outlives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "a.weft"
    Executable(chain()).save(path)
    run = load(path)
    path.unlink()
    np.testing.assert_array_equal(run(np.zeros(3, np.float32)), [6, 6, 6])
