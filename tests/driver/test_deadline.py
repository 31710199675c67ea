"""A deadline ends what runs too long, in whichever thread, and nothing else."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from weft.driver.deadline import TooLong, deadline

LONG = 3600.0  # seconds that no test takes


def endless() -> None:
    while True:
        pass


def late() -> str:
    try:
        with deadline(0.05):
            endless()
    except TooLong:
        return "ended"
    return "went on"


def test_what_does_not_end_is_ended() -> None:
    assert late() == "ended"


def test_in_other_threads_as_well() -> None:
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda _: late(), range(4))) == ["ended"] * 4


def test_what_ends_in_time_is_left_alone() -> None:
    before = threading.active_count()
    for seconds in (LONG, 1e300):
        with deadline(seconds):
            found = sum(range(1000))
        assert found == 499500
    assert threading.active_count() == before


def test_errors_of_the_body_are_its_own() -> None:
    with pytest.raises(ZeroDivisionError), deadline(LONG):
        1 / 0  # noqa: B018


def test_one_within_another() -> None:
    with pytest.raises(TooLong), deadline(0.05), deadline(LONG):
        endless()
    with deadline(LONG):
        assert late() == "ended"


def test_nothing_is_raised_behind_it() -> None:
    """Bodies that end about when time is up."""
    for _ in range(300):
        with suppress(TooLong), deadline(0.0005):
            sum(range(5000))
        sum(range(5000))
