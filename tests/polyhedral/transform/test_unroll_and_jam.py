"""Unrolling an outer loop into the inner ones."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import lu, matmul, refusal, stencil, triangular
from tests.polyhedral.transform.machine_code import computes, outline
from weft.ir.errors import IllegalScheduleError
from weft.polyhedral.transform.distribute import distribute
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.set_kinds import vectorize
from weft.polyhedral.transform.unroll import unroll_and_jam


def test_golden() -> None:
    now = unroll_and_jam(initial(matmul()), "i", 4)
    assert outline(now) == "i_t j { i_p_S0!unrolled { S0 }; k i_p_S1!unrolled { S1 } }"
    assert [str(s) for s in now.steps] == ['unroll_and_jam("i", 4)']
    computes(now)


def test_outside_vector_loops() -> None:
    start = distribute(initial(matmul()), "i")
    start = vectorize(start, "j_S1")
    now = unroll_and_jam(start, "i_S1", 2)
    assert outline(now) == "i j { S0 }; i_S1_t k i_S1_p!unrolled j_S1!vector { S1 }"
    computes(now)


def test_two_loops() -> None:
    now = unroll_and_jam(unroll_and_jam(distribute(initial(matmul()), "i"), "i_S1", 2), "j_S1", 3)
    assert outline(now).endswith("i_S1_t j_S1_t k i_S1_p!unrolled j_S1_p!unrolled { S1 }")
    computes(now)


def test_triangles() -> None:
    computes(unroll_and_jam(initial(lu()), "i_2", 4))
    computes(unroll_and_jam(initial(triangular()), "j", 4))


def test_what_may_not_move_inside_is_refused() -> None:
    assert "WEFT-E0420" in refusal(unroll_and_jam(initial(stencil()), "t", 2))


def test_errors() -> None:
    with pytest.raises(IllegalScheduleError, match="E0460"):
        unroll_and_jam(initial(matmul()), "i", 0)
    with pytest.raises(IllegalScheduleError, match=r"E0450.*'x'"):
        unroll_and_jam(initial(matmul()), "x", 2)
