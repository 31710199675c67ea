"""Temporaries in as many parts as their values allow."""

from __future__ import annotations

from tests.polyhedral.transform.integer_programs import every, promise, read
from weft.polyhedral.transform.expand_all import separated
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled


def test_reads_and_writes_that_belong_together() -> None:
    scop = read(
        """
        for i in range(N):
            w = A[i]
            if i > 3:
                w = 2
            B[i] = w + w
            w = B[i]
            w += 1
            C[i] = w
        """, A="in N", B="io N", C="io N", w="tmp",
    )  # fmt: skip
    now, names = separated(scop, "w")
    assert names == ("w", "w_2")
    assert [a.tensor for s in now.statements for a in s.writes] == [
        "w", "w", "B", "w_2", "w_2", "C",
    ]  # fmt: skip
    promise(Scheduled(scop, now, initial(now).tree), *every(scop, (0, 1, 7)))


def test_whole() -> None:
    scop = read("for i in range(N):\n B[i] = w\n w = A[i]", A="in N", B="io N", w="tmp")
    assert separated(scop, "w") == (scop, ("w",))  # the first iteration reads what nobody wrote
    assert separated(scop, "B") == (scop, ("B",))


def test_a_read_that_no_instance_performs_has_no_tensor_of_its_own() -> None:
    scop = read(
        """
        for i in range(N):
            if i > N:
                C[i] = w
            w = A[i]
            B[i] = w
            w = B[i]
            C[i] = w
        """, A="in N", B="io N", C="io N", w="tmp",
    )  # fmt: skip
    now, names = separated(scop, "w")
    assert names == ("w", "w_2")
    assert [a.tensor for s in now.statements for a in s.reads] == ["w", "A", "w", "B", "w_2"]
    assert [a.tensor for s in now.statements for a in s.writes] == ["C", "w", "B", "w_2", "C"]
    promise(Scheduled(scop, now, initial(now).tree), *every(scop, (0, 1, 7)))
