"""Writing a file so that nobody ever sees half of it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

TEMPORARY = ".weft-tmp-"  # prefix of the names that a killed process may leave behind


def write_atomically(
    path: Path, chunks: Iterable[bytes | memoryview], *, mode: int = 0o666, sync: bool = False
) -> None:
    """Write beside ``path`` and rename over it; on any exception (Ctrl-C too) nothing is left.

    ``mode`` is subject to the umask. ``sync``: the data survive a power cut once this returns.
    Raises ``OSError``.
    """
    temporary = path.parent / f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}"
    try:
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
        with os.fdopen(descriptor, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
