"""Loops whose iterations run in lockstep."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import PROGRAMS, matmul, refusal, stencil
from tests.polyhedral.transform.machine_code import computes, outline
from weft.ir.errors import IllegalScheduleError
from weft.polyhedral.transform.distribute import distribute
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.set_kinds import vectorize


def test_golden() -> None:
    now = vectorize(initial(stencil()), "i")
    assert outline(now) == "t { i!vector { S0 }; i_2 { S1 } }"
    computes(now)
    now = vectorize(initial(stencil()), "i", 8)
    assert outline(now) == "t { i_t i_p!vector { S0 }; i_2 { S1 } }"
    assert [str(s) for s in now.steps] == ['vectorize("i", 8)']
    computes(now)


def test_a_reduction_whose_order_is_free() -> None:
    computes(vectorize(initial(matmul()), "k"))


def test_a_loop_around_others() -> None:
    now = vectorize(distribute(initial(matmul()), "j"), "j_S1")
    assert outline(now) == "i { j { S0 }; j_S1!vector k { S1 } }"
    computes(now)


def test_a_triangle() -> None:
    computes(vectorize(initial(PROGRAMS["lu"]()), "j"))


def test_a_loop_that_carries_a_dependence_is_refused() -> None:
    assert "WEFT-E0422" in refusal(vectorize(initial(stencil()), "t"))


def test_errors() -> None:
    with pytest.raises(IllegalScheduleError, match=r"E0450.*'x'"):
        vectorize(initial(matmul()), "x")
    with pytest.raises(IllegalScheduleError, match="E0460"):
        vectorize(initial(matmul()), "j", 0)
