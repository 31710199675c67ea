"""Correct scheduled programs broken on purpose: all that matters is refused."""

from __future__ import annotations

from random import Random

import pytest

from tests.properties.examine import Effort, examine_pair
from tests.properties.mutations import Report, mutate
from tests.properties.scheduled_programs import CASES, case

EVERY = 9  # ``python -m tests.properties.mutations`` takes them all


@pytest.mark.parametrize("name", CASES)
def test_unbroken(name: str) -> None:
    outcome = examine_pair(case(name), Random(0), Effort(0, 1, 1, 0))
    assert outcome.kind.startswith("legal") and not outcome.problem, outcome


@pytest.mark.parametrize("name", CASES)
def test_mutants_are_refused(name: str) -> None:
    report = Report()
    mutate(name, report, EVERY, begin=len(name) % EVERY)
    assert not report.missed, report.missed
    assert sum(report.caught.values()) >= 3, report.text()


def test_a_missed_mutant_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.properties.mutations.refusal", lambda pair: None)
    report = Report()
    mutate("wavefront", report, 2)
    assert len(report.missed) > 5 and not report.caught
