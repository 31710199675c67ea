"""Loops whose iterations may run at the same time."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import lu, matmul, refusal
from tests.polyhedral.transform.machine_code import computes, outline
from weft.ir.errors import IllegalScheduleError
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.set_kinds import parallel


def test_golden() -> None:
    now = parallel(initial(matmul()), "i", "j")
    assert outline(now) == "i!parallel j!parallel { S0; k { S1 } }"
    assert [str(s) for s in now.steps] == ['parallel("i", "j")']
    computes(now)


def test_a_reduction_is_refused() -> None:
    text = refusal(parallel(initial(matmul()), "k"))
    assert "WEFT-E0421" in text and "parallel loop k may run both at the same time" in text


def test_a_loop_that_carries_a_dependence_is_refused() -> None:
    assert "WEFT-E0421" in refusal(parallel(initial(lu()), "k"))


def test_errors() -> None:
    with pytest.raises(IllegalScheduleError, match=r"E0450.*'x'"):
        parallel(initial(matmul()), "x")
    with pytest.raises(IllegalScheduleError, match="E0460"):
        parallel(initial(matmul()))
