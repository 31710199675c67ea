"""Register tiles of sums whose sizes are parts of open ones: few columns, many channels."""

from __future__ import annotations

from dataclasses import replace

from tests.polyhedral.transform.integer_programs import read
from weft.ir.machine import TYPICAL
from weft.ir.scalar_expr import Var, walk
from weft.ir.schedule_tree import marked_tiles
from weft.polyhedral.schedule_loops import schedule_loops


def lanes(columns: str) -> set[str]:
    """The dims along the lanes of a convolution of 64 channels whose rows have so many columns."""
    text = f"""
    for k in range(64):
        for y in range({columns}):
            for x in range({columns}):
                for c in range(64):
                    for r in range(3):
                        for s in range(3):
                            C[k, y, x] += A[c, y + r, x + s] * B[k, c, r, s]
    """
    scop = read(
        text, "h", A=f"in 64 {columns}+2 {columns}+2", B="in 64 64 3 3",
        C=f"io 64 {columns} {columns}", least=1,
    )  # fmt: skip
    tensors = tuple(replace(t, role="constant") if t.name == "B" else t for t in scop.tensors)
    found = schedule_loops(replace(scop, tensors=tensors), TYPICAL)
    (tile,) = marked_tiles(found.tree).values()
    return {v.name for v in walk(tile.loops[-1].at[tile.statement]) if isinstance(v, Var)}


def test_rows_of_an_open_size_fill_vectors() -> None:
    assert lanes("h") == {"x"}


def test_rows_of_a_part_of_a_size_do_not() -> None:
    assert lanes("(h+127)//128") == {"k"}
