"""Cutting a statement in two by a condition."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import lu, matmul, read, triangular
from tests.polyhedral.transform.machine_code import computes, outline
from tests.polyhedral.transform.test_tensorize import tiled
from weft.ir.errors import IllegalScheduleError
from weft.polyhedral.transform.cut import cut
from weft.polyhedral.transform.distribute import distribute
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.set_kinds import parallel
from weft.polyhedral.transform.tensorize import tensorize


def test_golden() -> None:
    now = cut(initial(matmul()), "S1", ["k < 3", "i >= j"])
    assert outline(now) == "i j { S0; k { S1; S1_edge; S1_edge_2 } }"
    assert str(now.steps[0]) == 'cut("S1", ["k < 3", "i >= j"])'
    computes(now)


def test_what_it_is_for() -> None:
    """The first half reads what the second writes, and the other way round; not itself."""
    of = read(
        """
        for i in range(2 * N):
            A[i] = A[2 * N - 1 - i] + 1
        """, A="io 2*N",
    )  # fmt: skip
    halves = distribute(cut(initial(of), "S0", ["i < N"]), "i")
    assert outline(halves) == "i { S0 }; i_S0_edge { S0_edge }"
    computes(parallel(halves, "i", "i_S0_edge"))


def test_triangles() -> None:
    computes(cut(initial(lu()), "S1", ["j < 8*(i // 8)"]))
    computes(cut(initial(triangular()), "S0", ["k >= i + 4", "j < M"]))


def test_a_cut_again() -> None:
    now = cut(cut(initial(matmul()), "S1", ["k < 6"]), "S1", ["k < 3"])
    assert outline(now) == "i j { S0; k { S1; S1_edge_2; S1_edge } }"
    computes(now)


def test_a_register_tile_of_what_is_cut_is_none() -> None:
    now = cut(tensorize(tiled(), ["k"], ["i_S1_p"], "j_S1_p"), "S1", ["k < 3"])
    computes(now)


def test_the_rest_has_the_name_that_is_asked_for() -> None:
    now = cut(cut(initial(matmul()), "S1", ["k < 6"], "late"), "S1", ["i < 3"], rest="late")
    assert outline(now) == "i j { S0; k { S1; S1_late_2; S1_late } }"
    assert [str(step) for step in now.steps] == [
        'cut("S1", ["k < 6"], "late")',
        'cut("S1", ["i < 3"], "late")',
    ]
    computes(now)
    for rest in ("a b", "x-1", 3):
        with pytest.raises(IllegalScheduleError, match="E0479"):
            cut(initial(matmul()), "S1", ["k < 3"], rest)  # type: ignore[arg-type]


def test_errors() -> None:
    start = initial(matmul())
    for where, text in (
        (["k < x"], "mentions 'x'"),
        (["k"], "no condition on indices"),
        (["k * i < 3"], "no condition on indices"),
        ([], "by no condition"),
    ):
        with pytest.raises(IllegalScheduleError, match=f"E0479.*{text}"):
            cut(start, "S1", where)
    with pytest.raises(IllegalScheduleError, match="E0476"):
        cut(start, "S1", ["k == 3"])
    with pytest.raises(IllegalScheduleError, match="E0451"):
        cut(start, "S9", ["k < 3"])


def test_several_statements_are_cut_alike() -> None:
    """As each by itself, in one step; not by a condition on dims that one of them lacks."""
    start = initial(matmul())
    both = cut(start, ["S0", "S1"], ["i < 3"], "below")
    apart = cut(cut(start, "S0", ["i < 3"], "below"), "S1", ["i < 3"], "below")
    assert (both.scop, both.tree) == (apart.scop, apart.tree)
    assert [str(step) for step in both.steps] == ['cut(["S0", "S1"], ["i < 3"], "below")']
    computes(both)
    with pytest.raises(IllegalScheduleError, match="WEFT-E0479"):
        cut(start, ["S0", "S1"], ["k < 3"])
    with pytest.raises(IllegalScheduleError, match="WEFT-E0451"):
        cut(start, [], ["i < 3"])
