"""One file that holds a compiled program: typed header, raw aligned blobs, one checksum.

    0   8  magic
    8   4  format version            (integers little-endian)
    12  4  zero
    16  8  bytes of the header
    24  8  bytes of the file
    32 32  SHA-256 of everything but this field
    64     header (msgpack, ``artifact_header``), then blobs, each at a multiple of 64

The thread pool's code is one of the blobs, so that nothing is compiled to run a program; another is
the certificate (``certificate``), which only ``weft check`` reads. Constants
are mapped, not read: processes that load one artifact share its weights. Object code is native
code, so an artifact must be trusted like a shared library; the checksum finds accidents, not
attacks. Nothing in the file is ever evaluated, unpickled or used as a path.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from weft.codegen.llvm.target import host_target
from weft.ir.errors import ArtifactError
from weft.runtime.artifact_header import MALFORMED, decode_header, encode_header, pack_texts
from weft.runtime.compiled import Compiled, missing_here
from weft.runtime.files import open_file, write_atomically

MAGIC = b"\x89WEFT\r\n\x1a"
FORMAT = 5  # of this file, its certificate and the entry point's calling convention
ALIGNMENT = 64
_PREFIX = struct.Struct("<8sIIQQ32s")
_DIGEST_AT = 32
_PIECE = 1 << 20  # bytes of a file that are read at a time


def write(compiled: Compiled, path: Path, *, texts: bool = True, certificate: bool = True) -> None:
    """Save ``compiled`` at ``path``, atomically; ``ArtifactError`` where that cannot be written."""
    try:
        pieces = encode(compiled, texts=texts, certificate=certificate)
        write_atomically(path, pieces, sync=True)
    except OSError as error:
        raise ArtifactError(
            "WEFT-E0700", "the artifact cannot be written", where=str(path), why=str(error)
        ) from None


def read(path: Path) -> Compiled:
    """Map the artifact at ``path``; ``ArtifactError`` if unreadable, corrupt or for another CPU."""
    compiled = mapped(path)
    _check_processor(compiled, str(path))
    return compiled


def mapped(path: Path) -> Compiled:
    """The same for whatever CPU, to be looked at."""
    try:
        with open_file(path) as file:
            buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            checked = _verified(file)
    except (OSError, ValueError) as error:
        raise ArtifactError(
            "WEFT-E0700", "the artifact cannot be read", where=str(path), why=str(error)
        ) from None
    return decode(memoryview(buffer), str(path), checked=checked)


def _verified(file: BinaryIO) -> bool:
    """Whether the checksum of ``file`` is that of its contents.

    They are read in pieces: what a mapping reads stays in this process's memory, and a call may
    need little of it, a few rows of a table of words.
    """
    prefix = file.read(_PREFIX.size)
    if len(prefix) < _PREFIX.size:
        return False
    found = hashlib.sha256(prefix[:_DIGEST_AT])
    while piece := file.read(_PIECE):
        found.update(piece)
    return found.digest() == prefix[_DIGEST_AT:]


def encode(
    compiled: Compiled, *, texts: bool = True, certificate: bool = True
) -> Iterator[bytes | memoryview]:
    """The bytes of the artifact, in pieces (constants are not copied)."""
    packed, text_bytes = pack_texts(compiled) if texts else (b"", 0)
    constants = [np.ascontiguousarray(array) for _, array in compiled.constants]
    blobs: list[bytes | memoryview] = [
        *(a.reshape(-1).view(np.uint8).data for a in constants),
        *compiled.objects,
        compiled.pool,
        compiled.certificate if certificate else b"",
        packed,
    ]
    places: list[tuple[int, int]] = []
    end = 0
    for blob in blobs:
        places.append((end, len(blob)))
        end = _aligned(end + len(blob))
    header = encode_header(compiled, places, text_bytes)
    total = _PREFIX.size + _aligned(len(header)) + end
    pieces = [piece for blob in (header, *blobs) for piece in (blob, _padding(len(blob)))]
    digest = hashlib.sha256(_prefix(len(header), total, b"")[:_DIGEST_AT])
    for piece in pieces:
        digest.update(piece)
    yield _prefix(len(header), total, digest.digest())
    yield from pieces


def _prefix(header: int, total: int, digest: bytes) -> bytes:
    return _PREFIX.pack(MAGIC, FORMAT, 0, header, total, digest)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _padding(size: int) -> bytes:
    return b"\0" * (-size % ALIGNMENT)


def decode(buffer: memoryview, where: str, *, checked: bool = False) -> Compiled:
    """The program in ``buffer``, whose memory the constants share.

    ``checked``: the caller has verified a checksum of these bytes already.
    """
    header_bytes = _check(buffer, where, checked)
    header = buffer[_PREFIX.size : _PREFIX.size + header_bytes]
    try:
        return decode_header(header, buffer[_PREFIX.size + _aligned(header_bytes) :])
    except MALFORMED as error:
        raise ArtifactError(
            "WEFT-E0702", "the artifact is malformed", where=where, why=str(error)
        ) from None


def _check(buffer: memoryview, where: str, checked: bool) -> int:
    def refuse(code: str, what: str, why: str = "") -> ArtifactError:
        return ArtifactError(code, what, where=where, why=why)

    if len(buffer) < _PREFIX.size:
        raise refuse("WEFT-E0701", "this is no Weft artifact", f"it has {len(buffer)} bytes")
    magic, version, zero, header, total, digest = _PREFIX.unpack(buffer[: _PREFIX.size])
    if magic != MAGIC:
        raise refuse("WEFT-E0701", "this is no Weft artifact", "it starts with other bytes")
    if version != FORMAT:
        raise refuse(
            "WEFT-E0703",
            f"the artifact has format {version}, this Weft reads {FORMAT}",
            "save it again with this version",
        )
    if total != len(buffer) or zero or _PREFIX.size + header > total:
        raise refuse(
            "WEFT-E0702",
            "the artifact is damaged",
            f"it has {len(buffer)} bytes and should have {total}",
        )
    if not checked:
        found = hashlib.sha256(buffer[:_DIGEST_AT])
        found.update(buffer[_PREFIX.size :])
        if found.digest() != digest:
            raise refuse("WEFT-E0702", "the artifact is damaged", "its checksum does not match")
    return int(header)


def _check_processor(compiled: Compiled, where: str) -> None:
    """The machine here has everything that the code was compiled for."""
    missing = missing_here(compiled)
    if missing:
        raise ArtifactError(
            "WEFT-E0705",
            f"the artifact is for another processor ({compiled.target.cpu})",
            where=where,
            why=f"{host_target().cpu} lacks {', '.join(missing)}",
            hint="compile the model on this machine, or for a target whose code runs on both",
        )
