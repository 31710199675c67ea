"""Code of others in a process of its own, which may die or hang: what it says is heard."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any

from weft.ir.errors import ProviderError

_CHUNK = 1 << 16
_WHY = "!"  # begins a line that is no JSON: the error that ends the process
Say = Callable[[Any], None]  # what JSON can say


def watched(action: Callable[[Say], object], hear: Say, patience: float) -> None:
    """``action`` in a copy of this process: ``hear`` gets what it says, in order.

    Raises ``ProviderError``: WEFT-E1511 where the process ends before ``action`` does, E1512 where
    it has been silent for ``patience`` seconds, and is killed. Where there can be no copies, on
    Windows, ``action`` runs here.
    """
    if not hasattr(os, "fork"):
        action(hear)
        return
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        _act(action, writes)
    os.close(writes)
    status = None
    try:
        why = _listen(reads, hear, patience)
        status = _end_of(child, patience)
    finally:
        os.close(reads)
        if status is None:  # it hangs, or nobody wants the rest
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    if status != 0:
        names = {each.value: each.name for each in signal.Signals}
        how = f"exit code {status}" if status > 0 else names.get(-status, f"signal {-status}")
        raise ProviderError("WEFT-E1511", f"the process ended by {how}", why=why)


def _act(action: Callable[[Say], object], pipe: int) -> None:
    """``action`` in the copy, which ends here."""
    code = 1
    try:
        action(lambda message: _write(pipe, json.dumps(message).encode() + b"\n"))
        code = 0
    except Exception as error:
        _write(pipe, f"{_WHY}{error!r}".replace("\n", " ").encode() + b"\n")
    finally:
        os._exit(code)


def _write(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]


def _listen(pipe: int, hear: Say, patience: float) -> str:
    """Lines from ``pipe`` until it is closed; the error that ended it, '' where none did."""
    begun, why = b"", ""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while True:
        if not poll.poll(patience * 1000):
            raise _silent(patience)
        data = os.read(pipe, _CHUNK)
        *lines, begun = (begun + data).split(b"\n")
        for line in lines:
            if line.startswith(_WHY.encode()):
                why = line.decode().removeprefix(_WHY)
            else:
                hear(json.loads(line))
        if not data:
            return why


def _end_of(child: int, patience: float) -> int:
    """Its exit code, minus the number of the signal that ended it."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    raise _silent(patience)


def _silent(patience: float) -> ProviderError:
    return ProviderError("WEFT-E1512", f"the process was silent for {patience:g} s")
