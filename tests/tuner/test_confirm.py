"""Gains with confidence: noise is not taken for a gain, and true gains are found."""

from __future__ import annotations

import numpy as np
import pytest

from weft.runtime.records import REPLACES
from weft.tuner.confirm import Gain, gain

PROCESSES, ROUNDS = 3, 30


def heavy(random: np.random.Generator, count: int) -> np.ndarray:
    """Times as clocks on a busy machine say: never below the truth, sometimes far above it."""
    return 1e-3 * (1 + 0.03 * np.abs(random.standard_t(1.5, count)))


def compared(random: np.random.Generator, faster: float, shift: float) -> Gain:
    """``faster`` times as fast, in processes in which each program is off by up to ``shift``."""
    pairs = []
    for _ in range(PROCESSES):
        one, other = 1 + shift * random.random(2)
        drift = 1 + 0.2 * np.sin(
            np.linspace(0, 3 * random.random(), ROUNDS)
        )  # the clock of the CPU
        before = heavy(random, ROUNDS) * drift * one
        after = heavy(random, ROUNDS) * drift * other / faster
        pairs.append((list(before), list(after)))
    return gain(pairs)


@pytest.mark.parametrize("shift", [0.0, 0.05])
def test_equal_programs_are_hardly_ever_told_apart(shift: float) -> None:
    random = np.random.default_rng(0)
    found = [compared(random, 1.0, shift) for _ in range(1000)]
    assert sum(g.sure for g in found) <= 10
    assert 0.99 < np.median([g.median for g in found]) < 1.01


def test_true_gains_are_found() -> None:
    random = np.random.default_rng(1)
    found = [compared(random, 1.1, 0.0) for _ in range(200)]
    assert sum(g.sure for g in found) >= 190
    assert 1.09 < np.median([g.median for g in found]) < 1.11


def test_losses_are_no_gains() -> None:
    random = np.random.default_rng(2)
    assert not any(compared(random, 0.95, 0.0).sure for _ in range(1000))


def test_one_process_that_disagrees_is_enough() -> None:
    clear = ([1.2] * 30, [1.0] * 30)
    assert gain([clear] * 3) == Gain(1.2, 1.2, 1.2) and gain([clear] * 3).sure
    assert not gain([clear, clear, ([1.0] * 30, [1.0] * 30)]).sure


@pytest.mark.parametrize("before", [1.0, 5.0])
def test_a_single_round_proves_nothing(before: float) -> None:
    assert not gain([([before], [1.0])] * 3).sure


def test_a_gain_replaces_above_the_limit_alone() -> None:
    assert not Gain(2.0, REPLACES, 3.0).sure and Gain(2.0, REPLACES + 1e-9, 3.0).sure
