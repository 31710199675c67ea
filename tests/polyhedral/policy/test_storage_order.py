"""Temporaries lie as vectors run through them, if all do so in one direction."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import promise, read
from weft.polyhedral.policy.tile_ends import storage_order
from weft.polyhedral.transform.contract import contract
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled
from weft.polyhedral.transform.set_kinds import vectorize

TEXT = """
for i in range(N):
    for j in range(5):
        for k in range(3):
            T[k, j] = A[i, j] + k
    for j in range(5):
        for k in range(3):
            B[i, j] += T[k, j]
"""


def made(*lanes: str) -> Scheduled:
    scop = read(TEXT, A="in N 5", T="tmp 3 5", B="io N 5")
    scheduled = initial(scop)
    for loop in lanes:
        scheduled = vectorize(scheduled, loop)
    return scheduled


@pytest.mark.parametrize(
    ("lanes", "order"),
    [(("k", "k_2"), (1, 0)), (("k",), None), ((), None)],
)
def test_the_dim_of_the_lanes_is_last(lanes: tuple[str, ...], order: tuple[int, ...]) -> None:
    scheduled = made(*lanes)
    assert storage_order(scheduled, "T") == order
    small = contract(scheduled, "T", order=order)
    promise(small, {"N": 0}, {"N": 1}, {"N": 4})


def test_what_cannot_be_smaller_is_turned_as_well() -> None:
    text = """
    for j in range(N):
        for k in range(3):
            T[k, j] = A[j] + k
    for j in range(N):
        for k in range(3):
            B[j, k] = T[k, j]
    """
    scheduled = initial(read(text, A="in N", T="tmp 3 N", B="out N 3"))
    turned = contract(scheduled, "T", order=(1, 0))
    assert turned.tensor("T").shape == tuple(reversed(scheduled.tensor("T").shape))
    promise(turned, {"N": 0}, {"N": 1}, {"N": 4})
    assert contract(scheduled, "T", order=(0, 1)).tensor("T") == scheduled.tensor("T")
