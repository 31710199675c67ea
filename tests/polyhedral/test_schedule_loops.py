"""Automatic schedules: what becomes of a program in one line, and that it still is that program."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from tests.polyhedral.transform.integer_programs import (
    gemm,
    lu,
    matmul,
    promise,
    read,
    stencil,
    triangular,
)  # fmt: skip
from tests.polyhedral.transform.machine_code import computes, outline
from weft.ir.errors import BudgetError, WeftWarning
from weft.ir.machine import Cache, Machine
from weft.ir.schedule_tree import marked_tiles
from weft.ir.scop import Scop
from weft.polyhedral import schedule_loops as scheduler
from weft.polyhedral.policy import planner
from weft.polyhedral.schedule_loops import schedule_loops
from weft.polyhedral.transform.initial import initial

MACHINE = Machine("test", 16, 8, (Cache(1024), Cache(8192), Cache(1 << 16)))
SMALL = (0, 1, 2, 7, 13)


def floyd_warshall() -> Scop:
    text = """
    for k in range(N):
        for i in range(N):
            for j in range(N):
                P[i, j] += P[i, k] * P[k, j]
    """
    return read(text, P="io N N")


def chain() -> Scop:
    text = """
    for i in range(N):
        for j in range(N):
            B[i, j] = 2 * A[i, j]
    for i in range(N):
        for j in range(N):
            C[i, j] = B[i, j] + A[i, j]
    """
    return read(text, A="in N N", B="io N N", C="io N N")


def knot() -> Scop:
    """No loop orders S0 and S1 but the textual ones: each reads the other's past and reversal."""
    text = """
    for t in range(N):
        for i in range(N):
            A[i] = B[N - 1 - i] + A[i]
        for i in range(N):
            B[i] = A[N - 1 - i] - B[i]
    """
    return read(text, A="io N", B="io N")


def no_statement_runs() -> Scop:
    return read("for i in range(N, N):\n A[i] = 3 * A[i]", A="io N")


PROGRAMS = {
    "gemm": gemm, "matmul": matmul, "lu": lu, "triangular": triangular, "stencil": stencil,
    "floyd-warshall": floyd_warshall, "chain": chain, "knot": knot, "empty": no_statement_runs,
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_stay_what_they_are(name: str, threads: int) -> None:
    scop = PROGRAMS[name]()
    made = schedule_loops(scop, MACHINE, threads=threads)
    assert made.original == scop
    promise(made, *(dict.fromkeys(scop.parameters, n) for n in SMALL))


@pytest.mark.parametrize("name", ["lu", "triangular", "stencil", "knot"])
def test_machine_code(name: str) -> None:
    made = schedule_loops(PROGRAMS[name](), MACHINE)
    sizes = [dict.fromkeys(made.scop.parameters, n) for n in (11, 25)]
    computes(made, *sizes)


@pytest.mark.parametrize("name", ["gemm", "lu", "triangular", "floyd-warshall"])
def test_products_run_in_registers(name: str) -> None:
    tree = schedule_loops(PROGRAMS[name](), MACHINE).tree
    assert marked_tiles(tree)


def test_neighbours_share_a_pass_over_memory() -> None:
    assert outline(schedule_loops(chain(), MACHINE)) == "i!parallel j!vector { S0; S1 }"


def test_one_program_one_schedule() -> None:
    for make in PROGRAMS.values():
        one, two = (schedule_loops(make(), MACHINE, threads=2) for _ in range(2))
        assert (one.scop, one.tree, one.notes) == (two.scop, two.tree, two.notes)


def test_a_budget_that_does_not_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    """WEFT-E0477, which is said in a warning; the loops are those of the program."""
    monkeypatch.setattr(planner, "STEPS", 0)
    with pytest.warns(WeftWarning, match="gave up on loops for S0, S1.* budget"):
        made = schedule_loops(stencil(), MACHINE)
    assert outline(made) == "t { i { S0 }; i_2 { S1 } }"
    assert any(note.startswith("gave up on") for note in made.notes)
    promise(made, {"T": 3, "N": 7})


def test_a_program_with_too_many_dependences_stays_as_it_is() -> None:
    broke = BudgetError("WEFT-E0400", "too many dependences")
    scop = chain()
    fails = patch.object(scheduler, "private_results", side_effect=broke)
    with fails, pytest.warns(WeftWarning, match=r"any loops but .*too many dependences"):
        made = schedule_loops(scop, MACHINE)
    assert made.tree == initial(scop).tree and made.scop == scop
    assert "too many dependences" in made.notes[0]
