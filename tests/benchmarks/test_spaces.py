"""Spaces of a schedule's script, and the search replayed on known times."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest

from weft.benchmarks.spaces import ENOUGH, MOST, Axes, Point, Space, axes_of
from weft.tuner.search import Drafted

SCRIPT = """\
s = s
s = s.nest("S0", {"i_t": "i // 24", "j_t": "j // 40", "i": "i"}, parallel=["i_t"])
s = s.pack("A", "S0", "j_t", {1: 40})
s = s.stream("C", 4096, 512)
"""


def test_axes_have_the_script_at_their_origin() -> None:
    axes = axes_of(SCRIPT, "K.script")
    assert list(axes.sizes)[:2] == [40, 24]  # tiles before other constants
    assert ENOUGH <= prod(axes.shape) <= 2 * MOST
    origin = (0,) * len(axes.shape)
    assert axes.overrides(origin) == {}
    texts = {repr(axes.overrides(p)) for p in product(*map(range, axes.shape))}
    assert len(texts) == prod(axes.shape)


def test_points_change_constants_and_leave_out_lines() -> None:
    axes = Axes(SCRIPT, "K.script", {24: [24, 12], 40: [40, 20, 60]}, (2,))
    assert axes.shape == (2, 3, 2)
    assert axes.overrides((1, 2, 1)) == {
        "K.script": "s = s\n"
        's = s.nest("S0", {"i_t": "i // 12", "j_t": "j // 60", "i": "i"}, parallel=["i_t"])\n'
        's = s.stream("C", 4096, 512)'
    }


def space(refused: int) -> Space:
    """Every ``refused``-th point is none; times are distances from one corner, and estimates."""
    script = "\n".join(f"s = s.nest({n}, i // {n})" for n in (100, 200, 300))
    axes = Axes(script, "K.script", {n: [n + k for k in range(7)] for n in (100, 200, 300)}, ())
    points: list[Point] = [
        p for k, p in enumerate(product(range(7), repeat=3)) if k % refused or not k
    ]
    times = {repr(p): 1.0 - 0.9 * sum(p) / 18 for p in points}
    drafted = {p: Drafted(axes.overrides(p), times[repr(p)], repr(p)) for p in points}
    return Space(axes, {repr(axes.overrides(p)): p for p in points}, drafted, times)


@pytest.mark.parametrize("refused", [3, 5, 1000])
def test_the_search_is_replayed(refused: int) -> None:
    """It finds the best, however many candidates on its way are refused."""
    made = space(refused)
    for seed in range(4):
        assert 1 <= made.searched(seed) <= len(made.times)
        assert min(made.timed) <= 1.05 * made.best
        assert 1.0 <= made.tenth(seed) <= 1.0 / made.best
        assert len(made.timed) >= len(made.times) // 10
        assert 1 <= made.at_random(seed) <= len(made.times)


def test_what_is_known_to_be_good_comes_first() -> None:
    made = space(1000)
    best = min(made.drafted.values(), key=lambda d: made.times[d.digest])
    assert made.searched(0, [best.overrides]) <= 8


def test_what_is_refused_has_no_neighbours() -> None:
    made = space(3)
    refused = next(p for p in product(range(7), repeat=3) if p not in made.drafted)
    assert list(made.neighbours(made.axes.overrides(refused))) == []
    assert made.draft([made.axes.overrides(refused)]) == []
