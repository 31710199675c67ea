"""Operands that lie badly come from panels: rows on many pages, vectors on two lines."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import read
from weft.ir.machine import Cache, Machine
from weft.ir.scop import Scop
from weft.polyhedral.policy.operand_panels import worth_packing
from weft.polyhedral.policy.product import find_product
from weft.polyhedral.schedule_loops import schedule_loops

WIDE = Machine("wide", 64, 32, (Cache(1 << 15), Cache(1 << 20), Cache(1 << 25)))


def product(
    rows: int, lanes: int, steps: int, left: str = "A[i, k]", right: str = "B[k, j]"
) -> Scop:
    """Of elements of eight bytes."""
    text = f"""
    for i in range({rows}):
        for j in range({lanes}):
            for k in range({steps}):
                C[i, j] += {left} * {right}
    """
    a = f"in {rows} {steps}" if left == "A[i, k]" else f"in {steps} {rows}"
    b = f"in {steps} {lanes}" if right == "B[k, j]" else f"in {lanes} {steps}"
    return read(text, A=a, B=b, C=f"io {rows} {lanes}")


def panels(scop: Scop) -> list[str]:
    statement = scop.statement("S0")
    p = find_product(scop, statement, statement.dims, WIDE)
    assert p is not None and p.tile is not None
    found = worth_packing(scop, p, p.tile, 96, WIDE)
    return [statement.reads[n].tensor for n in found]


@pytest.mark.parametrize(
    ("scop", "tensors"),
    [
        (product(128, 512, 512), ["B"]),  # each step on a page of its own
        (product(128, 64, 96), []),  # few pages
        (product(128, 65, 96), ["B"]),  # rows that begin within a line
        (product(8, 512, 4000), []),  # nothing is read again
        (product(16, 512, 512), []),  # once again, which costs less than the copy
        (product(16, 512, 4000), ["B"]),  # unless it is looked up far away
        (product(512, 64, 512, left="A[k, i]"), ["A"]),
        (product(512, 512, 512, right="B[j, k]"), []),  # that is copied anyway
    ],
)
def test_what_lies_badly_is_copied(scop: Scop, tensors: list[str]) -> None:
    assert panels(scop) == tensors


def test_sizes_that_are_not_known_stay_in_place() -> None:
    text = """
    for i in range(N):
        for j in range(N):
            for k in range(N):
                C[i, j] += A[i, k] * B[k, j]
    """
    scop = read(text, A="in N N", B="in N N", C="io N N")
    statement = scop.statement("S0")
    p = find_product(scop, statement, statement.dims, WIDE)
    assert p is not None
    assert worth_packing(scop, p, ((8,), 24), 96, WIDE) == ()


def test_panels_of_few_rows_are_made_inside_of_the_tile_that_uses_them() -> None:
    made = schedule_loops(product(128, 512, 512), WIDE, threads=2)
    (copy,) = (t for t in made.scop.tensors if t.name.startswith("B_packed"))
    assert copy.scope == "local"
