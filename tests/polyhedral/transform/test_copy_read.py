"""One read from a copy that is made before everything else."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import promise, read
from weft.ir.scop_printer import scop_text
from weft.polyhedral.transform.cache_read import copy_read
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled


@pytest.mark.parametrize("order", ["ik", "ki"])
@pytest.mark.parametrize(("rows", "steps"), [(1, 1), (5, 7), (2, 13)])
def test_each_point_reads_its_own_element(rows: int, steps: int, order: str) -> None:
    scop = read(
        f"""
        for i in range(1, {rows + 1}):
            for j in range(3):
                C[i, j] = 1
        for i in range(1, {rows + 1}):
            for j in range(3):
                for k in range(2, {steps + 2}):
                    C[i, j] += A[3*k - 1, {rows} - i] * B[k, j]
        """, "", A=f"in {3 * steps + 5} {rows}", B=f"in {steps + 2} 3", C=f"io {rows + 1} 3",
    )  # fmt: skip
    changed, name = copy_read(scop, "S1", 0, tuple(order), "dense")
    first = changed.statements[0]
    assert first.name == name and first.dims == tuple(order)
    assert "A_dense[i - 1, k - 2]" in scop_text(changed) or order == "ki"
    assert [r.tensor for r in changed.statement("S1").reads] == ["A_dense", "B"]
    promise(Scheduled(scop, changed, initial(changed).tree), {})


def test_two_reads_of_one_tensor_have_copies_of_their_own() -> None:
    scop = read(
        """
        for i in range(4):
            for j in range(3):
                for k in range(5):
                    C[i, j] += A[i, 2*k] * A[j, 2*k]
        """, "", A="in 4 10", C="io 4 3",
    )  # fmt: skip
    changed, one = copy_read(scop, "S0", 0, ("i", "k"), "dense")
    changed, other = copy_read(changed, "S0", 1, ("j", "k"), "dense")
    assert one != other and len({r.tensor for r in changed.statement("S0").reads}) == 2
    promise(Scheduled(scop, changed, initial(changed).tree), {})
