"""Hostile programs and schedules, a few of ``python -m tests.properties.fuzz --hostile``."""

# Loop kernels are read as text, and not run by Python as they stand.
# ruff: noqa: F821, UP037

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import weft
from tests.properties import hostile
from tests.properties.hostile import examine
from weft.ir.errors import IllegalScheduleError


def test_programs() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(60):
        outcome = examine(seed)
        assert not outcome.problem, f"seed {seed}: {outcome.problem}"
        kinds[outcome.kind] += 1
    assert kinds["compiled"] > 10 and len(kinds) > 4, kinds


def test_wrong_results_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "array_equal", lambda one, two: False)
    assert any("wrong result" in examine(seed).problem for seed in range(8))


def test_crashes_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*given: object, **named: object) -> None:
        raise KeyError("S0")

    monkeypatch.setattr(hostile, "_kernel", crash)
    assert examine(0).kind == "crash"


@weft.kernel
def never(A: weft.i64["N"]):
    for i in range(3, 3):
        A[i] = A[i] // 2


@weft.kernel
def total(A: weft.i64["N"], s: weft.i64[1]):
    for i in range(N):
        s[0] += A[i]


def test_an_array_that_nothing_writes_after_all() -> None:
    A = np.arange(5)
    never.compile(options=weft.Options(cache=False, threads=2))(A)
    np.testing.assert_array_equal(A, np.arange(5))


def test_tiles_of_tiles_beyond_64_bits() -> None:
    with pytest.raises(IllegalScheduleError, match="size is 4611686018427387904"):
        weft.schedule(total).split("i", 1 << 62)
    tiled = weft.schedule(total).split("i", 1 << 31)
    with pytest.raises(IllegalScheduleError, match="does not fit 64 bits"):
        tiled.split("i_t", 1 << 31)
    s = np.zeros(1, np.int64)
    tiled.compile()(np.arange(5), s)
    assert s[0] == 10
