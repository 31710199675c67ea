"""A vector loop that is all there is goes in strips, for threads to share."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import promise, read
from tests.polyhedral.transform.machine_code import outline
from weft.ir.machine import TYPICAL, Cache, Machine
from weft.ir.schedule_printer import print_schedule
from weft.polyhedral.policy.share import ENOUGH
from weft.polyhedral.schedule_loops import schedule_loops

MACHINE = Machine("test", 64, 32, (Cache(1 << 15), Cache(1 << 20), Cache(1 << 25)))
STRIP = TYPICAL.grain
SIZES = [{"N": n} for n in (0, 1, STRIP - 1, STRIP, STRIP + 3)]


@pytest.mark.parametrize("first", [0, 3])
def test_strips_for_threads(first: int) -> None:
    scop = read(f"for i in range({first}, N):\n    B[i] = A[i] * 3", "N", A="in N", B="io N")
    made = schedule_loops(scop, MACHINE, threads=2)
    assert outline(made) == "i_t!parallel i!vector { S0 }"
    promise(made, *SIZES)
    assert outline(schedule_loops(scop, MACHINE)) == "i!vector { S0 }"


def test_several_statements_share_strips() -> None:
    text = """
    for i in range(N):
        B[i] = A[i] * 3
    for i in range(N):
        A[i] = A[i] + B[i]
    """
    made = schedule_loops(read(text, "N", A="io N", B="io N"), MACHINE, threads=2)
    assert outline(made).startswith("i_t!parallel i!vector")
    promise(made, *SIZES)


def test_loops_too_short_for_two_threads_stay() -> None:
    for size, outlined in ((ENOUGH * STRIP - 1, "i!vector { S0 }"),
                           (ENOUGH * STRIP, "i_t!parallel i!vector { S0 }")):  # fmt: skip
        text = f"for i in range({size}):\n    B[i] = A[i] * 3"
        scop = read(text, "", A=f"in {size}", B=f"io {size}")
        assert outline(schedule_loops(scop, MACHINE, threads=2)) == outlined


@pytest.mark.parametrize(("threads", "size"), [(1, 2 * MACHINE.page // 8), (2, 512)])
def test_strips_through_recurrences_are_two_pages_long_on_one_thread(
    threads: int, size: int
) -> None:
    text = """
    for i in range(1, N):
        for j in range(M):
            A[i, j] = A[i, j] + A[i - 1, j] * B[i, j]
            B[i, j] = B[i, j] + B[i - 1, j] * A[i - 1, j]
    for k in range(1, N):
        for l in range(M):
            B[N - 1 - k, l] = B[N - k, l] * A[N - 1 - k, l]
    """
    scop = read(text, "N M", A="io N M", B="io N M")
    made = schedule_loops(scop, MACHINE, threads=threads)
    assert f"j // {size}" in print_schedule(made.tree)
    promise(made, {"N": 5, "M": 7}, {"N": 3, "M": size + 1})
