"""Random programs on a GPU; a thousand of them before a release: ``fuzz.py --launches``."""

from __future__ import annotations

from collections import Counter

from tests.properties.launches import examine


def test_none_is_wrong_and_few_are_refused() -> None:
    outcomes = [examine(seed) for seed in range(60)]
    assert [o.problem for o in outcomes if o.problem] == []
    kinds = Counter(outcome.kind.split(":")[0] for outcome in outcomes)
    notes = sum((outcome.notes for outcome in outcomes), Counter())
    assert kinds["right"] > 50 and notes["grid"] > 30 and notes["block"] > 30
