"""Run a function in a forked child under hard limits on memory and processor time."""

from __future__ import annotations

import os
import resource
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

MEMORY = 1 << 30  # bytes beyond what the process has already
SECONDS = 10  # of processor time; a hang ends here


def limited(function: Callable[[], str]) -> str:
    """What ``function`` returns, or how it died: an exception's type and text, or a signal."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        status = 1
        try:
            _limit()
            answer = function()
            status = 0
        except BaseException:
            answer = traceback.format_exc()
        with os.fdopen(write, "w", errors="backslashreplace") as pipe:
            pipe.write(answer[-100_000:])
        os._exit(status)
    os.close(write)
    with os.fdopen(read) as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"killed by signal {os.WTERMSIG(status)}"
    return answer


def _limit() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
