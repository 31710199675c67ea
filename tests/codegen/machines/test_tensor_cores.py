"""Fragments of tensor cores: a place for each element, and matrices that come out as fragments."""

from __future__ import annotations

from itertools import product

import pytest

from weft.codegen.machines.tensor_cores import tensor_cores
from weft.ir.instruction import Instruction
from weft.ir.loop_ir import MATRIX, WORD
from weft.ir.scalar_point import PointEvaluator

POINT = PointEvaluator()


@pytest.mark.parametrize("own", tensor_cores(), ids=str)
def test_places_and_elements_are_inverse(own: Instruction) -> None:
    assert own.warp is not None
    for operand in own.operands.values():
        dims, places = list(operand.elements), set()
        for point in product(*(range(own.extents[d]) for d in dims)):
            names = dict(zip(dims, point, strict=True))
            thread, number = (int(POINT.value(e, names)) for e in operand.place)
            back = {"thread": thread, "number": number}
            assert {d: POINT.value(e, back) for d, e in operand.elements.items()} == names
            places.add((thread, number))
        count, left = divmod(len(places), own.warp.threads)
        assert not left and places == {*product(range(own.warp.threads), range(count))}


def test_the_fragments_of_16_bits_are_those_of_the_manual() -> None:
    """PTX ISA 9.0, figures of m16n8k16: what thread 5 has of A, B and C."""
    own = tensor_cores()[0]
    known = {
        "a": [(1, 2), (1, 3), (9, 2), (9, 3), (1, 10), (1, 11), (9, 10), (9, 11)],
        "b": [(1, 2), (1, 3), (1, 10), (1, 11)],
        "acc": [(1, 2), (1, 3), (9, 2), (9, 3)],
    }
    for name, elements in known.items():
        forms = own.operands[name].elements.values()
        found = [
            tuple(POINT.value(e, {"thread": 5, "number": number}) for e in forms)
            for number in range(len(elements))
        ]
        assert found == elements


@pytest.mark.parametrize("own", tensor_cores(), ids=str)
def test_matrices_hold_neighbours_along_the_steps(own: Instruction) -> None:
    """So that a lane's line of shared memory is a row of a matrix (``LoadMatrices``)."""
    for name in own.tensors:
        (dim, steps), word = own.operands[name].elements, WORD // own_size(own, name)
        forms = own.operands[name].elements
        for row, matrix in product(range(MATRIX[0]), range(2)):
            at = {"thread": row * MATRIX[1], "number": matrix * word}
            first = {d: POINT.value(e, at) for d, e in forms.items()}
            for e in range(MATRIX[1] * word):
                there = {dim: first[dim], steps: first[steps] + e}
                thread, number = (POINT.value(p, there) for p in own.operands[name].place)
                assert (thread, number) == (
                    row * MATRIX[1] + e // word,
                    matrix * word + e % word,
                )


def own_size(own: Instruction, name: str) -> int:
    return {32: 1, 16: 2, 8: 4}[own.depth]
