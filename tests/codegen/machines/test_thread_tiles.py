"""Tiles of threads as an instruction of a warp: every thread has the operands of its own sums, and
the prelude's function computes what the record says."""

from __future__ import annotations

from itertools import product

import numpy as np

from weft.codegen.machines.thread_tiles import thread_tiles
from weft.ir.instruction import ACCUMULATOR, ROW
from weft.ir.scalar_point import PointEvaluator

POINT = PointEvaluator()
(OWN,) = thread_tiles(64)
THREADS, SUMS, LEFT, RIGHT = 32, 32, 8, 16  # of a warp; numbers of a thread


def element(name: str, thread: int, number: int) -> dict[str, int]:
    at = {"thread": thread, "number": number}
    return {d: int(POINT.value(e, at)) for d, e in OWN.operands[name].elements.items()}


def test_a_place_has_the_element_that_it_is_of() -> None:
    for name, operand in OWN.operands.items():
        dims = list(operand.elements)
        for point in product(*(range(OWN.extents[d]) for d in dims)):
            names = dict(zip(dims, point, strict=True))
            thread, number = (int(POINT.value(e, names)) for e in operand.place)
            assert element(name, thread, number) == names


def test_each_element_is_had_as_often_as_it_says() -> None:
    for name, numbers in ((ACCUMULATOR, SUMS), ("a", LEFT), ("b", RIGHT)):
        found = [
            tuple(element(name, thread, number).values())
            for thread, number in product(range(THREADS), range(numbers))
        ]
        assert {found.count(one) for one in found} == {OWN.operands[name].copies}


def test_a_thread_multiplies_its_own() -> None:
    """Sum ``row * 8 + lane`` from ``a[row * 2 + q]`` and ``b[q * 8 + lane]``: the prelude's own."""
    random = np.random.default_rng(0)
    a, b = random.standard_normal((32, 2)), random.standard_normal((32, 2))
    found = np.zeros((32, 32))
    for thread in range(THREADS):
        left = [a[e[ROW], e["q"]] for e in (element("a", thread, v) for v in range(LEFT))]
        right = [b[e["lane"], e["q"]] for e in (element("b", thread, v) for v in range(RIGHT))]
        for row, lane in product(range(4), range(8)):
            at = element(ACCUMULATOR, thread, row * 8 + lane)
            found[at[ROW], at["lane"]] += sum(
                left[row * 2 + q] * right[q * 8 + lane] for q in range(2)
            )
    np.testing.assert_allclose(found, a @ b.T)
