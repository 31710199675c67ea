"""Writing a file so that nobody ever sees half of it; reading what is a file and nothing else."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

TEMPORARY = ".weft-tmp-"  # prefix of the names that a killed process may leave behind


def folder_named(name: str) -> Path:
    """The folder of an option or a variable, which no shell has looked at: ~ is the user's own."""
    return Path(os.path.expanduser(name))


def write_atomically(
    path: Path, chunks: Iterable[bytes | memoryview], *, mode: int = 0o666, sync: bool = False
) -> None:
    """Write beside ``path`` and rename over it; on any exception (Ctrl-C too) nothing is left.

    ``mode`` is subject to the umask. ``sync``: the data survive a power cut once this returns.
    Raises ``OSError``.
    """
    with written_beside(path, chunks, mode=mode, sync=sync) as temporary:
        os.replace(temporary, path)


@contextmanager
def written_beside(
    path: Path, chunks: Iterable[bytes | memoryview], *, mode: int = 0o666, sync: bool = False
) -> Iterator[Path]:
    """A file with these ``chunks`` in the folder of ``path``, to be renamed over it; gone at the
    end if it was not. Raises ``OSError``."""
    temporary = path.parent / f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}"
    try:
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
        with os.fdopen(descriptor, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def open_file(path: Path, *, links: bool = True) -> BinaryIO:
    """``path`` to read from; ``OSError`` unless it is a regular file, by ``links`` or by itself.

    Nobody waits for the writer of a pipe, and no device does what it does when it is opened.
    """
    follow = 0 if links else getattr(os, "O_NOFOLLOW", 0)
    file = open(path, "rb", opener=partial(_open_now, follow))  # noqa: SIM115 (the caller's)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path} is not a regular file")
    return file


def _open_now(more: int, path: str, flags: int) -> int:
    return os.open(path, flags | more | getattr(os, "O_NONBLOCK", 0))
