"""Running a loop backwards."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import matmul, read, refusal, stencil, triangular
from tests.polyhedral.transform.machine_code import computes, outline
from weft.ir.errors import IllegalScheduleError
from weft.ir.schedule_printer import print_schedule
from weft.polyhedral.transform.fuse import fuse
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.set_kinds import set_kinds
from weft.polyhedral.transform.skew import reverse
from weft.polyhedral.transform.tile import tile


def test_golden() -> None:
    now = reverse(initial(matmul()), "k")
    assert print_schedule(now.tree).endswith("      for k = -k\n        S1\n")
    computes(now)


@pytest.mark.parametrize("loop", ["i", "j", "k"])
def test_loops_that_carry_nothing(loop: str) -> None:
    now = reverse(initial(matmul()), loop)
    assert outline(now) == "i j { S0; k { S1 } }"
    computes(now)


def test_reversed_loops_tile_and_vectorise() -> None:
    now = tile(reverse(reverse(initial(matmul()), "i"), "j"), {"i": 4, "j": 3})
    computes(now)
    computes(set_kinds(reverse(initial(triangular()), "k"), {"k": "vector"}))


def test_twice_is_nothing() -> None:
    start = initial(matmul())
    assert print_schedule(reverse(reverse(start, "i"), "i").tree) == print_schedule(start.tree)


def test_loops_that_carry_a_dependence() -> None:
    for program, loop in ((stencil(), "t"), (triangular(), "i")):
        text = refusal(reverse(initial(program), loop))
        assert f"loop {loop} runs the second before the first" in text


def test_a_descending_loop_fuses() -> None:
    """What one nest makes from the top, the other reads from the bottom."""
    of = read(
        """
        for i in range(10):
            B[9 - i] = A[i]
        for i in range(10):
            C[i] = B[i]
        """, "", A="in 10", B="tmp 10", C="io 10",
    )  # fmt: skip
    assert "WEFT-E0420" in refusal(fuse(initial(of), "i", "i_2"))
    now = fuse(reverse(initial(of), "i_2"), "i", "i_2", shift=9)
    assert outline(now) == "i { S0; S1 }"
    computes(now, {})


def test_errors() -> None:
    with pytest.raises(IllegalScheduleError, match=r"E0450.*'x'"):
        reverse(initial(matmul()), "x")
