"""What tiles that read the same lanes ask for: all of the next ones, once for all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

import numpy as np
import pytest

from tests.codegen.test_register_tile import agree, i, j, k, program, statement
from weft.codegen.from_schedule import build_kernel
from weft.codegen.optimise_kernel import optimise_kernel
from weft.ir import dtypes
from weft.ir.loop_interpreter import Machine, Memory
from weft.ir.loop_ir import Prefetch, Stmt
from weft.ir.scalar_expr import Literal, Var, literal
from weft.ir.schedule_tree import Band, Leaf, Loop, Mark, RegisterTile, Tree
from weft.ir.scop import Scop
from weft.ir.tensor_expr import as_size

LINE = 16  # elements
STEP = 2 * 32  # elements that a tile reads in a step, at most


def product(rows: int | Var, lanes: int, steps: int, *, panels: int = 0) -> Scop:
    """``panels``: B lies in panels of so many lanes."""
    inside = (i, rows - 1 - i, j, literal(lanes - 1) - j, k, literal(steps - 1) - k)
    place = (j // panels, k, j % panels) if panels else (k, j)
    shape = (-(-lanes // panels), steps, panels) if panels else (steps, lanes)
    s = statement(inside, dtypes.float32, reads=(("A", (i, k)), ("B", place)))
    sizes = {"A": (rows, steps), "B": shape, "C": (rows, lanes)}
    shapes = {name: tuple(map(as_size, size)) for name, size in sizes.items()}
    return program(s, dtypes.float32, shapes)


def tree(rows: int, lanes: int, part: int = 0, *, shared: bool = True, block: int = 0) -> Tree:
    """Lanes, then rows, in parts of so many steps and blocks of so many rows."""
    at = {"it": i // block} if block else {}
    at |= {"kt": k // part} if part else {}
    outer = at | {"jr": j // lanes, "ir": i // rows}
    inner = {"k": k, "ip": i % rows, "jp": j % lanes}
    mark = RegisterTile((rows,), lanes, shared=shared)
    loops = [tuple(Loop(n, {"S": e}) for n, e in names.items()) for names in (outer, inner)]
    return Band(loops[0], Mark(mark, Band(loops[1], Leaf("S"))))


@dataclass(slots=True)
class Watched(Machine):
    """It remembers when lines of B were asked for, as the number of elements read until then, which
    were read before they were, and which ``late``, in the step in which they were asked for."""

    asked: dict[int, int] = field(default_factory=dict)
    missed: list[int] = field(default_factory=list)
    late: set[int] = field(default_factory=set)
    reads: int = 0

    def run(self, stmt: Stmt) -> None:
        if isinstance(stmt, Prefetch) and stmt.buffer == "B":
            places = zip(stmt.indices, self.memory["B"].strides, strict=True)
            line = sum(int(self.value(i)) * n for i, n in places) // LINE
            self.asked.setdefault(line, self.reads)
        Machine.run(self, stmt)

    def touched(self, memory: Memory, place: int, *, writes: bool) -> None:
        line = place // LINE
        if memory.buffer.name != "B":
            return
        if line not in self.asked and line not in self.missed:
            self.missed.append(line)
        self.reads += 1
        if self.reads - self.asked.get(line, self.reads) <= STEP:
            self.late.add(line)


def watched(scop: Scop, tree: Tree, rows: int = 1) -> Watched:
    """``rows``: of A and C, where their number is open."""
    kernel = optimise_kernel(build_kernel(scop, tree, "tile"))
    sizes = {
        t.name: [int(n.value) if isinstance(n, Literal) else rows for n in t.shape]
        for t in scop.tensors
    }
    machine = Watched({"M": rows, "N": 1, "K": 1})
    machine.take(kernel, {name: np.ones(prod(size), np.float32) for name, size in sizes.items()})
    machine.run(kernel.body)
    return machine


def lines_of(scop: Scop, lanes: range, steps: range, panels: int = 0) -> set[int]:
    width = int(scop.tensor("B").shape[-1].value)  # type: ignore[union-attr]
    height = int(scop.tensor("B").shape[-2].value)  # type: ignore[union-attr]
    places = ((x, y) for x in lanes for y in steps)
    if panels:
        return {((x // panels * height + y) * panels + x % panels) // LINE for x, y in places}
    return {(y * width + x) // LINE for x, y in places}


@pytest.mark.long
@pytest.mark.parametrize("part", [0, 4])
@pytest.mark.parametrize("panels", [0, 32])
@pytest.mark.parametrize(("rows", "lanes"), [(4, 64), (5, 96), (7, 64), (13, 64)])
def test_all_but_the_first_lanes_are_asked_for(
    rows: int, lanes: int, panels: int, part: int
) -> None:
    """By 2, 3, 4 and 7 tiles."""
    scop, steps = product(rows, lanes, 8, panels=panels), range(part or 8)
    machine = watched(scop, tree(2, 32, part))
    assert set(machine.missed) == lines_of(scop, range(32), steps, panels)
    agree(scop, tree(2, 32, part), [{"M": 1, "N": 1, "K": 1}] * 2, exact=True)


@pytest.mark.parametrize("panels", [0, 32])
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 12, 13, 19])
def test_an_open_number_of_rows_asks_for_as_much(rows: int, panels: int) -> None:
    """In blocks of 12 rows, of which the last may be short."""
    scop, blocks = product(Var("M"), 64, 8, panels=panels), tree(2, 32, block=12)
    machine = watched(scop, blocks, rows)
    assert set(machine.missed) == lines_of(scop, range(32), range(8), panels)
    agree(scop, blocks, [{"M": rows, "N": 1, "K": 1}] * 2, exact=True)


@pytest.mark.long
@pytest.mark.parametrize("rows", [4, 7, 13])
@pytest.mark.parametrize("lanes", [104, 97, 111])
def test_lanes_in_rows_that_begin_anywhere(rows: int, lanes: int) -> None:
    """They reach into one line more; the first ones' last line is the next ones' first."""
    scop = product(rows, lanes, 8)
    machine = watched(scop, tree(2, 32))
    assert {*machine.missed, *machine.late} <= lines_of(scop, range(32), range(8))
    agree(scop, tree(2, 32), [{"M": 1, "N": 1, "K": 1}] * 2, exact=True)


def test_lanes_that_are_cut() -> None:
    """Panels are whole all the same; in rows a narrow tile asks for as little as it reads."""
    for panels in (0, 32):
        scop = product(4, 80, 8, panels=panels)
        missed = set(watched(scop, tree(2, 32, 4)).missed)
        first = lines_of(scop, range(32), range(4), panels)
        assert missed == first if panels else missed > first
        agree(scop, tree(2, 32, 4), [{"M": 1, "N": 1, "K": 1}] * 2, exact=True)


@pytest.mark.parametrize("panels", [0, 32])
def test_a_shorter_part_at_the_end(panels: int) -> None:
    """Of which tiles ask for less than all."""
    scop = product(4, 96, 16, panels=panels)
    machine = watched(scop, tree(2, 32, 7))
    shorter = lines_of(scop, range(96), range(14, 16), panels)
    assert set(machine.missed) - shorter == lines_of(scop, range(32), range(7), panels)
    agree(scop, tree(2, 32, 7), [{"M": 1, "N": 1, "K": 1}] * 2, exact=True)


def test_nothing_is_asked_for_unless_the_mark_says_so() -> None:
    assert not watched(product(4, 64, 16), tree(2, 32, shared=False)).asked


def test_lanes_of_one_panel_have_none_behind_them() -> None:
    scop = product(4, 32, 16)
    assert not watched(scop, tree(2, 32)).asked.keys() - lines_of(scop, range(64), range(17))
    agree(scop, tree(2, 32), [{"M": 1, "N": 1, "K": 1}] * 2, exact=True)
