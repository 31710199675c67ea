"""Streams of accelerators as files: ``NAME.bin``, ``NAME.image``, and ``NAME.json`` about both."""

from __future__ import annotations

from pathlib import Path

from weft.accel.artifact import Artifact
from weft.accel.machines.named import machine_named
from weft.accel.manifest import artifact_of, files_of, read_manifest
from weft.ir.accelerator import Accelerator
from weft.ir.errors import ArtifactError
from weft.runtime.files import open_file, write_atomically


def write_stream(artifact: Artifact, path: str | Path) -> tuple[Path, Path, Path]:
    """``artifact`` as three files: the raw stream at ``path``, beside it the manifest (``.json``)
    and the image of main memory (``.image``), in this order.

    Raises ``ArtifactError`` (WEFT-E1026) where they cannot be written, ``StreamError``
    (WEFT-E1002) for instructions that have no encoding.
    """
    stream, manifest, image = _paths(Path(path))
    code, memory, text = files_of(artifact, stream.name, image.name)
    try:
        for each, data in ((stream, code), (image, memory), (manifest, text)):
            write_atomically(each, [data])
    except OSError as error:
        raise ArtifactError("WEFT-E1026", f"cannot write {stream}", why=str(error)) from None
    return stream, manifest, image


def read_stream(path: str | Path, machine: Accelerator | None = None) -> Artifact:
    """The artifact whose stream, or whose manifest, is ``path``.

    For ``machine``, or for the one of Weft's that the manifest names. Raises ``ArtifactError``
    (WEFT-E1024: cut off, corrupt; WEFT-E1025: for another machine; WEFT-E1026: no such file),
    ``StreamError`` (WEFT-E1003, WEFT-E1004) and ``CompileError`` (WEFT-E1010, WEFT-E1023).
    """
    stream, manifest, _ = _paths(Path(path))
    try:
        described = read_manifest(_read(manifest))
        if Path(path) == manifest:
            stream = _beside(manifest, described.stream.file)
        image = _beside(manifest, described.image.file)
        code, memory = _read(stream), _read(image)
    except (OSError, ValueError) as error:
        raise ArtifactError(
            "WEFT-E1026",
            f"cannot read {path}",
            why=str(error),
            hint="a stream is three files: NAME.bin, NAME.json and NAME.image",
        ) from None
    return artifact_of(described, code, memory, machine, machine_named)


def _read(path: Path) -> bytes:
    with open_file(path) as file:
        return file.read()


def _beside(manifest: Path, name: str) -> Path:
    if Path(name).name != name:
        raise ArtifactError(
            "WEFT-E1024", f"{name!r} is no file beside its manifest", where=str(manifest)
        )
    return manifest.parent / name


def _paths(path: Path) -> tuple[Path, Path, Path]:
    """Of the stream, the manifest and the image."""
    if path.suffix in (".json", ".image"):
        path = path.with_suffix(".bin")
    return path, path.with_suffix(".json"), path.with_suffix(".image")
