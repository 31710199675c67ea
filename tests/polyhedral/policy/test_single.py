"""One statement: its vector loop innermost, in strips where it would run down whole columns."""

from __future__ import annotations

from tests.polyhedral.transform.integer_programs import promise, read
from tests.polyhedral.transform.machine_code import outline
from weft.polyhedral.machine import Cache, Machine
from weft.polyhedral.schedule_loops import schedule_loops
from weft.polyhedral.scop import Scop

MACHINE = Machine("test", 64, 32, (Cache(1 << 15), Cache(1 << 20), Cache(1 << 25)))


def sums_along_rows() -> Scop:
    text = """
    for i in range(N):
        for j in range(1, M):
            A[i, j] = A[i, j] + A[i, j - 1]
    """
    return read(text, "N M", A="io N M")


def sums_along_columns() -> Scop:
    text = """
    for i in range(1, N):
        for j in range(M):
            A[i, j] = A[i, j] + A[i - 1, j]
    """
    return read(text, "N M", A="io N M")


SIZES = [{"N": n, "M": m} for n, m in ((0, 3), (1, 1), (9, 2), (17, 20))]


def test_sums_along_rows_go_through_a_few_rows_at_a_time() -> None:
    made = schedule_loops(sums_along_rows(), MACHINE)
    assert outline(made) == "i_t!parallel j i!vector { S0 }"
    promise(made, *SIZES)


def test_sums_along_columns_stay_whole_rows() -> None:
    made = schedule_loops(sums_along_columns(), MACHINE)
    assert outline(made) == "i j!vector { S0 }"
    promise(made, *SIZES)


def test_sums_along_columns_are_strips_for_threads() -> None:
    made = schedule_loops(sums_along_columns(), MACHINE, threads=2)
    assert outline(made) == "j_t!parallel i j!vector { S0 }"
    promise(made, *SIZES)
