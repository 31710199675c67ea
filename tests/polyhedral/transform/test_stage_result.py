"""Building a tensor in a temporary of its own."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.polyhedral.transform.harness import (
    AWKWARD,
    chain,
    matmul,
    promise,
    random_scops,
    refusal,
)
from tests.polyhedral.transform.test_inline_producer import running_sum
from weft.errors import IllegalScheduleError
from weft.frontend import build as w
from weft.frontend.scalar_expr import Var, literal
from weft.polyhedral.scop import Constraint
from weft.polyhedral.scop_printer import scop_text
from weft.polyhedral.transform.stage_result import stage_result


def test_golden() -> None:
    text = scop_text(stage_result(matmul(4, 3, 2, relu=False), "C"))
    assert text == (
        "scop test()\n"
        "  input A: int64[4, 2]\n"
        "  input B: int64[2, 3]\n"
        "  output C: int64[4, 3]\n"
        "  temp C_acc: int64[4, 3]\n"
        "  C_add_init[i, j] at (0, i, 0, j, 0)\n"
        "    where i >= 0 and 3 - i >= 0 and j >= 0 and 2 - j >= 0\n"
        "    C_acc[i, j] = 0\n"
        "    for 'C'\n"
        "  C_add[i, j, r] at (1, i, 0, j, 0, r, 0)\n"
        "    where i >= 0 and 3 - i >= 0 and j >= 0 and 2 - j >= 0 and r >= 0 and 1 - r >= 0\n"
        "    r0 = A[i, r]\n"
        "    r1 = B[r, j]\n"
        "    along r\n"
        "    C_acc[i, j] add= r0 * r1\n"
        "    for 'C'\n"
        "  store_C[o0, o1] at (2, o0, 0, o1, 0)\n"
        "    where o0 >= 0 and 3 - o0 >= 0 and o1 >= 0 and 2 - o1 >= 0\n"
        "    r0 = C_acc[o0, o1]\n"
        "    C[o0, o1] = r0\n"
    )


@pytest.mark.parametrize("n", AWKWARD)
def test_sizes(n: int) -> None:
    of = matmul(n, 3, 2, relu=False)
    promise(of, stage_result(of, "C"))


def test_a_parameter_that_is_called_like_a_dim_of_the_copy() -> None:
    of = matmul(w.var("o0"), w.var("o1"), w.var("o2"), relu=False)
    promise(of, stage_result(of, "C"), {"o0": 3, "o1": 2, "o2": 2}, {"o0": 0, "o1": 1, "o2": 0})


def test_readers_may_read_the_temporary() -> None:
    of = matmul()
    now = stage_result(of, "C", readers=frozenset({"D"}))
    assert now.statement("D").reads[0].tensor == "C_acc"
    promise(of, now)
    promise(of, stage_result(of, "C"))


def test_within_the_loops_of_a_scan() -> None:
    """One level down the copy is part of each turn, so that the next one can read it."""
    of = running_sum()
    now = stage_result(of, "S", level=1)
    assert "store_S[o0] at (0, o0, 1)" in scop_text(now)
    promise(of, now)


def test_a_copy_that_leaves_something_out_is_refused() -> None:
    of = matmul(4, 3, 2, relu=False)
    now = stage_result(of, "C")
    copy = now.statement("store_C")
    short = replace(copy, domain=(*copy.domain, Constraint(literal(2) - Var("o0"))))
    text = refusal(of, replace(now, statements=(*now.statements[:2], short)))
    assert "WEFT-E0440: the final value of C is not what it was" in text
    assert re.search(r"C\[3, .\]", text), "the element that is missing"


def test_random_programs() -> None:
    written = 0
    for of, sizes in random_scops(25, seed=800):
        now = of
        for s in of.statements:
            folds = s.update is not None and not s.writes[0].may
            if folds and now.tensor(s.writes[0].tensor).role == "output":
                now = stage_result(now, s.writes[0].tensor)
                written += 1
        if now is not of:
            promise(of, now, sizes)
    assert written > 5


def test_errors() -> None:
    with pytest.raises(IllegalScheduleError, match=r"E0455.*no statement writes X"):
        stage_result(chain(), "X")
    of = matmul(relu=False)
    inner = replace(of, statements=of.statements[1:])
    with pytest.raises(IllegalScheduleError, match=r"E0455.*no dimension for each of.*r"):
        stage_result(inner, "C", level=3)
