"""Temporaries that keep what lives within an iteration."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import every, promise, read, refusal
from weft.ir.errors import IllegalScheduleError
from weft.ir.scalar_expr import Literal
from weft.ir.scop import Scop
from weft.polyhedral.transform.contract import contract
from weft.polyhedral.transform.expand_all import expand_all
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled
from weft.polyhedral.transform.set_kinds import set_kinds
from weft.polyhedral.transform.tile import tile


def symm() -> Scop:
    return read(
        """
        for i in range(M):
            for j in range(N):
                temp = 0
                for k in range(i):
                    temp += B[k, j] * A[i, k]
                C[i, j] = C[i, j] + B[i, j] * A[i, i] + temp
        """, "M N", A="in M M", B="in M N", C="io M N", temp="tmp",
    )  # fmt: skip


def expanded(scop: Scop) -> Scheduled:
    now = expand_all(scop)
    return Scheduled(scop, now, initial(now).tree)


def shape(now: Scheduled, tensor: str) -> tuple[list[object], int]:
    """The sizes that have storage (None: parametric), and how many have none."""
    t = now.scop.tensor(tensor)
    stored = t.shape[t.contracted :]
    return [int(s.value) if isinstance(s, Literal) else None for s in stored], t.contracted


def test_a_scalar_again() -> None:
    now = contract(expanded(symm()), "temp", scope="register")
    assert shape(now, "temp") == ([], 2)
    promise(now, *every(now.original, (0, 1, 2, 5)))
    assert now.steps[-1].name == "contract"


def test_one_per_point_of_a_tile() -> None:
    """Under tiles that hold the whole life of each value, and only the tile loops around all."""
    now = tile(expanded(symm()), {"i": 4, "j": 2})
    promise(contract(now, "temp"), *every(now.original, (0, 1, 5)))
    assert shape(contract(now, "temp"), "temp") == ([], 4)


def test_a_row_in_a_time_loop() -> None:
    scop = read(
        """
        for t in range(T):
            for i in range(N):
                row[i] = A[i]
            for i in range(1, N - 1):
                A[i] = row[i - 1] + row[i + 1]
        """, "T N", A="io N", row="tmp N",
    )  # fmt: skip
    now = contract(expanded(scop), "row")
    assert shape(now, "row") == ([None], 1)
    promise(now, *every(scop, (0, 1, 4)))


def test_a_window_of_a_tile() -> None:
    """i_t surrounds all of it: a tile and its neighbours."""
    scop = read(
        """
        for b in range(N):
            for i in range(6):
                T[4 * b + i] = A[4 * b + i]
            for i in range(4):
                B[4 * b + i] = T[4 * b + i] + T[4 * b + i + 2]
        """, A="in 4*N+2", B="out 4*N", T="tmp 4*N+2",
    )  # fmt: skip
    now = contract(initial(scop), "T")
    assert shape(now, "T") == ([6], 1)
    promise(now, *every(scop, (0, 1, 3)))
    parallel = set_kinds(now, {"b": "parallel"})
    promise(parallel)
    assert "E0421" in refusal(set_kinds(initial(scop), {"b": "parallel"}))


def test_what_passes_between_iterations_stays() -> None:
    scop = read(
        """
        for t in range(T):
            for i in range(N):
                if t < 1:
                    S[i] = 0
                S[i] += A[i]
            B[t] = S[0]
        """, "T N", A="in N", B="out T", S="tmp N",
    )  # fmt: skip
    now = initial(scop)
    assert contract(now, "S").scop == now.scop


@pytest.mark.parametrize(
    ("tensor", "reason"),
    [("C", "E0464.*no temporary"), ("X", "E0452.*no tensor 'X'"), ("temp", "E0464.*local already")],
)
def test_refusals(tensor: str, reason: str) -> None:
    now = contract(expanded(symm()), "temp")
    with pytest.raises(IllegalScheduleError, match=f"(?s){reason}"):
        contract(now, tensor)
