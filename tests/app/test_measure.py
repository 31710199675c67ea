"""Taking turns, and how far results are apart."""

import numpy as np
import pytest

from weft.app import measure
from weft.app.measure import Timing, difference, take_turns


def test_actions_take_turns():
    seen = []
    timings = take_turns([lambda: seen.append("a"), lambda: seen.append("b")], 3)
    assert seen == ["a", "a", "b", "b"] * 3  # the first of two is not timed
    assert [len(t.seconds) for t in timings] == [3, 3]
    assert all(0 <= t.best <= t.median for t in timings)


def test_the_budget_ends_what_nobody_asked_to_repeat(monkeypatch):
    monkeypatch.setattr(measure, "BUDGET", 0.0)
    ticks = []
    assert len(take_turns([lambda: None], tick=lambda: ticks.append(1))[0].seconds) == 1
    assert len(take_turns([lambda: None], 4)[0].seconds) == 4 and len(ticks) == 1


def test_median_and_best():
    assert Timing((3.0, 1.0, 2.0)).median == 2.0 and Timing((3.0, 1.0, 2.0)).best == 1.0


@pytest.mark.parametrize(
    ("found", "reference", "largest", "equal"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0, True),
        ([1.0, 2.0], [1.0, 2.5], 0.5, False),
        ([1.0, 2.0], [1.0, 2.00001], 1e-5, True),
        ([np.nan, np.inf, -np.inf], [np.nan, np.inf, -np.inf], 0.0, True),
        ([np.nan], [1.0], np.inf, False),
        ([np.inf], [1.0], np.inf, False),
        ([np.inf], [-np.inf], np.inf, False),
        ([1.0], [1.0, 1.0], np.inf, False),
        ([], [], 0.0, True),
    ],
)
def test_difference(found, reference, largest, equal):
    gap = difference({"y": np.array(found)}, {"y": np.array(reference)})
    assert gap.equal == equal
    assert gap.largest == pytest.approx(largest, rel=1e-3)


def test_difference_is_over_all_outputs_and_skips_what_is_no_number():
    found = {"a": np.array([1, 5]), "b": np.array([True]), "s": np.array(["x"], object), "q": [1]}
    reference = {"a": np.array([1, 2]), "b": np.array([True]), "s": np.array(["y"], object)}
    gap = difference(found, reference)
    assert (gap.largest, gap.scale, gap.equal) == (3.0, 2.0, False)
