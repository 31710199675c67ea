"""Cheap values with a name are computed where they are used; others keep their storage."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import promise, read
from tests.polyhedral.transform.machine_code import computes
from weft.ir.machine import Cache, Machine
from weft.ir.scop import Scop
from weft.polyhedral.schedule_loops import schedule_loops

MACHINE = Machine("test", 16, 8, (Cache(1024), Cache(8192), Cache(1 << 16)))

SCORED = """
for i in range(1, N):
    for j in range(1, M):
        s = a[i] - b[j]
        H[i, j] = H[i, j - 1] * 3 + H[i - 1, j] + s
"""


def scored(text: str) -> Scop:
    arrays = {"G": "io N M"} if "G[" in text else {}
    return read(text, "N M", a="in N", b="in M", H="io N M", s="tmp", **arrays)


def left(scop: Scop) -> list[str]:
    return [t.name for t in schedule_loops(scop, MACHINE).scop.tensors if t.role == "temp"]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_value_with_a_name_needs_no_storage(threads: int) -> None:
    made = schedule_loops(scored(SCORED), MACHINE, threads=threads)
    assert [s.name for s in made.scop.statements] == ["S1"]
    assert [t.name for t in made.scop.tensors] == ["a", "b", "H"]
    promise(made, *({"N": n, "M": m} for n in (0, 1, 2, 9) for m in (0, 1, 7)))
    computes(made, {"N": 11, "M": 19}, {"N": 17, "M": 2})


@pytest.mark.parametrize(
    "body",
    [
        # what it reads is overwritten
        "s = H[i, j - 1]\n        H[i, j - 1] = a[i]\n        H[i, j] = H[i, j] * 3 + s",
        # a copy of what another statement overwrites
        "s = H[i, j]\n        G[i, j] = G[i, j - 1] * 3 + s\n        H[i, j] = a[i]",
        "s = a[i] * a[i] - b[j] * b[j]\n        H[i, j] = H[i, j - 1] * 3 + s",  # costly
        "s = a[i] - b[j]\n        H[i, j] = H[i, j - 1] * s + s * s",  # used more than twice
    ],
)
def test_what_costs_more_to_compute_again_is_stored(body: str) -> None:
    text = f"for i in range(1, N):\n    for j in range(1, M):\n        {body}\n"
    assert left(scored(text)) == ["s"]
    made = schedule_loops(scored(text), MACHINE)
    computes(made, {"N": 11, "M": 19}, {"N": 3, "M": 2})


def test_what_the_reader_itself_overwrites_is_not_stored() -> None:
    body = "s = H[i, j]\n        H[i, j] = H[i, j - 1] * 3 + s"
    text = f"for i in range(1, N):\n    for j in range(1, M):\n        {body}\n"
    assert left(scored(text)) == []
    computes(schedule_loops(scored(text), MACHINE), {"N": 11, "M": 19}, {"N": 3, "M": 2})


def test_a_value_of_another_loop_is_stored() -> None:
    text = """
    for i in range(1, N):
        s = a[i] + 1
        for j in range(1, M):
            H[i, j] = H[i, j - 1] * 3 + s
    """
    assert left(scored(text)) == ["s"]
    computes(schedule_loops(scored(text), MACHINE), {"N": 9, "M": 5})
