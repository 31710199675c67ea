"""Temporaries with elements of their own in each iteration."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import every, literal, promise, read, refusal
from weft.ir.errors import IllegalScheduleError
from weft.ir.scalar_expr import Var
from weft.ir.scop import Scop
from weft.ir.scop_printer import scop_text
from weft.polyhedral.transform.expand import can_expand, expand, expanded, why_not_expand
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled
from weft.polyhedral.transform.set_kinds import set_kinds


def rows() -> Scop:
    """A scalar and a local row per iteration of i, and a scalar that goes through the loop."""
    return read(
        """
        last = 0
        for i in range(N):
            x = A[i]
            for j in range(i, N):
                row[j] = x * j
            for j in range(i, N):
                C[i, j] = row[j] + x + last
            last = x
        """, A="in N", C="io N N", x="tmp", row="tmp N", last="tmp",
    )  # fmt: skip


def test_golden() -> None:
    scop = read("for i in range(2, N):\n x = A[i]\n B[i] = x", A="in N", B="io N", x="tmp")
    assert scop_text(expand(initial(scop), "x", ["i"]).scop) == (
        "scop test(N) where N >= 0\n"
        "  input A: int64[N]\n"
        "  inout B: int64[N]\n"
        "  temp x: int64[N]\n"
        "  S0[i] at (0, i, 0)\n"
        "    where i - 2 >= 0 and N - 1 - i >= 0\n"
        "    r0 = A[i]\n"
        "    x[i] = r0\n"
        "    for 'line 2'\n"
        "  S1[i] at (0, i, 1)\n"
        "    where i - 2 >= 0 and N - 1 - i >= 0\n"
        "    r0 = x[i]\n"
        "    B[i] = r0\n"
        "    for 'line 3'\n"
    )


@pytest.mark.parametrize("tensor", ["x", "row"])
def test_each_iteration_has_its_own(tensor: str) -> None:
    now = expand(initial(rows()), tensor, ["i"])
    promise(now, *every(now.original))


def test_the_loop_may_then_run_in_parallel() -> None:
    scop = read("for i in range(N):\n x = A[i]\n B[i] = x * x", A="in N", B="io N", x="tmp")
    parallel = set_kinds(initial(scop), {"i": "parallel"})
    assert "E0421" in refusal(parallel)
    promise(expand(parallel, "x", ["i"]), {"N": 5})


def test_loops_below_zero_and_parametric_ones() -> None:
    scop = read("for i in range(-N, 3):\n x = A[0]\n B[0] = x", A="in 1", B="io 1", x="tmp")
    promise(expand(initial(scop), "x", ["i"]), {"N": 0}, {"N": 4})


def test_values_that_leave_the_iteration() -> None:
    scop = read(
        """
        for t in range(N):
            last = t
            for i in range(N):
                B[t, i] = last
                last = A[i]
        """, A="in N", B="io N N", last="tmp",
    )  # fmt: skip
    now = initial(scop)
    assert "outside loop i" in why_not_expand(now, "last", ["t", "i"])
    promise(expand(now, "last", ["t"]), *every(scop, (0, 1, 4)))


def test_a_wrong_expansion_is_refused() -> None:
    """Had the precondition been wrong, validation would say so."""
    scop = read(
        "for i in range(N):\n last = A[i]\n for j in range(N):\n  B[i] = last\n  last = j",
        A="in N", B="io N", last="tmp",
    )  # fmt: skip
    assert not can_expand(initial(scop), "last", ["i", "j"])
    assert can_expand(initial(scop), "last", ["i"])
    twisted = rows()
    users = [s.name for s in twisted.statements for a in (*s.reads, *s.writes) if a.tensor == "x"]
    at = {name: Var("i") if name != "S2" else literal(0) for name in users}
    wrong = expanded(twisted, "x", [at])
    assert "E0440" in refusal(Scheduled(twisted, wrong, initial(twisted).tree))


@pytest.mark.parametrize(
    ("tensor", "loops", "reason"),
    [
        ("C", ["i"], "E0461.*no temporary"),
        ("nothing", ["i"], "E0452.*no tensor 'nothing'"),
        ("x", ["j"], "E0461.*outside loop j"),
        ("last", ["i"], "E0461.*outside loop i"),
    ],
)
def test_why_not(tensor: str, loops: list[str], reason: str) -> None:
    with pytest.raises(IllegalScheduleError, match=f"(?s){reason}"):
        expand(initial(rows()), tensor, loops)


def test_values_between_iterations() -> None:
    text = "for i in range(N):\n if i < 1:\n  x = 0\n x += A[i]\n B[i] = x"
    now = initial(read(text, A="in N", B="io N", x="tmp"))
    assert "one iteration of i to another" in why_not_expand(now, "x", ["i"])


def test_read_before_written() -> None:
    scop = read(
        "for i in range(N):\n if i > 0:\n  x = A[i]\n B[i] = x", A="in N", B="io N", x="tmp"
    )
    assert "before it is written" in why_not_expand(initial(scop), "x", ["i"])
