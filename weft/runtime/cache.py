"""Compiled programs kept between runs, in a folder that only their owner can write.

An entry is a file named after its key's SHA-256: the whole key, which is compared on a hit, and the
payload with its own checksum. Anything unexpected is a miss, and the entry is removed: a truncated
file, flipped bits, another format, a key that merely hashes alike, a pipe, a file that others own
or can write. Entries appear by renaming, so readers and writers in many processes need no lock. The
least recently used entries go first once the folder exceeds its limit.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import stat
import struct
import time
import warnings
from collections.abc import Iterable
from pathlib import Path

from platformdirs import user_cache_path

from weft.ir.errors import WeftWarning
from weft.runtime.files import TEMPORARY, folder_named, open_file, write_atomically

LIMIT = 4 << 30  # bytes
STALE = 3600.0  # seconds after which an unfinished file is taken for abandoned
_MAGIC = b"WEFTC\x01\r\n"
_PREFIX = struct.Struct("<8sQQ32s")  # magic, bytes of the key, bytes of the payload, its SHA-256
_ALIGNMENT = 64


class Cache:
    """Payloads by key in ``folder``, at most ``limit`` bytes. No method raises ``OSError``."""

    def __init__(self, folder: Path, limit: int = LIMIT) -> None:
        """Make ``folder`` (0700) if need be; ``PermissionError`` where others could write to it."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_private(os.stat(folder), str(folder))
        self.folder = folder
        self.limit = limit

    def path(self, key: bytes) -> Path:
        return self.folder / f"{hashlib.sha256(key).hexdigest()}.weft"

    def get(self, key: bytes) -> memoryview | None:
        """The payload stored under ``key``, mapped at a multiple of 64 bytes, or None."""
        path = self.path(key)
        try:
            payload = _read(path, key)
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            _remove(path)
            return None
        with contextlib.suppress(OSError):  # another process evicted it; the mapping stays
            os.utime(path)
        return payload

    def put(self, key: bytes, payload: Iterable[bytes | memoryview]) -> bool:
        """Store ``payload``; whether that worked (a full or read-only disk is no error)."""
        pieces = list(payload)
        size = sum(map(len, pieces))
        if size > self.limit:
            return False
        digest = hashlib.sha256()
        for piece in pieces:
            digest.update(piece)
        prefix = _PREFIX.pack(_MAGIC, len(key), size, digest.digest())
        padding = bytes(-(_PREFIX.size + len(key)) % _ALIGNMENT)
        try:
            write_atomically(self.path(key), [prefix, key, padding, *pieces], mode=0o600)
        except OSError:
            return False
        self.evict()
        return True

    def discard(self, key: bytes) -> None:
        """Forget ``key``: its payload proved useless."""
        _remove(self.path(key))

    def clear(self) -> None:
        """Remove every entry."""
        for path, _ in self._files():
            _remove(path)

    def size(self) -> int:
        """Bytes of all entries."""
        return sum(status.st_size for _, status in self._files())

    def evict(self) -> None:
        """Remove abandoned files, and the least recently used entries beyond the limit."""
        now = time.time()
        entries: list[tuple[float, str, int]] = []
        for path, status in self._files():
            if path.name.startswith(TEMPORARY):
                if now - status.st_mtime > STALE:
                    _remove(path)
            else:
                entries.append((status.st_mtime, str(path), status.st_size))
        excess = sum(size for *_, size in entries) - self.limit
        for _, name, size in sorted(entries):
            if excess <= 0:
                break
            _remove(Path(name))
            excess -= size

    def _files(self) -> list[tuple[Path, os.stat_result]]:
        found = []
        try:
            with os.scandir(self.folder) as listing:
                for entry in listing:
                    if entry.name.startswith(TEMPORARY) or entry.name.endswith(".weft"):
                        with contextlib.suppress(OSError):  # another process removed it
                            found.append((Path(entry.path), entry.stat(follow_symlinks=False)))
        except OSError:
            return []
        return found


def open_cache(folder: str | None = None, limit: int = LIMIT) -> Cache | None:
    """The cache in ``folder``, by default in the user's cache folder.

    None, with a warning, where it cannot be used safely.
    """
    try:
        return Cache(user_cache_path("weft") if folder is None else folder_named(folder), limit)
    except OSError as error:
        warnings.warn(
            f"WEFT-E0710: compiled programs are not kept: {error}", WeftWarning, stacklevel=2
        )
        return None


def _check_private(status: os.stat_result, name: str) -> None:
    if not stat.S_ISDIR(status.st_mode):
        raise PermissionError(f"{name} is not a folder")
    _check_ours(status, name)


def _check_ours(status: os.stat_result, name: str) -> None:
    """Nobody else has written, or can write, what is loaded into this process as code."""
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        raise PermissionError(f"{name} belongs to another user")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"{name} can be written by others: chmod go-w it")


def _read(path: Path, key: bytes) -> memoryview:
    """The payload of the entry at ``path``; ``ValueError`` where it is not that of ``key``."""
    with open_file(path, links=False) as file:
        status = os.fstat(file.fileno())
        _check_ours(status, str(path))
        if status.st_size < _PREFIX.size:
            raise ValueError("no entry")
        buffer = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    magic, key_bytes, size, digest = _PREFIX.unpack(buffer[: _PREFIX.size])
    start = _PREFIX.size + len(key)
    start += -start % _ALIGNMENT
    if magic != _MAGIC or key_bytes != len(key) or len(buffer) != start + size:
        raise ValueError("another format or length")
    if bytes(buffer[_PREFIX.size : start]) != key.ljust(start - _PREFIX.size, b"\0"):
        raise ValueError("another key")
    payload = buffer[start:]
    if hashlib.sha256(payload).digest() != digest:
        raise ValueError("damaged")
    return payload


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):  # gone already, or not ours to remove
        path.unlink()
