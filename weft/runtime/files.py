"""Writing a file so that nobody ever sees half of it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

TEMPORARY = ".weft-tmp-"  # prefix of the names that a killed process may leave behind


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
