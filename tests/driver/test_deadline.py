"""A deadline ends what runs too long, in whichever thread, and nothing else."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from weft.driver import deadline
from weft.driver.deadline import TooLong, within

LONG = 3600.0  # seconds that no test takes


def endless() -> None:
    while True:
        pass


def late() -> str:
    try:
        within(0.05, endless)
    except TooLong:
        return "ended"
    return "went on"


def wait_for_watchers() -> None:
    """They interrupt nobody meanwhile, and end."""
    while any(thread.name == "weft-deadline" for thread in threading.enumerate()):
        time.sleep(0.001)


def test_what_does_not_end_is_ended() -> None:
    assert late() == "ended"


def test_in_other_threads_as_well() -> None:
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda _: late(), range(4))) == ["ended"] * 4


def test_what_ends_in_time_is_left_alone() -> None:
    for seconds in (LONG, 1e300):
        assert within(seconds, lambda: sum(range(1000))) == 499500
    assert within(LONG, dict) == {}
    wait_for_watchers()


def test_errors_of_the_body_are_its_own() -> None:
    with pytest.raises(ZeroDivisionError) as found:
        within(LONG, lambda: 1 / 0)
    assert found.traceback[-1].name == "<lambda>"


def test_one_within_another() -> None:
    with pytest.raises(TooLong):
        within(0.05, lambda: within(LONG, endless))
    assert within(LONG, late) == "ended"


def test_who_goes_on_is_interrupted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "AGAIN", 0.01)
    interrupted = []

    def stubborn() -> None:
        for _ in range(3):
            try:
                endless()
            except TooLong:
                interrupted.append(True)
        endless()

    with pytest.raises(TooLong):
        within(0.01, stubborn)
    assert len(interrupted) == 3


def test_nothing_is_interrupted_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies that end about when time is up, or before they begin."""
    monkeypatch.setattr(deadline, "AGAIN", 0.0001)
    for seconds in (0.0, 0.0001, 0.0005, 0.002) * 75:
        with suppress(TooLong):
            assert within(seconds, lambda: sum(range(5000))) == 12497500
        sum(range(5000))
    wait_for_watchers()
