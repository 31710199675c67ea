"""Layouts of instructions are one to one, and other formulas are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weft.codegen.machines.tensor_cores import tensor_cores
from weft.codegen.machines.thread_tiles import thread_tiles
from weft.ir.errors import IllegalScheduleError
from weft.ir.instruction import Instruction
from weft.ir.scalar_expr import Expr, Var, literal
from weft.polyhedral.launches.instruction_layout import check_layout

thread, number = Var("thread"), Var("number")


@pytest.mark.parametrize("instruction", (*tensor_cores(), *thread_tiles(64)), ids=str)
def test_records_are_one_to_one(instruction: Instruction) -> None:
    check_layout(instruction)


FORMULAS: dict[str, tuple[str, str, Expr]] = {
    "the same row for all numbers": ("acc", "row", thread // 4),
    "numbers the other way": ("acc", "row", thread // 4 + number % 2 * 8),
    "a row further": ("a", "row", thread // 4 + number // 2 % 2 * 8 + 1),
    "four lanes of eight": ("b", "lane", thread // 8),
    "one step for all": ("b", "q", literal(0)),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_other_formulas_are_refused(name: str) -> None:
    operand, dim, formula = FORMULAS[name]
    own = tensor_cores()[0]
    changed = replace(
        own.operands[operand], elements={**own.operands[operand].elements, dim: formula}
    )
    with pytest.raises(IllegalScheduleError, match=f"WEFT-E0428[^$]*layout of {operand}"):
        check_layout(replace(own, operands={**own.operands, operand: changed}))


COPIES: dict[str, tuple[str, str, Expr]] = {
    "a copy of another row": ("a", "row", thread // 4 + number // 2 * 8 - thread // 31 * 8),
    "a step further": ("a", "q", number % 2 + 1),
    "one step for all": ("b", "q", literal(0)),
    "sums of others": ("acc", "row", number // 8 * 8),
}


@pytest.mark.parametrize("name", COPIES)
def test_other_formulas_of_copies_are_refused(name: str) -> None:
    operand, dim, formula = COPIES[name]
    (own,) = thread_tiles(64)
    changed = replace(
        own.operands[operand], elements={**own.operands[operand].elements, dim: formula}
    )
    with pytest.raises(IllegalScheduleError, match=f"WEFT-E0428[^$]*layout of {operand}"):
        check_layout(replace(own, operands={**own.operands, operand: changed}))
