"""Rows that stay in the first cache while lanes go by, where these would not stay there."""

from __future__ import annotations

import pytest

from tests.polyhedral.policy.test_operand_panels import WIDE, product
from tests.polyhedral.transform.integer_programs import read
from weft.ir.schedule_tree import Band, walk
from weft.ir.scop import Scop
from weft.polyhedral.schedule_loops import schedule_loops


def around(scop: Scop, threads: int = 1) -> list[str]:
    """The loops around the register tiles, of as many rows as threads share out."""
    tree = schedule_loops(scop, WIDE, threads=threads).tree
    bands = [node.loops for node in walk(tree) if isinstance(node, Band)]
    names = [loop.name for loops in bands for loop in loops if "S0" in loop.at]
    return names[: names.index("k")]


@pytest.mark.parametrize(
    ("scop", "loops"),
    [
        (product(512, 512, 100), ["i_t", "j_t", "j_r", "i_r"]),  # lanes of a tile stay
        (product(512, 512, 256), ["j_t", "i_r", "j_r"]),
        (product(512, 512, 500), ["j_t", "i_r", "j_r"]),
        (product(512, 512, 2000), ["i_t", "j_t", "j_r", "i_r"]),  # lanes do not stay anywhere
        (product(512, 512, 500, left="A[k, i]"), ["j_t", "i_r", "j_r"]),  # rows from panels
        (product(32, 512, 256, left="A[k, i]"), ["j_t", "j_r", "i_r"]),  # a line in each step
    ],
)
def test_what_does_not_stay_goes_by(scop: Scop, loops: list[str]) -> None:
    assert around(scop) == loops


def test_threads_share_rows_out() -> None:
    assert around(product(512, 512, 256), 2) == ["i_t", "j_t", "i_r", "j_r"]


def test_parts_of_a_sum_stay_with_their_rows() -> None:
    """How many steps there are is not known: these come in parts, to sums in a cache."""
    text = """
    for i in range(N):
        for j in range(N):
            for k in range(N):
                C[i, j] += A[i, k] * B[k, j]
    """
    found = around(read(text, "N", A="in N N", B="in N N", C="io N N"))
    assert found[-5:] == ["i_t", "j_t", "k_t", "i_r", "j_r"]
