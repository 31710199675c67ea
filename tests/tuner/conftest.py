"""Tuning at once: trials in this process, a few in a turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from tests.tuner.stubs import Inside
from weft.driver.options import Options
from weft.tuner import search, session, trial
from weft.tuner import tune as tuning


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> Inside:
    """Where ``weft.tune`` runs its jobs in this test."""
    place = Inside()

    @contextmanager
    def here(options: Options) -> Iterator[Inside]:
        yield place

    monkeypatch.setattr(tuning, "here", here)
    monkeypatch.setattr(search, "DRAFTED", 6)
    monkeypatch.setattr(search, "VERIFIED", 3)
    monkeypatch.setattr(session, "LONGEST", 0.05)
    return place


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock by which every program is twice as fast as the first: plans are what is tested."""

    def taken(sets: Sequence[trial._Set], seconds: float) -> list[list[float]]:
        others = len(sets[0].calls) - 1
        return [[2e-3] * 5, *([1e-3] * 5 for _ in range(others))]

    monkeypatch.setattr(trial, "_taken", taken)
