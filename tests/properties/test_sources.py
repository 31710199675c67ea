"""Random kernels from their text to machine code, a few of ``fuzz --sources``."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.properties import sources
from tests.properties.sources import examine


def test_kernels() -> None:
    kinds, notes = Counter[str](), Counter[str]()
    for seed in range(4):
        outcome = examine(seed)
        assert not outcome.problem, f"seed {seed}: {outcome.problem}"
        kinds[outcome.kind] += 1
        notes += outcome.notes
    assert kinds["compiled"] == 4 and notes["calls"] > 16, (kinds, notes)


def test_wrong_results_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_compiled", lambda *_: lambda **given: None)
    assert "wrong result" in examine(0).problem


def test_crashes_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*given: object) -> None:
        raise KeyError("S0")

    monkeypatch.setattr(sources, "_compiled", crash)
    assert examine(0).kind == "crash"
