"""Skewing one loop by another."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import PROGRAMS, matmul, read, refusal
from tests.polyhedral.transform.machine_code import computes, outline
from weft.ir.errors import IllegalScheduleError
from weft.ir.schedule_printer import print_schedule
from weft.ir.scop import Scop
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.reorder import reorder
from weft.polyhedral.transform.set_kinds import parallel
from weft.polyhedral.transform.skew import skew
from weft.polyhedral.transform.tile import tile


def seidel() -> Scop:
    """Each element from its new left and old right neighbours, in place, T times."""
    return read(
        """
        for t in range(T):
            for i in range(1, N - 1):
                A[i] = A[i - 1] + A[i] - A[i + 1]
        """, "T N", A="io N",
    )  # fmt: skip


def test_golden() -> None:
    now = skew(initial(seidel()), "i", by="t", factor=2)
    assert print_schedule(now.tree) == "for t = t\n  for i = i + 2*t\n    S0\n"
    assert [str(s) for s in now.steps] == ['skew("i", "t", 2)']
    computes(now)


@pytest.mark.parametrize("factor", [-3, 0, 1, 2])
def test_an_inner_loop_by_an_outer_one(factor: int) -> None:
    computes(skew(initial(matmul()), "k", "i", factor))
    computes(skew(initial(PROGRAMS["lu"]()), "j", "k", factor))


def test_what_it_is_for() -> None:
    """Neither tiling nor interchange is legal as it stands; both are, skewed."""
    start = initial(seidel())
    assert "WEFT-E0420" in refusal(tile(start, {"t": 4, "i": 4}))
    skewed = skew(start, "i", by="t")
    tiled = tile(skewed, {"t": 4, "i": 4})
    assert outline(tiled) == "t_t i_t { t_p i_p { S0 } }"
    computes(tiled)
    computes(reorder(skewed, ["i", "t"]))


def test_a_wavefront() -> None:
    now = skew(skew(initial(seidel()), "i", by="t"), "t", by="i")
    assert "WEFT-E0421" in refusal(parallel(initial(seidel()), "i"))
    computes(parallel(now, "i"))


def test_by_an_inner_loop() -> None:
    now = skew(initial(matmul()), "i", by="j")
    assert outline(now) == "i j { S0; k { S1 } }"
    computes(now)


def test_errors() -> None:
    start = initial(matmul())
    with pytest.raises(IllegalScheduleError, match="E0463") as caught:
        skew(start, "j", by="k")
    assert caught.value.why == "statement S0 is inside j, but not inside k"
    for loop, by, factor in (("i", "i", 1), ("i", "j", 1.5), ("i", "j", True)):
        with pytest.raises(IllegalScheduleError, match="E0460"):
            skew(start, loop, by, factor)  # type: ignore[arg-type]
    with pytest.raises(IllegalScheduleError, match="E0450"):
        skew(start, "i", "x")
