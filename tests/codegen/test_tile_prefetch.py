"""What register tiles ask for beforehand: lanes of later steps, where the mark says so, and rows
that lie side by side."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.codegen.test_register_tile import agree, j, k, program, statement, tiled
from weft.codegen.from_schedule import build_kernel
from weft.codegen.optimise_kernel import optimise_kernel
from weft.ir import dtypes
from weft.ir.loop_ir import Kernel, Prefetch, walk
from weft.ir.machine import TYPICAL
from weft.ir.scalar_affine import to_affine
from weft.ir.scalar_expr import Expr, Var, literal
from weft.ir.schedule_tree import Band, Mark, RegisterTile, Tree
from weft.ir.scop import Scop

i, N = Var("i"), Var("N")


def product(n: Expr, width: Expr, place: tuple[Expr, Expr] = (k, j)) -> Scop:
    """5 rows and 70 steps, ``n`` lanes in rows of ``width``."""
    inside = (i, literal(4) - i, j, n - 1 - j, k, literal(69) - k)
    s = statement(inside, dtypes.float32, reads=(("A", (i, k)), ("B", place)))
    stored = (width, width) if place != (k, j) else (literal(70), width)
    shapes = {"A": (literal(5), literal(70)), "B": stored, "C": (literal(5), n)}
    return program(s, dtypes.float32, shapes)


def asked(kernel: Kernel, buffer: str = "B") -> list[int]:
    """How many steps ahead lanes of B, or rows of A, are asked for."""
    hints = [s for s in walk(kernel.body) if isinstance(s, Prefetch) and s.buffer == buffer]
    forms = [to_affine(hint.indices[0]) for hint in hints]
    return [form.constant for form in forms if form is not None]


def ahead(lines: int) -> Tree:
    """Tiles of 4 rows, 64 lanes and 70 steps that ask for so many lines."""
    tree = tiled(4, 64, 70)
    assert isinstance(tree, Band) and isinstance(tree.child, Mark)
    return replace(tree, child=replace(tree.child, payload=RegisterTile((4,), 64, ahead=lines)))


def test_lanes_are_asked_for_as_many_lines_ahead_as_the_mark_says() -> None:
    scop = product(literal(80), literal(1024))
    kernel = optimise_kernel(build_kernel(scop, ahead(24), "tile"))
    assert set(asked(kernel)) == {6, 24}  # a tile at the edge has one line
    agree(scop, ahead(24), [{"M": 1, "N": 1, "K": 1}] * 2, exact=True)


def test_more_lines_than_steps_are_those_of_next_tiles() -> None:
    """Eight for each of 70 steps: further on in the same rows."""
    scop = product(literal(80), literal(1024))
    kernel = optimise_kernel(build_kernel(scop, ahead(560), "tile"))
    hints = [s for s in walk(kernel.body) if isinstance(s, Prefetch) and s.buffer == "B"]
    last = [to_affine(hint.indices[1]) for hint in hints]
    assert set(asked(kernel)) == {0}
    assert {form.constant for form in last if form is not None} == {128}
    agree(scop, ahead(560), [{"M": 1, "N": 1, "K": 1}] * 2, exact=True)


@pytest.mark.parametrize("lines, place", [(0, (k, j)), (24, (j, k))])
def test_nothing_else_is_asked_for(lines: int, place: tuple[Expr, Expr]) -> None:
    """Not unless the mark says so; nor lanes that lie apart."""
    scop = product(literal(80), literal(1024), place)
    assert not asked(optimise_kernel(build_kernel(scop, ahead(lines), "tile")))


def upright(lanes: int, place: tuple[Expr, Expr], width: int = 520) -> Kernel:
    """Tiles of 4 rows and ``lanes``, the rows of A, ``width`` elements each in memory, at
    ``place``, of a product of 5 rows, 37 lanes and 41 steps; right as plain loops are."""
    inside = (i, literal(4) - i, j, literal(36) - j, k, literal(40) - k)
    s = statement(inside, dtypes.float32, reads=(("A", place), ("B", (k, j))))
    shapes = {"A": (literal(46), literal(width)), "B": (literal(41), literal(37))}
    scop = program(s, dtypes.float32, {**shapes, "C": (literal(5), literal(37))})
    agree(scop, tiled(4, lanes, 41), [{"M": 1, "N": 1, "K": 1}] * 2, exact=True)
    return optimise_kernel(build_kernel(scop, tiled(4, lanes, 41), "tile"))


def test_rows_side_by_side_are_asked_for_some_steps_ahead() -> None:
    assert set(asked(upright(32, (k, i)), "A")) == {TYPICAL.prefetchers.steps}
    assert not asked(upright(32, (k, i), width=512), "A")  # processors foresee such steps


@pytest.mark.parametrize(
    "lanes, place",
    [
        (32, (i, k)),  # a line of each row serves many steps
        (32, (k, literal(3))),  # the same for all rows
        (32, (k, i + k)),  # not in one column of lines
        (16, (k, i)),  # too little to do in a step to hide another load
    ],
)
def test_no_other_rows_are(lanes: int, place: tuple[Expr, Expr]) -> None:
    assert not asked(upright(lanes, place), "A")
