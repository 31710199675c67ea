"""Producers that disappear from a schedule."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import every, promise, read, refusal
from tests.polyhedral.transform.machine_code import computes, outline
from weft.ir.errors import IllegalScheduleError
from weft.ir.scop import Scop
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.inline_producer import inline
from weft.polyhedral.transform.tile import tile


def two() -> Scop:
    return read(
        """
        for i in range(N):
            T[i] = A[i] * 2
            C[i] = i
        for j in range(N - 1):
            B[j] = T[j] + T[j + 1]
        """, "N", A="in N", B="io N", C="out N", T="tmp N",
    )  # fmt: skip


def test_the_leaf_is_gone() -> None:
    now = inline(tile(initial(two()), {"j": 4}), "S0")
    assert outline(now) == "i { S1 }; j_t j_p { S2 }"
    assert "S0" not in now.loop("i").at
    computes(now, *every(two(), (0, 1, 2, 7)))


def test_what_it_reads_changes_meanwhile() -> None:
    scop = read(
        """
        for t in range(T):
            for i in range(N):
                X[t, i] = A[i] + t
            for i in range(N):
                A[i] = X[t, i] * 2
        """, "T N", A="io N", X="tmp T N",
    )  # fmt: skip
    with pytest.raises(IllegalScheduleError, match="WEFT-E0454"):
        inline(initial(scop), "S0")
    assert refusal(initial(scop)) == ""


def test_refusals() -> None:
    with pytest.raises(IllegalScheduleError, match="WEFT-E0454"):
        inline(initial(two()), "S2")
    with pytest.raises(IllegalScheduleError, match="WEFT-E0451"):
        inline(initial(two()), "S7")
    promise(inline(initial(two()), "S0"), {"N": 3})
