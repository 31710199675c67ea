"""What a process of its own says is heard, however it ends."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from weft.ir.errors import ProviderError
from weft.tuner.watched import watched

Say = Callable[[Any], None]


def test_what_is_said_comes_in_order_and_whole() -> None:
    heard: list[Any] = []
    long = "x" * 300_000  # more than a pipe holds

    def action(say: Say) -> None:
        for k in range(50):
            say([k, long if k == 7 else {"seconds": 1e-9 * k}])

    watched(action, heard.append, 10.0)
    assert [message[0] for message in heard] == list(range(50))
    assert heard[7][1] == long and heard[8][1] == {"seconds": 8e-9}


def test_nothing_of_it_happens_here() -> None:
    changed: list[int] = []
    watched(lambda say: changed.append(1), print, 10.0)
    assert changed == []


@pytest.mark.parametrize(
    ("end", "what"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "the process ended by SIGSEGV"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "the process ended by SIGKILL"),
        (lambda: os._exit(3), "the process ended by exit code 3"),
        (lambda: 1 // 0, "the process ended by exit code 1"),
    ],
)
def test_how_it_ended(end: Callable[[], object], what: str) -> None:
    heard: list[Any] = []

    def action(say: Say) -> None:
        say("alive")
        end()

    with pytest.raises(ProviderError, match="WEFT-E1511") as caught:
        watched(action, heard.append, 10.0)
    assert caught.value.what == what and heard == ["alive"]
    assert ("ZeroDivisionError" in caught.value.why) == what.endswith("exit code 1")


@pytest.mark.parametrize("closed", [False, True])
def test_one_that_hangs_is_killed(closed: bool) -> None:
    heard: list[int] = []

    def action(say: Say) -> None:
        say(os.getpid())
        if closed:
            os.closerange(3, 100)  # its pipe, too
        time.sleep(1000)

    with pytest.raises(ProviderError, match="WEFT-E1512"):
        watched(action, heard.append, 0.2)
    with pytest.raises(ProcessLookupError):
        os.kill(heard[0], 0)


def test_whoever_stops_listening_ends_it() -> None:
    heard: list[int] = []

    def hear(pid: int) -> None:
        heard.append(pid)
        raise KeyboardInterrupt

    def action(say: Say) -> None:
        say(os.getpid())
        time.sleep(1000)

    with pytest.raises(KeyboardInterrupt):
        watched(action, hear, 10.0)
    with pytest.raises(ProcessLookupError):
        os.kill(heard[0], 0)
