"""Nothing is collected while a program is compiled; afterwards all is as it was."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

import weft
from weft.driver.garbage import uncollected


@pytest.fixture(params=[True, False])
def enabled(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether the caller has the collector on."""
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


def test_nothing_is_collected_inside(enabled: bool) -> None:
    with uncollected():
        assert not gc.isenabled()
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled() == enabled


def test_an_error_ends_it(enabled: bool) -> None:
    with pytest.raises(ZeroDivisionError), uncollected():
        raise ZeroDivisionError
    assert gc.isenabled() == enabled


def test_the_last_thread_ends_it(enabled: bool) -> None:
    begun, go = threading.Event(), threading.Event()

    def other() -> None:
        with uncollected():
            begun.set()
            go.wait()

    thread = threading.Thread(target=other)
    thread.start()
    with uncollected():
        begun.wait()
    assert not gc.isenabled()
    go.set()
    thread.join()
    assert gc.isenabled() == enabled


def test_programs_are_compiled_so(enabled: bool) -> None:
    seen = []

    def noted(schedule: weft.Schedule, *_: object) -> weft.Schedule:
        seen.append(gc.isenabled())
        return schedule

    x = weft.placeholder((3,), "float32", name="x")
    y = weft.compute((3,), lambda i: x[i] + 1.0, name="y")
    weft.compile(y, options=weft.Options(seeds=(noted,)))
    assert seen == [False]
    assert gc.isenabled() == enabled
