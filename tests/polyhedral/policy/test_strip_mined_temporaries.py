"""Temporaries larger than any argument live in strips, and only these."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import promise, read
from tests.polyhedral.transform.machine_code import computes
from weft.ir.machine import Cache, Machine
from weft.ir.scalar_expr import Literal
from weft.polyhedral.policy import row_tiles
from weft.polyhedral.schedule_loops import schedule_loops
from weft.polyhedral.transform.scheduled import Scheduled

MACHINE = Machine("test", 16, 8, (Cache(1024), Cache(8192), Cache(1 << 16)))

ROWS = """
for i in range(N):
    for j in range(N):
        s[j] = 0
        for d in range(D):
            s[j] += q[i, d] * k[j, d]
    for d in range(D):
        y[i, d] = 0
    for j in range(N):
        for d in range(D):
            y[i, d] += s[j] * q[j, d]
"""


@pytest.fixture(autouse=True)
def small_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_tiles, "STRIP", 4)


def growing(made: Scheduled, tensor: str) -> int:
    """The sizes of ``tensor``'s storage that grow with the parameters."""
    found = made.scop.tensor(tensor)
    return sum(not isinstance(size, Literal) for size in found.shape[found.contracted :])


@pytest.mark.parametrize("threads", [1, 2])
def test_a_row_for_each_iteration_is_kept_for_a_strip_of_them(threads: int) -> None:
    scop = read(ROWS, "N D", q="in N D", k="in N D", y="io N D", s="tmp N")
    made = schedule_loops(scop, MACHINE, threads=threads)
    assert growing(made, "s") == 1
    promise(made, *({"N": n, "D": 2} for n in (0, 1, 4, 7)))
    computes(made, {"N": 11, "D": 3}, {"N": 8, "D": 5})


def test_what_an_argument_grows_like_is_free_to_grow() -> None:
    scop = read(ROWS, "N D", q="in N D", k="in N D", y="io N D", s="tmp N")
    assert row_tiles._unusual(scop, scop.tensor("s")) is False
    wide = read("for i in range(N):\n for j in range(N):\n  t[i, j] = A[i, j]\n"
                "for i in range(N):\n for j in range(N):\n  B[i, j] = t[j, i]",
                A="in N N", B="io N N", t="tmp N N")  # fmt: skip
    assert row_tiles._unusual(wide, wide.tensor("t")) is False


def test_what_crosses_all_iterations_stays_whole() -> None:
    text = """
    for i in range(N):
        for j in range(N):
            t[i, j] = x[i] + y[j]
    for i in range(N):
        for j in range(N):
            x[i] += t[j, i]
    """
    made = schedule_loops(read(text, x="io N", y="in N", t="tmp N N"), MACHINE)
    assert growing(made, "t") == 2
    computes(made, {"N": 9})
