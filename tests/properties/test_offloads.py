"""Random work for accelerators, a little of ``python -m tests.properties.fuzz --offloads``."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.properties import offloads
from tests.properties.offload_cases import random_case
from tests.properties.offloads import examine


@pytest.mark.long
def test_cases() -> None:
    kinds, notes = Counter[str](), Counter[str]()
    for seed in (5, 6, 7, 18):
        outcome = examine(seed)
        assert not outcome.problem, f"seed {seed}: {outcome.problem}"
        kinds[outcome.kind] += 1
        notes += outcome.notes
    assert kinds["compiled"] == 4 and notes["tokens left out"] >= 20, (kinds, notes)


def test_the_same_seed_is_the_same_case() -> None:
    one, other = random_case(11), random_case(11)
    assert one.text == other.text
    np.testing.assert_array_equal(one.expected, other.expected)


def test_wrong_results_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "array_equal", lambda one, two: False)
    assert "wrong result" in examine(5).problem


def test_tokens_that_nobody_misses_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offloads, "without", lambda artifact, ends: artifact)
    assert "nobody misses" in examine(5, dropped=1).problem


def test_crashes_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*given: Any, **named: Any) -> None:
        raise KeyError("x")

    monkeypatch.setattr(offloads, "offload", crash)
    assert examine(5).kind == "crash"
