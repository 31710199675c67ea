"""What is timed next: against times that are known."""

from __future__ import annotations

from itertools import product
from math import log2

import numpy as np
import pytest

from weft.tuner.surrogate import promising

SIZES = (4, 8, 16, 32, 64, 128, 256)


def script(i: int, j: int, packed: bool = True) -> str:
    lines = ["s = s", f's = s.tile({{"i": {i}, "j": {j}}})', f's = s.nest("S0", "i // {i}")']
    return "\n".join(lines + ['s = s.pack("A", "S0")'] * packed)


def seconds(i: int, j: int, packed: bool = True) -> float:
    """Best at 32, 64, and packed."""
    return 1.0 + 0.1 * (log2(i / 32) ** 2 + log2(j / 64) ** 2) + 0.5 * (not packed)


POINTS = [*product(SIZES, SIZES, (True, False))]


def ranks_of_drawn(estimate: float, seed: int, timed: int = 24) -> list[int]:
    """The places, by time, of what is drawn where ``timed`` at random are known. Estimates are
    times to the power of ``estimate``."""
    random = np.random.default_rng(seed)
    points = [POINTS[k] for k in random.permutation(len(POINTS))]
    times = [seconds(*p) for p in points]
    found = promising(
        [script(*p) for p in points], [t**estimate for t in times], times[:timed], 8, random
    )
    left = sorted(range(timed, len(points)), key=times.__getitem__)
    return [left.index(k) for k in found]


@pytest.mark.parametrize("estimate", [1.0, 0.0, -1.0], ids=["right", "blind", "wrong"])
def test_what_is_drawn_is_fast(estimate: float) -> None:
    """Whatever estimates say, where some were timed; 37 were the median at random."""
    for seed in range(5):
        ranks = ranks_of_drawn(estimate, seed)
        assert min(ranks) < 3
        assert np.median(ranks) < 12


def test_estimates_come_first() -> None:
    """Where nothing but one was timed; 48 were the median at random."""
    ranks = [ranks_of_drawn(1.0, seed, timed=1) for seed in range(5)]
    assert np.median(ranks) < 24
    assert min(map(min, ranks)) == 0


def test_candidates_without_estimates_or_numbers() -> None:
    random = np.random.default_rng(0)
    texts = ["layout = nchw", "layout = nhwc", "", "fuse = yes", "layout = nchw"]
    assert sorted(promising(texts, [0.0] * 5, [1.0, 0.9], 8, random)) == [2, 3, 4]
    assert sorted(promising(texts, [1.0, 0.0, 2.0, 0.0, 0.0], [1.0], 2, random))[0] >= 1
    assert promising(texts, [1.0] * 5, [1.0] * 5, 8, random) == []


def test_different_ones_are_drawn_and_the_seed_decides() -> None:
    texts = [script(i, j) for i, j in product(SIZES, SIZES)]
    one, other = (
        promising(texts, [1.0] * len(texts), [1.0] * 9, 8, np.random.default_rng(3))
        for _ in range(2)
    )
    assert one == other
    assert len(set(one)) == 8
    assert min(one) >= 9


def test_equal_candidates_of_extreme_times() -> None:
    """Nothing is singular, nothing overflows."""
    texts = [script(4, 4)] * 40
    found = promising(texts, [1e-9, 1e9] * 20, [1e-12, 1e12] * 10, 8, np.random.default_rng(0))
    assert len(set(found)) == 8
