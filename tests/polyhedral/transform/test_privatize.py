"""Elements of their own for all temporaries."""

from __future__ import annotations

from tests.polyhedral.transform.integer_programs import matmul, read, refusal
from tests.polyhedral.transform.machine_code import computes
from weft.ir.scop import Scop
from weft.polyhedral.transform.expand_all import privatize
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.set_kinds import parallel


def scalars() -> Scop:
    return read(
        """
        for i in range(N):
            s = 0
            for j in range(N):
                s += A[i, j]
            B[i] = s
        """, A="in N N", B="io N", s="tmp",
    )  # fmt: skip


def test_it_makes_loops_parallel() -> None:
    assert "WEFT-E0421" in refusal(parallel(initial(scalars()), "i"))
    now = privatize(initial(scalars()))
    assert len(now.scop.tensor("s").shape) == 1
    assert [str(s) for s in now.steps] == ["privatize()"]
    computes(parallel(now, "i"))


def test_nothing_to_do() -> None:
    start = initial(matmul())
    assert privatize(start).scop == start.scop
