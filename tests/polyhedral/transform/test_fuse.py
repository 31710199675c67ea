"""Fusing two neighbouring loops, by name."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import matmul, read, refusal, stencil
from tests.polyhedral.transform.machine_code import computes, outline
from weft.ir.errors import IllegalScheduleError
from weft.ir.scop import Scop
from weft.polyhedral.transform.distribute import distribute
from weft.polyhedral.transform.fuse import fuse
from weft.polyhedral.transform.initial import initial


def two_rows() -> Scop:
    return read(
        """
        for i in range(N):
            for j in range(N):
                B[i, j] = 2 * A[i, j]
        for i in range(N):
            for j in range(N):
                C[i, j] = B[i, j] + 1
        """, A="in N N", B="tmp N N", C="io N N",
    )  # fmt: skip


def three() -> Scop:
    """The second nest needs nothing of the first, the third needs both."""
    return read(
        """
        for i in range(N):
            B[i] = 2 * A[i]
        for i in range(N):
            C[i] = A[N - 1 - i]
        for i in range(N):
            D[i] = B[i] + C[N - 1 - i]
        """, A="in N", B="tmp N", C="tmp N", D="io N",
    )  # fmt: skip


def test_golden() -> None:
    start = initial(two_rows())
    assert outline(start) == "i j { S0 }; i_2 j_2 { S1 }"
    now = fuse(start, "i", "i_2")
    assert outline(now) == "i { j { S0 }; j_2 { S1 } }"
    computes(now)
    inner = fuse(now, "j", "j_2", name="column")
    assert outline(inner) == "i column { S0; S1 }"
    computes(inner)
    assert [str(s) for s in inner.steps] == ['fuse("i", "i_2")', 'fuse("j", "j_2", name="column")']


def test_with_a_shift() -> None:
    """S1 reads one to the right of what S0 has just made: it has to run one iteration later."""
    start = initial(stencil())
    text = refusal(fuse(start, "i", "i_2"))
    assert "dependence of S1 on S0" in text and "WEFT-E0420" in text
    now = fuse(start, "i", "i_2", shift=1)
    assert outline(now) == "t i { S0; S1 }"
    computes(now)
    assert "WEFT-E0420" in refusal(fuse(start, "i", "i_2", shift=-1))


def test_what_stands_between_goes_where_its_accesses_ask() -> None:
    now = fuse(initial(three()), "i", "i_3")
    assert outline(now) == "i_2 { S1 }; i { S0; S2 }"
    computes(now)


def test_what_was_distributed_fuses_again() -> None:
    start = initial(matmul())
    now = fuse(distribute(start, "i"), "i", "i_S1")
    assert outline(fuse(now, "j", "j_S1")) == outline(start)


def test_errors() -> None:
    start = initial(two_rows())
    for first, second, why in (
        ("i", "i", "they are one loop"),
        ("i", "j", "one is inside the other"),
        ("j", "i_2", "j is inside other loops of its nest"),
    ):
        with pytest.raises(IllegalScheduleError, match="E0463") as caught:
            fuse(start, first, second)
        assert caught.value.why == why
    with pytest.raises(IllegalScheduleError, match=r"E0450.*'x'"):
        fuse(start, "i", "x")
    with pytest.raises(IllegalScheduleError, match=r"E0460.*'1'"):
        fuse(start, "i", "i_2", shift="1")  # type: ignore[arg-type]
    with pytest.raises(IllegalScheduleError, match=r"E0460.*'j' already"):
        fuse(start, "i", "i_2", name="j")
    apart = read(
        """
        for t in range(N):
            for i in range(N):
                A[i] = A[i] + t
        for i in range(N):
            B[i] = A[i]
        for t in range(N):
            for i in range(N):
                B[i] = B[i] + t
            A[t] = 0
        """, A="io N", B="io N",
    )  # fmt: skip
    with pytest.raises(IllegalScheduleError, match="E0463") as caught:
        fuse(initial(apart), "i_2", "i_3")
    assert caught.value.why == "they stand in different nests"
