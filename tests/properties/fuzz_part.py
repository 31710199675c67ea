"""A share of the pairs that every run of the tests looks at; each of its files is one worker's."""

from __future__ import annotations

from tests.properties.examine import Effort
from tests.properties.fuzz import LEGAL, Tally, run_here
from tests.properties.random_schedules import SCHEDULES

PAIRS = 256  # of each part, four parts
EFFORT = Effort(kinds=0.02, all_sizes=0.02, loop_ir=0.02, native=0.004)


def check_part(part: int) -> None:
    """Whole programs with all their schedules; the first pairs of ``python -m …fuzz``."""
    assert PAIRS % SCHEDULES == 0
    tally = Tally()
    for seed, outcome in run_here(range(part * PAIRS, (part + 1) * PAIRS), EFFORT):
        tally.add(seed, outcome)
    assert not tally.problems, tally.problems
    legal = sum(tally.kinds[kind] for kind in LEGAL)
    assert legal >= 0.4 * PAIRS, tally.histogram()
    assert tally.kinds["illegal by one"] >= 0.3 * PAIRS, tally.histogram()
    assert tally.notes["run as loop IR"] and len(tally.notes) > 30, tally.histogram()
