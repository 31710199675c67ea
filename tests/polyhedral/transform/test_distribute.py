"""Distributing a loop over the statements in it."""

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
from weft.ir.scop import Scop
from weft.polyhedral.transform.distribute import distribute
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.set_kinds import set_kinds


def three() -> Scop:
    return read(
        """
        for i in range(N):
            B[i] = 2 * A[i]
            C[i] = B[i] + 1
            D[i] = B[i] + C[i]
        """, A="in N", B="io N", C="io N", D="io N",
    )  # fmt: skip


def test_golden() -> None:
    now = distribute(initial(matmul()), "i")
    assert outline(now) == "i j { S0 }; i_S1 j_S1 k { S1 }"
    computes(now)
    inner = distribute(initial(matmul()), "j")
    assert outline(inner) == "i { j { S0 }; j_S1 k { S1 } }"
    computes(inner)


def test_every_statement_or_one_cut() -> None:
    assert outline(distribute(initial(three()), "i")) == "i { S0 }; i_S1 { S1 }; i_S2 { S2 }"
    now = distribute(initial(three()), "i", after="S0")
    assert outline(now) == "i { S0 }; i_S1 { S1; S2 }"
    computes(now)


def test_kinds_stay() -> None:
    now = distribute(set_kinds(initial(three()), {"i": "parallel"}), "i", after="S1")
    assert outline(now) == "i!parallel { S0; S1 }; i_S2!parallel { S2 }"


def test_triangles() -> None:
    """All scaling after all products: later rows would read what is scaled."""
    text = refusal(distribute(initial(triangular()), "i"))
    assert text == ""  # row i of B is read by rows above it only, which come first
    computes(distribute(initial(triangular()), "i"))


def test_what_feeds_back_is_refused() -> None:
    for program, loop in ((stencil(), "t"), (lu(), "k")):
        text = refusal(distribute(initial(program), loop))
        assert "WEFT-E0420" in text and "the sequence runs the second before the first" in text


def test_errors() -> None:
    start = initial(matmul())
    with pytest.raises(
        IllegalScheduleError, match=r"E0463.*loop k cannot be distributed"
    ) as caught:
        distribute(start, "k")
    assert caught.value.why == "inside it: S1, in one nest"
    with pytest.raises(IllegalScheduleError, match=r"E0463.*behind S1"):
        distribute(start, "i", after="S1")
    with pytest.raises(IllegalScheduleError, match="E0451"):
        distribute(start, "i", after="S7")
    with pytest.raises(IllegalScheduleError, match="E0450"):
        distribute(start, "x")
