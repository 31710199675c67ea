"""Threads share out rows of a tile where the loops around it do not come out even."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import read
from tests.polyhedral.transform.machine_code import computes
from weft.ir.machine import Cache, Machine
from weft.ir.scalar_expr import Apply, Literal, Var
from weft.polyhedral.schedule_loops import schedule_loops
from weft.polyhedral.transform.scheduled import loops_above

WIDE = Machine("wide", 64, 32, (Cache(1 << 15), Cache(1 << 20)))
ROWS = 200  # fewer than a cache tile would have on one thread


@pytest.mark.long
@pytest.mark.parametrize(
    ("images", "threads", "tiles"),
    [(1, 1, 1), (1, 2, 2), (2, 2, 1), (3, 2, 2), (4, 4, 1), (6, 4, 2), (33, 2, 1)],
)
def test_rows_are_shared_out_where_images_are_not(images: int, threads: int, tiles: int) -> None:
    text = f"""
    for b in range({images}):
        for i in range({ROWS}):
            for j in range(5):
                for k in range(7):
                    C[b, i, j] += A[b, i, k] * B[b, k, j]
    """
    shapes = {"A": f"in {images} {ROWS} 7", "B": f"in {images} 7 5", "C": f"io {images} {ROWS} 5"}
    made = schedule_loops(read(text, "", **shapes), WIDE, threads=threads)
    above = loops_above(made.tree, "S0")
    (rows,) = [x.at["S0"] for x in above if x.name == "i_t"] or [Var("i") // ROWS]
    assert isinstance(rows, Apply) and isinstance(rows.args[1], Literal)
    assert all(x.kind == "parallel" for x in above if x.name in ("b", "i_t"))
    assert -(-ROWS // int(rows.args[1].value)) == tiles
    computes(made, {})
