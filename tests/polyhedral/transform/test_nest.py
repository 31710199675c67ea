"""Nests and sequences, and the moves that lead to a given tree."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import (
    lu,
    matmul,
    read,
    refusal,
    stencil,
    triangular,
)
from tests.polyhedral.transform.machine_code import computes, outline
from weft.ir.errors import IllegalScheduleError
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.nest import build, nest, sequence
from weft.polyhedral.transform.scheduled import Scheduled

TILED = {"i_t": "i // 4", "j_t": "j // 3", "k": "k", "i": "i % 4", "j_p": "j - 3*(j // 3)"}


def apart() -> Scheduled:
    return sequence(initial(matmul()), ["S0", "S1"])


def test_the_loops_of_a_statement() -> None:
    now = nest(apart(), "S1", TILED, parallel=["i_t"], vector=["j_p"])
    assert outline(now) == "i_2 j { S0 }; i_t!parallel j_t k i j_p!vector { S1 }"
    assert str(now.steps[-1]).endswith('}, parallel=["i_t"], vector=["j_p"])')
    computes(now)


def test_what_loops_leave_open_follows_in_textual_order() -> None:
    assert outline(nest(apart(), "S1", {"k": "k"})) == "i j { S0 }; k i_2 j_2 { S1 }"
    computes(nest(apart(), "S1", {"k": "k"}))
    assert outline(nest(apart(), "S1", {"w": "i + j", "j_p": "j"})) == "i j { S0 }; w j_p k { S1 }"


def test_loops_around_several_statements_are_followed_by_all_textual_ones() -> None:
    """One may be an iteration behind: which comes first, ``sequence`` says."""
    start = initial(stencil())
    names = [s.name for s in start.scop.statements]
    now = nest(start, names, {"w": dict.fromkeys(names, "t")})
    assert {*now.below("w")} == {*names}
    computes(now)


def test_groups_one_after_the_other() -> None:
    now = sequence(initial(lu()), [[s.name for s in lu().statements]])
    assert now.tree == initial(lu()).tree
    with pytest.raises(IllegalScheduleError, match="E0463"):
        sequence(initial(lu()), ["S0"])
    swapped = sequence(initial(matmul()), ["S1", "S0"])
    assert "WEFT-E0420" in refusal(swapped)


def test_nests_that_are_there_stay() -> None:
    now = nest(apart(), "S1", TILED)
    assert outline(sequence(now, ["S0", "S1"])) == outline(now)


@pytest.mark.parametrize(
    ("loops", "code"),
    [
        ({"i": "i *"}, "E0460"),
        ({"i": "__import__('os')"}, "E0460"),
        ({"not a name": "i"}, "E0460"),
        ({"i": {"S0": "i"}}, "E0460"),
        ({"i": "i // 0"}, "E0460"),
        ({"i": "i % 0"}, "E0460"),
        ({"i": "z"}, "E0412"),
        ({"i": "i * j"}, "E0412"),
    ],
    ids=str,
)
def test_values_that_are_none(loops: dict[str, object], code: str) -> None:
    made = apart()
    with pytest.raises(Exception, match=code):
        assert refusal(nest(made, "S1", loops)) == code  # type: ignore[arg-type]


def test_statements_without_a_nest_of_their_own() -> None:
    text = "for i in range(N):\n  A[i] = 1\n  B[i] = A[i]\n  A[i] = 2"
    three = initial(read(text, A="io N", B="io N"))
    for wanted, code in (("S9", "E0451"), (["S0", "S2"], "E0463")):
        with pytest.raises(IllegalScheduleError, match=code):
            nest(three, wanted, {"w": "i"})
    with pytest.raises(IllegalScheduleError, match="E0460"):
        nest(apart(), [], {"i": "i"})
    with pytest.raises(IllegalScheduleError, match="E0450"):
        nest(apart(), "S1", {"i": "i"}, parallel=["j"])
    with pytest.raises(IllegalScheduleError, match="i cannot be parallel and vector"):
        nest(apart(), "S1", {"i": "i"}, parallel=["i"], vector=["i"])
    with pytest.raises(IllegalScheduleError, match="E0460"):
        nest(three, "S1", {"i": "i"})


def test_a_triangle() -> None:
    start = initial(triangular())
    computes(build(start, start.tree))
    assert build(start, start.tree) is start
