from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.graph.partition import cut_evenly, period


@given(st.lists(st.integers(0, 2), min_size=1, max_size=30))
def test_period_is_the_least_shift_onto_itself(keys):
    shifts = [p for p in range(1, len(keys) + 1) if keys[p:] == keys[:-p]]
    assert period(keys) == shifts[0]


def pieces(length, pattern, capacity):
    following = {k: k + 1 for k in range(length - 1)}
    cuts = cut_evenly(following, {k: pattern[k % len(pattern)] for k in range(length)}, capacity)
    starts = sorted([0, *(b for _, b in cuts), length])
    return [b - a for a, b in pairwise(starts)]


@pytest.mark.parametrize(
    "length, pattern, capacity, expected",
    [
        (1000, "a", 24, [24] * 41 + [16]),
        (100, "abcde", 24, [20] * 5),
        (30, range(30), 24, [15, 15]),
        (24, range(24), 24, [24]),
        (7, "ab", 1, [1] * 7),
    ],
)
def test_pieces_hold_whole_patterns(length, pattern, capacity, expected):
    assert pieces(length, pattern, capacity) == expected


def test_several_chains_are_cut_each_on_its_own():
    following = {0: 1, 1: 2, 10: 11, 11: 12}
    assert cut_evenly(following, dict.fromkeys([0, 1, 2, 10, 11, 12], "a"), 2) == {(1, 2), (11, 12)}
