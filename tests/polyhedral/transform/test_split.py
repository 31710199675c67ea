"""Splitting a loop in its place."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import PROGRAMS, matmul, stencil
from tests.polyhedral.transform.machine_code import computes, outline
from weft.ir.errors import IllegalScheduleError
from weft.ir.schedule_printer import print_schedule
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.split import split


def test_golden() -> None:
    now = split(initial(matmul()), "j", 4)
    assert outline(now) == "i j_t j_p { S0; k { S1 } }"
    assert print_schedule(now.tree).splitlines()[1:3] == [
        "  for j_t = j // 4",
        "    for j_p = j - 4*(j // 4)",
    ]


def test_names() -> None:
    now = split(initial(matmul()), "j", 4, tile="outer", point="inner")
    assert outline(now) == "i outer inner { S0; k { S1 } }"
    assert str(now.steps[0]) == 'split("j", 4, tile="outer", point="inner")'
    again = split(split(initial(matmul()), "j", 4, tile="i_t"), "i", 2)
    assert outline(again) == "i_t_2 i_p i_t j_p { S0; k { S1 } }"


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_computes_the_same(program: str) -> None:
    now = initial(PROGRAMS[program]())
    for name in [loop.name for loop in now.loops()]:
        now = split(now, name, 4)
    computes(now)


def test_tiles_of_tiles() -> None:
    now = split(split(initial(stencil()), "i", 8), "i_p", 3)
    assert outline(now) == "t { i_t i_p_t i_p_p { S0 }; i_2 { S1 } }"
    computes(now)


def test_errors() -> None:
    start = initial(matmul())
    with pytest.raises(IllegalScheduleError, match=r"E0450.*'x'"):
        split(start, "x", 4)
    for size in (0, -1, True, 2.0):
        with pytest.raises(IllegalScheduleError, match="E0460"):
            split(start, "i", size)  # type: ignore[arg-type]
    for name, text in (("j", "a loop 'j' already"), ("a b", "cannot name a loop")):
        with pytest.raises(IllegalScheduleError, match=f"E0460.*{text}"):
            split(start, "i", 4, tile=name)
