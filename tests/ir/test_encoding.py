"""IRs as bytes: what is read is what was written; what nobody wrote is refused."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import msgspec
import pytest

from tests.polyhedral.example_scops import EXAMPLES
from weft.codegen.machines.dot_products import dot_product
from weft.ir import dtypes
from weft.ir.encoding import MALFORMED, Encoding
from weft.ir.instruction import Instruction, Intrinsic
from weft.ir.scalar_expr import Apply, Expr, Literal, Var, literal, select
from weft.ir.schedule_tree import Band, Leaf, Loop, Mark, RegisterTile, Sequence, Tree
from weft.ir.scop import Scop
from weft.runtime.certificate import encoding

i = Var("i")
WHOLE = encoding()
ONE = Encoding((dtypes.DType, Literal, Var, Apply))
INSTRUCTION = dot_product(
    "dot", (dtypes.bfloat16,) * 2, 2, 8, 32, Intrinsic("dot", ("acc", "a", "b"))
)


@pytest.mark.parametrize("name", EXAMPLES)
def test_statements_survive(name: str) -> None:
    scop = EXAMPLES[name][0]()
    data = WHOLE.encode(scop)
    assert WHOLE.decode(data, Scop) == scop
    assert WHOLE.encode(WHOLE.decode(data, Scop)) == data


def test_trees_survive() -> None:
    tile = RegisterTile((4, 2), 8, INSTRUCTION, ahead=2, shared=True)
    loops = tuple(Loop(n, {"S": i % 4, "A": i // 4}, "vector") for n in ("b", "a"))
    tree = Sequence((Band(loops, Mark(tile, Leaf("S"))), Leaf("A")))
    found: Tree = WHOLE.decode(WHOLE.encode(tree), Sequence)
    assert found == tree
    again = found.children[0].loops[0]  # type: ignore[union-attr]
    assert list(again.at) == ["S", "A"]  # in their own order


def test_every_emission_survives() -> None:
    for instruction in (INSTRUCTION, replace(INSTRUCTION, emission=None)):
        assert WHOLE.decode(WHOLE.encode(instruction), Instruction) == instruction


def test_numbers_survive() -> None:
    """Zeros of both signs, infinities, and equal numbers of different types, side by side."""
    for dtype, values in (("float64", (0.0, -0.0, math.inf, 1.0)), ("int64", (1, -(2**63)))):
        for value in values:
            found = ONE.decode(ONE.encode(literal(value, dtype)), Literal)
            assert repr(found) == repr(literal(value, dtype))
    both = literal(0.0, "float64") - literal(-0.0, "float64")
    assert repr(ONE.decode(ONE.encode(both), Apply)) == repr(both)
    nan = ONE.decode(ONE.encode(literal(math.nan, "float32")), Literal)
    assert math.isnan(nan.value)


def test_what_is_equal_is_written_once() -> None:
    """2**40 leaves, 41 sums."""
    expr: Expr = i
    for _ in range(40):
        expr = Apply("add", (expr, expr))
    data = ONE.encode(expr)
    assert len(data) < 400
    found = ONE.decode(data, Apply)
    assert found.args[0] is found.args[1]
    assert ONE.encode(i + (i + 1)) == ONE.encode(Var("i") + (Var("i") + 1))


def test_depth_is_no_limit() -> None:
    expr: Expr = i
    for _ in range(50_000):
        expr = Apply("neg", (expr,))
    found: Expr = ONE.decode(ONE.encode(expr), Apply)
    depth = 0
    while found.children:
        (found,), depth = found.children, depth + 1
    assert depth == 50_000 and found == i


# ---- what nobody wrote --------------------------------------------------------------------------

INT64 = [0, "int64", "int", 64]


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ([], "list index out of range"),
        ([[9]], "list index out of range"),
        ([[-1, "int64", "int", 64]], "-1 is no class"),
        ([[True, "int64", "int", 64]], "True is no class"),
        ([["0", "int64", "int", 64]], "'0' is no class"),
        ([[0, "int64", "int"]], "shorter"),
        ([[0, "int64", "int", 64, 1]], "longer"),
        ([[0, "int65", "int", 65]], "int65"),
        ([[0, "int64", "int", 32]], "is none of"),
        ([[0, "int64", "number", 64]], "'number' is none of"),
        ([[0, "int64", "int", 64.0]], "64.0 is none of"),
        ([INT64, [2, "i", 1]], "1 of 1 nodes"),
        ([INT64, [2, "i", -1]], "-1 of 1 nodes"),
        ([INT64, [2, "i", None]], "None of 1 nodes"),
        ([INT64, [2, 5, 0]], "5 is none of"),
        ([INT64, [2, "i", 0], [2, "j", 1]], "Var is none of"),
        ([INT64, [1, 1.5, 0]], "1.5 is none of"),
        ([INT64, [1, True, 0]], "True is none of"),
        ([INT64, [2, "i", 0], [3, "plus", [1, 1]]], "plus"),
        ([INT64, [2, "i", 0], [3, "add", [1]]], "E0102"),
        ([INT64, [2, "i", 0], [3, "add", []]], "out of range"),
        ([INT64, [2, "i", 0], [3, "add", 1]], "1 is none of"),
        ([INT64, [0, "int32", "int", 32], [2, "i", 0], [2, "j", 1], [3, "add", [2, 3]]], "E0104"),
        ([INT64], "DType is no Var"),
    ],
)
def test_malformed(nodes: list[object], why: str) -> None:
    with pytest.raises(MALFORMED, match=why):
        ONE.decode(msgspec.msgpack.encode(nodes), Var)


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x91" * 100_000, b"\xa1i", b"\x91\x00"])
def test_no_list_of_nodes(data: bytes) -> None:
    with pytest.raises(MALFORMED):
        ONE.decode(data, Var)


@dataclass(frozen=True)
class Pairs:
    names: frozenset[str]
    pair: tuple[int, str]


def test_sets_and_pairs() -> None:
    own = Encoding((Pairs,))
    made = Pairs(frozenset("cab"), (1, "x"))
    assert own.decode(own.encode(made), Pairs) == made
    assert own.encode(made) == msgspec.msgpack.encode([[0, ["a", "b", "c"], [1, "x"]]])
    for names, pair in ((["b", "a"], [1, "x"]), (["a", "a"], [1, "x"]), ([1], [1, "x"]),
                        ("a", [1, "x"]), (["a"], [1]), (["a"], ["x", 1])):  # fmt: skip
        with pytest.raises(MALFORMED):
            own.decode(msgspec.msgpack.encode([[0, names, pair]]), Pairs)


def test_a_key_that_stands_twice() -> None:
    own = Encoding((dtypes.DType, Var, Loop))
    nodes = [INT64, [1, "i", 0], [2, "x", [["S", 1], ["S", 1]], "serial"]]
    with pytest.raises(MALFORMED, match="twice"):
        own.decode(msgspec.msgpack.encode(nodes), Loop)


def test_branches_are_of_one_dtype() -> None:
    whole = select(i < 1, i, i + 1)
    assert WHOLE.decode(WHOLE.encode(whole), type(whole)) == whole
    wrong = replace(whole, if_false=Literal(1.0, dtypes.float32))
    with pytest.raises(MALFORMED, match="E0104"):
        WHOLE.decode(WHOLE.encode(wrong), type(whole))
