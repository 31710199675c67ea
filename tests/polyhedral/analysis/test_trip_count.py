"""How often loops turn."""

from __future__ import annotations

from tests.polyhedral.transform.integer_programs import matmul, read
from weft.polyhedral.analysis.trip_count import trip_count
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.tile import tile


def test_constants() -> None:
    of = initial(read(
        """
        for i in range(N):
            for j in range(2 * i, 2 * i + 5):
                A[j] = i
        for i in range(3, 10):
            A[i] = 0
        for i in range(5, 5):
            A[i] = 1
        """, A="io 2*N+10",
    ))  # fmt: skip
    found = [trip_count(of.scop, of.tree, loop.name) for loop in of.loops()]
    assert found == [None, 5, 7, 0]


def test_tiles() -> None:
    now = tile(initial(matmul()), {"i": 4, "j": 7})
    found = {loop.name: trip_count(now.scop, now.tree, loop.name) for loop in now.loops()}
    assert found == {"i_t": None, "j_t": None, "i_p": 4, "j_p": 7, "k": None}
