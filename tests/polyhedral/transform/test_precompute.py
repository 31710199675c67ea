"""Subexpressions of fewer dims, worked out beforehand."""

from __future__ import annotations

from tests.polyhedral.transform.integer_programs import every, promise, read
from weft.ir.scop import Scop
from weft.ir.scop_printer import scop_text
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.precompute import precomputed
from weft.polyhedral.transform.scheduled import Scheduled


def product(bound: str = "N") -> Scop:
    return read(
        f"""
        for i in range(N):
            for j in range({bound}):
                C[i, j] = C[i, j] * b[0]
            for k in range(N):
                for j in range({bound}):
                    C[i, j] += a[0] * A[i, k] * (B[k, j] * B[k, j])
        """, A="in N N", B="in N N", C="io N N", a="in 1", b="in 1",
    )  # fmt: skip


def promised(original: Scop, changed: Scop) -> None:
    promise(Scheduled(original, changed, initial(changed).tree), *every(original))


def test_operands_of_rows_and_of_lanes() -> None:
    scop = product()
    rows, made = precomputed(scop, "S1", ("i", "k"), ("k",))
    both, more = precomputed(rows, "S1", ("k", "j"), ("k",))
    assert (made, more) == (("S1_operand",), ("S1_operand_2",))
    text = scop_text(both)
    assert "S1_operand[i, k] = r0 * r1" in text
    assert "S1_operand_2[k, j" in text
    assert len(both.statement("S1").reads) == 2
    promised(scop, both)


def test_over_a_triangle_only_what_is_used_is_worked_out() -> None:
    scop = product("i")
    changed, made = precomputed(scop, "S1", ("i", "k"), ("k",))
    assert made == ("S1_operand",)
    promised(scop, changed)


def test_operands_that_change_meanwhile_stay() -> None:
    scop = read(
        """
        for i in range(N):
            for k in range(i):
                for j in range(N):
                    A[i, j] += a[0] * A[i, k] * A[k, j]
        """, A="io N N", a="in 1",
    )  # fmt: skip
    assert precomputed(scop, "S0", ("i", "k"), ("k",)) == (scop, ())


def test_single_loads_and_signs_stay() -> None:
    scop = read(
        """
        for i in range(N):
            for k in range(N):
                for j in range(N):
                    C[i, j] -= A[i, k] * B[k, j]
        """, A="in N N", B="in N N", C="io N N",
    )  # fmt: skip
    assert precomputed(scop, "S0", ("i", "k"), ("k",)) == (scop, ())
