"""Arrangements go through a nest's addresses, each as often as the nest does, and none too soon."""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import prod
from random import Random

import pytest

from tests.accel.targets import compute
from weft.accel.hardware_loops import Arrangement, Loop, arrange, collapsed


def addresses(loops: tuple[Loop, ...], operands: int) -> list[tuple[int, ...]]:
    """What each operand's address is, in the order of ``loops``."""
    return [
        tuple(sum(i * loop.steps[n] for i, loop in zip(index, loops, strict=True))
              for n in range(operands))
        for index in product(*(range(loop.extent) for loop in loops))
    ]  # fmt: skip


def random_loops(pick: Random, operands: int, folds: int) -> list[Loop]:
    """The first operand's address is another one in each turn, but for ``folds`` of the loops."""
    count = pick.randint(0, 4)
    summed = set(pick.sample(range(count), min(count, pick.randint(0, folds))))
    stride, loops = 1, []
    for n in range(count):
        extent = pick.choice((1, 2, 3, 4, 7, 9))
        target = 0 if n in summed else stride
        stride *= extent if target else 1
        steps = tuple(pick.choice((0, 1, 2, 5, 16, 30)) for _ in range(operands - 1))
        loops.append(Loop(extent, (target, *steps)))
    pick.shuffle(loops)
    return loops


def check(name: str, loops: list[Loop], made: Arrangement) -> None:
    own = compute(name)
    operands = 1 + len(own.operands)
    whole = addresses((*made.issued, *made.hardware, *made.unrolled), operands)
    assert Counter(whole) == Counter(addresses(tuple(loops), operands))
    assert len(made.hardware) == len(own.loops)
    assert made.words == prod(loop.extent for loop in made.unrolled)
    assert made.instructions * made.count == prod(loop.extent for loop in loops)
    last: dict[int, int] = {}
    for turn, (target, *_) in enumerate(addresses((*made.hardware, *made.unrolled), operands)):
        assert turn - last.get(target, -99) >= own.operation.apart, "updated again too soon"
        last[target] = turn
    for turn, loop in zip(own.loops, made.hardware, strict=True):
        assert own.operation.holds(turn.field, loop.extent - turn.offset)


@pytest.mark.parametrize("name", ("gemm", "reset", "add", "add_imm"))
def test_random_nests(name: str) -> None:
    own = compute(name)
    for seed in range(60):
        pick = Random(f"{name} {seed}")
        loops = random_loops(pick, 1 + len(own.operands), 3 if name == "gemm" else 0)
        check(name, loops, arrange(own, loops))


def test_few_micro_operations() -> None:
    """What is not listed takes instructions of its own."""
    for seed in range(40):
        pick = Random(f"few {seed}")
        loops = random_loops(pick, 3, 2)
        for most in (1, 2, 5):
            made = arrange(compute("gemm"), loops, most)
            assert made.words <= most
            check("gemm", loops, made)


def test_steps_that_no_field_holds() -> None:
    """ACC has 2,048 elements: a step of 2,048 is no factor."""
    loops = [Loop(3, (2048, 1, 0)), Loop(5, (1, 3, 0)), Loop(4, (5, 70_000, 1))]
    made = arrange(compute("gemm"), loops)
    check("gemm", loops, made)
    assert not any(step > 2047 for loop in made.hardware for step in loop.steps)


def test_a_sum_alone_takes_instructions_of_its_own() -> None:
    """Nine products into one element: one after the other, none within an instruction."""
    made = arrange(compute("gemm"), [Loop(9, (0, 1, 1))])
    check("gemm", [Loop(9, (0, 1, 1))], made)
    assert made.instructions == 9


def test_neighbours_become_one() -> None:
    assert collapsed([Loop(3, (8, 4)), Loop(1, (5, 5)), Loop(4, (2, 1))]) == (Loop(12, (2, 1)),)
    assert collapsed([Loop(3, (8, 4)), Loop(4, (2, 2))]) == (Loop(3, (8, 4)), Loop(4, (2, 2)))
