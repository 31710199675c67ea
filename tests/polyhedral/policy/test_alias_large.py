"""Which temporaries are kept in results: those that a cache does not hold."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.polyhedral.transform.integer_programs import promise, read
from weft.ir.machine import Cache, Machine
from weft.polyhedral.schedule_loops import schedule_loops

ROWS, STRIP = 24, 64  # columns of one iteration of the loop around
HELD = ROWS * STRIP * 8  # bytes of e in one
CACHES = (Cache(HELD - 1), Cache(HELD), Cache(1 << 20))
COLUMNS = """
    for i in range({n}):
        top[i] = 0
    for k in range({rows}):
        for i in range({n}):
            top[i] += X[k, i]
    for k in range({rows}):
        for i in range({n}):
            e[k, i] = (X[k, i] + 1) * (X[k, i] + 2) * top[i]
    for i in range({n}):
        s[i] = 0
    for k in range({rows}):
        for i in range({n}):
            s[i] += e[k, i]
    for k in range({rows}):
        for i in range({n}):
            Y[{at}] = {value}
"""


def kept_in(
    n: int = 257,
    *,
    at: str = "k, i",
    value: str = "e[k, i] - s[i]",
    y: str = f"io {ROWS} N",
    caches: Sequence[Cache] = CACHES,
) -> list[str]:
    """The steps that keep a temporary in a result; what the schedule computes is compared."""
    text = COLUMNS.format(n=n, rows=ROWS, at=at, value=value)
    whole = f"{ROWS} {n}"
    scop = read(text, "", X=f"in {whole}", Y=y.replace("N", str(n)), e=f"tmp {whole}",
                top=f"tmp {n}", s=f"tmp {n}")  # fmt: skip
    now = schedule_loops(scop, Machine("m", 64, 32, tuple(caches)))
    promise(now, {})
    assert any(loop.kind == "vector" for loop in now.loops())
    return [str(step) for step in now.steps if step.name == "alias"]


@pytest.mark.parametrize("n", [256, 257, 521])
def test_what_the_first_cache_does_not_hold(n: int) -> None:
    assert kept_in(n) == ['alias("e", "Y")']
    assert kept_in(n, caches=(Cache(HELD), *CACHES[1:])) == []


def test_where_results_stream_the_second_cache_decides() -> None:
    small = Cache(2 * HELD)  # less than X and Y
    assert kept_in(caches=(*CACHES[:2], small)) == []
    assert kept_in(caches=(CACHES[0], CACHES[0], small)) == ['alias("e", "Y")']


@pytest.mark.parametrize(
    "value",
    ["e[k, i] - s[i] + Y[k, i]", f"e[k, i] - e[{ROWS - 1} - k, i]"],
)
def test_results_that_are_not_free(value: str) -> None:
    assert kept_in(value=value) == []
