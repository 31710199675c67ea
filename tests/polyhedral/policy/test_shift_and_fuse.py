"""Two passes over an array in each step become one, where nothing between waits for all of it."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import promise, read
from tests.polyhedral.transform.machine_code import computes
from weft.ir.machine import Cache, Machine
from weft.ir.scalar_expr import Var
from weft.ir.scop import Scop
from weft.polyhedral.policy import serial
from weft.polyhedral.schedule_loops import schedule_loops
from weft.polyhedral.transform.scheduled import Scheduled, loops_above

MACHINE = Machine("test", 64, 32, (Cache(1 << 15), Cache(1 << 20), Cache(1 << 25)))


@pytest.fixture(autouse=True)
def narrow_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serial, "COLUMNS", 4)


def program(row: str = "i", stored: str = "A[i, j]") -> Scop:
    """Column k is taken off all later ones; by ``row`` of it, and what is ``stored``."""
    text = f"""
    for k in range(N):
        for i in range(M):
            Q[i, k] = A[i, k] * 3
        for j in range(k + 1, N):
            for i in range(M):
                R[k, j] += Q[i, k] * A[{row}, j]
            for i in range(M):
                {stored} -= Q[i, k] * R[k, j]
    """
    return read(text, "M N", A="io M N", Q="io M N", R="io N N")


def ahead(made: Scheduled) -> bool:
    """Whether the update of a step goes with the sums of the next one."""
    loops = [loop for loop in loops_above(made.tree, "S2") if "S1" in loop.at]
    return any((loop.at["S2"], loop.at["S1"]) == (Var("k") + 1, Var("k")) for loop in loops)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_update_goes_with_the_sums_of_the_next_step(threads: int) -> None:
    made = schedule_loops(program(), MACHINE, threads=threads)
    assert ahead(made)
    assert len([loop for loop in loops_above(made.tree, "S2") if "S1" in loop.at]) == 3 + threads
    promise(made, *({"M": m, "N": n} for m, n in ((0, 3), (1, 1), (2, 4), (3, 5), (5, 9))))
    computes(made, {"M": 7, "N": 8}, {"M": 3, "N": 17})


def test_sums_that_wait_for_all_rows_do_not() -> None:
    """What the next step sums up first, this one stores last."""
    made = schedule_loops(program("M - 1 - i"), MACHINE)
    assert not ahead(made)
    promise(made, *({"M": m, "N": n} for m, n in ((0, 3), (2, 4), (3, 9))))


def test_another_array_is_no_reason() -> None:
    made = schedule_loops(program(stored="R[k, j]"), MACHINE)
    assert not ahead(made)
