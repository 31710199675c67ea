"""Expressions as operations: what these compute is what the expression is, for random ones."""

from __future__ import annotations

from random import Random

import numpy as np

from tests.accel.targets import target
from weft.accel.instruction_selection import InstructionSelector
from weft.accel.instruction_tree import Constant, Held, Tree, leaves, nodes
from weft.ir.build import maximum, minimum
from weft.ir.dtypes import i8, i32
from weft.ir.scalar_expr import Expr, Load, Var, cast, literal, rewrite
from weft.ir.scalar_interpreter import evaluate

SUMS, OTHER = Load(0, (), i32), Load(1, (), i32)
EDGES = (-(2**31), -(2**31) + 1, -65536, -129, -128, -127, -1, 0, 1, 2, 127, 128, 2**31 - 1)


def data(seed: int) -> dict[int, np.ndarray]:
    random = np.random.default_rng(seed)
    values = [np.array(EDGES), random.integers(-(2**31), 2**31, 40), random.integers(-300, 300, 40)]
    whole = np.concatenate(values).astype(np.int32)
    return {0: whole, 1: random.permutation(whole)}


def computed(expr: Expr, given: dict[int, np.ndarray]) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.broadcast_to(evaluate(expr, {}, lambda n, _: given[n]), given[0].shape)


def run(tree: Tree, given: dict[int, np.ndarray]) -> np.ndarray:
    """What the operations leave, each by its pattern with its numbers, in the place of what they
    begin with."""
    return left({number: array.copy() for number, array in given.items()}, tree)


def left(places: dict[int, np.ndarray], tree: Tree) -> np.ndarray:
    """The array that ``tree`` leaves its result in: one of ``places``, or a new one."""
    match tree:
        case Held(number):
            return places[number]
        case Constant(value):
            return np.full(places[0].shape, value, np.int32)
    fields = tree.fields
    whole = rewrite(
        tree.compute.value,
        lambda e: literal(fields[e.name], e.dtype) if isinstance(e, Var) else None,
    )
    for name, value in fields.items():
        assert tree.compute.operation.holds(name, value), f"{name} = {value} has no room"
    parts = {}
    for number, operand in enumerate(tree.operands, 1):
        parts[number] = left(places, operand)
    place = np.zeros_like(places[0]) if tree.on is None else left(places, tree.on)
    place[:] = computed(whole, {**parts, 0: place})
    return place


def random_expression(pick: Random, depth: int) -> Expr:
    value: Expr = SUMS
    for _ in range(depth):
        number = pick.choice((0, 1, -1, 5, 127, -128, 32767, -32768, pick.randint(-999, 999)))
        match pick.randrange(11):
            case 0:
                value = value + literal(number, i32)
            case 1:
                value = value - literal(number, i32)
            case 2:
                value = value >> pick.choice((1, 7, 15, 16, 30))
            case 3:
                value = minimum(value, literal(number, i32))
            case 4:
                value = maximum(literal(number, i32), value)
            case 5:
                value = value + OTHER
            case 6:
                value = value * literal(pick.choice((2, 4, 256)), i32)
            case 7:
                value = value // literal(pick.choice((2, 64)), i32)
            case 8:  # twice
                value = value + (value >> 3)
            case 9:
                value = maximum(value >> 1, SUMS)
            case 10:
                value = maximum(value, OTHER) if pick.random() < 0.5 else OTHER + value
    return value


def selector() -> InstructionSelector:
    acc = frozenset({"acc"})
    return InstructionSelector(target().capabilities.computes, {0: acc, 1: acc})


def test_random_expressions() -> None:
    covered = 0
    for seed in range(150):
        expr = random_expression(Random(f"cover {seed}"), 1 + seed % 6)
        tree = selector().tree(expr, "acc")
        if tree is None:
            continue
        covered += 1
        given = data(seed)
        np.testing.assert_array_equal(run(tree, given), computed(expr, given), f"{seed}: {expr}")
    assert covered >= 120, covered


def test_what_is_clipped_goes_through_few_bits() -> None:
    """int32 → int8 → int32 of what has 8 bits anyway is nothing; of what has more, it is kept."""
    clipped = maximum(minimum(SUMS, literal(127, i32)), literal(-128, i32))
    again = cast(cast(clipped, i8), i32) + literal(1, i32)
    tree = selector().tree(again, "acc")
    assert tree is not None
    np.testing.assert_array_equal(run(tree, data(0)), computed(again, data(0)))
    assert selector().tree(cast(cast(SUMS, i8), i32) + literal(1, i32), "acc") is None


def test_what_is_not_covered() -> None:
    for expr in (SUMS * OTHER, SUMS // literal(3, i32), SUMS >> OTHER, OTHER - SUMS):
        assert selector().tree(expr, "acc") is None, expr


def test_ties_to_even() -> None:
    """(v + half + (the bit that decides)) >> n needs v twice: once it is copied."""
    value = SUMS + OTHER
    bit = ((value >> 11) + literal(1, i32)) << 15 << 15 << 1 >> 15 >> 15 >> 1
    expr = (value + literal(1024, i32) + bit) >> 11
    tree = selector().tree(expr, "acc")
    assert tree is not None
    np.testing.assert_array_equal(run(tree, data(0)), computed(expr, data(0)))


def test_too_many_nodes() -> None:
    expr: Expr = SUMS
    for n in range(70):
        expr = maximum(expr + literal(n, i32), literal(n, i32))
    assert selector().tree(expr, "acc") is None


def test_the_fewest_operations() -> None:
    """A shift by 20 is two; a number of 16 bits is in the instruction, a larger one is loaded."""
    tree = selector().tree(SUMS >> 20, "acc")
    assert tree is not None and [n.compute.operation.name for n in nodes(tree)] == ["shr_imm"] * 2
    tree = selector().tree(SUMS + literal(32767, i32), "acc")
    assert tree is not None and list(leaves(tree)) == [Held(0, "acc")]
    tree = selector().tree(SUMS + literal(10**6, i32), "acc")
    assert tree is not None
    np.testing.assert_array_equal(run(tree, data(0)), computed(SUMS + literal(10**6, i32), data(0)))


def test_out_of_nothing() -> None:
    for value in (0, 5, -128):
        tree = selector().fill(value, "acc")
        assert tree is not None and (run(tree, data(0)) == value).all()
