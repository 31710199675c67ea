"""Shifting one statement of a loop."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import matmul, read, refusal
from tests.polyhedral.transform.machine_code import computes, outline
from weft.ir.errors import IllegalScheduleError
from weft.ir.schedule_printer import print_schedule
from weft.ir.scop import Scop
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.set_kinds import parallel
from weft.polyhedral.transform.shift import shift


def lagging() -> Scop:
    """B needs what the iteration before made of A."""
    return read(
        """
        for i in range(N):
            A[i] = 2 * X[i]
            if i > 0:
                B[i] = A[i - 1] + 1
        """, X="in N", A="io N", B="io N",
    )  # fmt: skip


def test_golden() -> None:
    now = shift(initial(lagging()), "S1", "i", -1)
    assert print_schedule(now.tree) == "for i = {S0: i, S1: i - 1}\n  sequence\n    S0\n    S1\n"
    computes(now)


def test_what_it_is_for() -> None:
    """In step, writer and reader run in one iteration, and all iterations at once."""
    assert "WEFT-E0421" in refusal(parallel(initial(lagging()), "i"))
    computes(parallel(shift(initial(lagging()), "S1", "i", -1), "i"))


@pytest.mark.parametrize("by", [-2, 0, 1, 5])
def test_any_distance_forwards(by: int) -> None:
    now = shift(initial(lagging()), "S1", "i", by)
    assert outline(now) == "i { S0; S1 }"
    if by < -1:
        assert "WEFT-E0420" in refusal(now)
    else:
        computes(now)


def test_inside_a_triangle() -> None:
    start = initial(matmul())
    computes(shift(start, "S1", "i", 2))
    assert "WEFT-E0420" in refusal(shift(start, "S1", "i", -1))


def test_errors() -> None:
    start = initial(matmul())
    with pytest.raises(IllegalScheduleError, match=r"E0463.*S0 is not inside loop k") as caught:
        shift(start, "S0", "k", 1)
    assert caught.value.hint == "statements inside: S1"
    with pytest.raises(IllegalScheduleError, match=r"E0451.*'x'"):
        shift(start, "x", "k", 1)
    with pytest.raises(IllegalScheduleError, match=r"E0450.*'x'"):
        shift(start, "S0", "x", 1)
    with pytest.raises(IllegalScheduleError, match=r"E0460.*1\.5"):
        shift(start, "S0", "i", 1.5)  # type: ignore[arg-type]
