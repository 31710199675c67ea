"""Interchanging loops."""

from __future__ import annotations

from random import Random

import pytest

from tests.polyhedral.transform.harness import (
    AWKWARD,
    legal,
    matmul,
    promise,
    random_scops,
    refusal,
)
from tests.polyhedral.transform.test_tile import skewed
from weft.ir.errors import IllegalScheduleError
from weft.ir.schedule_printer import print_schedule
from weft.ir.schedule_tree import Band, walk
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.reorder import reorder


def test_golden() -> None:
    now = reorder(initial(matmul(relu=False)), ["r", "i_2"])
    assert print_schedule(now.tree) == (
        "sequence\n"
        "  for i = i\n"
        "    for j = j\n"
        "      C_add_init\n"
        "  for r = r\n"
        "    for j_2 = j\n"
        "      for i_2 = i\n"
        "        C_add\n"
    ), "the loops of the order change places among themselves"


@pytest.mark.parametrize("n", AWKWARD)
def test_sizes(n: int) -> None:
    of = matmul(n, 3, 2)
    promise(of, reorder(initial(of), ["r", "j_2", "i_2"]))


def test_an_interchange_against_a_dependence_is_refused() -> None:
    """A[t - 1, i + 1] must be there before A[t, i]: i cannot go outside t."""
    of = skewed()
    names = [loop.name for loop in initial(of).loops()]
    text = refusal(of, reorder(initial(of), names[::-1]))
    assert "WEFT-E0420" in text and "runs the second before the first" in text


def test_random_bands() -> None:
    random, accepted = Random(0), 0
    for of, sizes in random_scops(25, seed=300):
        now = initial(of)
        for band in [node for node in walk(now.tree) if isinstance(node, Band)]:
            order = [loop.name for loop in band.loops]
            random.shuffle(order)
            now = reorder(now, order)
        if legal(now):
            accepted += 1
            promise(of, now, sizes)
    assert accepted > 15


def test_errors() -> None:
    start = initial(matmul(relu=False))
    for order in (["i", "r"], ["r", "r"]):
        with pytest.raises(IllegalScheduleError, match=f"E0450.*{', '.join(order)}"):
            reorder(start, order)
    with pytest.raises(IllegalScheduleError, match=r"E0450.*'x'"):
        reorder(start, ["r", "x"])
