"""A loop cut where conditions hold takes the same turns, and the middle has the right ones."""

from __future__ import annotations

import pytest

from tests.codegen.marked_loops import i, j, kernel, m, mark, n, same
from weft.codegen.cut_loop import cut_loop, side_of
from weft.codegen.rebuild import map_scopes
from weft.ir.loop_ir import Block, For, If, Stmt, children
from weft.ir.loop_verifier import verify_kernel
from weft.ir.scalar_expr import Expr, Load, literal
from weft.ir.size_arithmetic import evaluate

CONDITIONS = {
    "from": j >= 2,
    "past": j > n - i,
    "up to": j <= i,
    "below": j < (n + 1) // 2,
    "scaled": j * 3 - n >= i,
    "falling": n - j * 2 >= -3,
    "floor": (j + i) // 2 >= n - 4,
    "floor on the right": i > (j + 1) // 3,
    "floor less": n - (j // 2) >= i + 1,
    "floor of a floor": (j // 2 + 1) // 2 >= i,
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_side_is_where_its_condition_holds(name: str) -> None:
    condition = CONDITIONS[name]
    side = side_of(condition, "j")
    assert side is not None
    for n_ in (0, 1, 7):
        for i_ in range(-3, 9):
            begin = evaluate(side.value, {"n": n_, "i": i_})
            for j_ in range(-12, 25):
                holds = bool(evaluate(condition, {"n": n_, "i": i_, "j": j_}))
                assert holds == ((j_ >= begin) if side.lower else (j_ < begin))


@pytest.mark.parametrize(
    "condition", [j % 2 >= 1, j.equal(3), j // 2 + j // 3 >= n, j // 2 * 2 >= n, j * j >= n]
)
def test_conditions_without_one_side_have_none(condition: Expr) -> None:
    assert side_of(condition, "j") is None


def loop(*conditions: Expr) -> For:
    guarded: list[Stmt] = [If(c, mark(k, i, j)) for k, c in enumerate(conditions, start=1)]
    return For("j", literal(0), m, "serial", Block((*guarded, mark(7, i, j))))


def whole(stmt: Stmt) -> Stmt:
    return For("i", literal(0), n, "serial", stmt)


@pytest.mark.parametrize(
    "names", [("from", "up to"), ("past", "floor", "below"), ("falling",), ("scaled", "from")]
)
def test_the_same_turns(names: tuple[str, ...]) -> None:
    conditions = [CONDITIONS[name] for name in names]
    before = loop(*conditions)
    marks = [mark(k, i, j) for k in range(1, len(conditions) + 1)]
    after = cut_loop(before, conditions, Block((*marks, mark(7, i, j))), set())
    assert after is not None
    same(kernel(whole(before)), kernel(whole(after)))


def test_what_the_loop_does_not_change_is_asked_before_it() -> None:
    before = loop(j >= 2, i >= 3)
    after = cut_loop(
        before, [j >= 2, i >= 3], Block(tuple(mark(k, i, j) for k in (1, 2, 7))), set()
    )
    assert isinstance(after, If) and after.condition == (i >= 3) and after.otherwise == before
    same(kernel(whole(before)), kernel(whole(after)))


def test_parts_may_be_cut_again() -> None:
    """Their bounds are names that the first cut gave."""
    all_marks = Block(tuple(mark(k, i, j) for k in (1, 2, 7)))
    before = loop(j >= 2, j >= 4)

    def again(stmt: Stmt, names: frozenset[str]) -> Stmt:
        cut = isinstance(stmt, For) and cut_loop(stmt, [j >= 4], all_marks, names)
        return cut or map_scopes(stmt, names, again)

    once = Block((mark(1, i, j), *children(before.body)[1:]))
    after = cut_loop(before, [j >= 2], once, {"n", "m", "i"})
    assert after is not None
    twice = kernel(whole(again(after, frozenset({"n", "m", "i"}))))
    verify_kernel(twice)
    same(kernel(whole(before)), twice)


def test_nothing_to_cut() -> None:
    assert cut_loop(loop(i >= 3), [i >= 3], mark(1, i, j), set()) is None
    assert cut_loop(loop(j >= 3), [j % 2 >= 1], mark(1, i, j), set()) is None
    data = Load("x", (i, j), literal(0).dtype) >= j
    assert cut_loop(loop(data), [data], mark(1, i, j), set()) is None
