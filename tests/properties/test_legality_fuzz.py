"""Random Scops × random schedules: legal exactly if every conflicting pair keeps its order.

``python -m tests.properties.fuzz`` runs more of them.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.properties.fuzz import disagreement

PAIRS = 300
_PARTS = 6


@pytest.mark.parametrize("part", range(_PARTS))
def test_verdict_is_that_of_enumeration(part: int) -> None:
    kinds: Counter[str] = Counter()
    for seed in range(part, PAIRS, _PARTS):
        kind, problem = disagreement(seed)
        kinds[kind] += 1
        assert not problem, f"seed {seed}: {problem}"
    assert kinds["legal"] > 5 and kinds["illegal"] > 5, kinds
