"""The recursion that strategies share: who is asked, what is undone, what always has an answer."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import PROGRAMS, every, lu, promise, read
from tests.polyhedral.transform.machine_code import outline
from weft.ir.errors import BudgetError
from weft.ir.machine import Cache, Machine
from weft.ir.scalar_expr import Var
from weft.ir.schedule_tree import Leaf, Tree
from weft.ir.scop import Constraint, Scop
from weft.polyhedral.policy.fuse import fuse
from weft.polyhedral.policy.planner import Group, Planner, Strategy
from weft.polyhedral.policy.share import share
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled, tidy

MACHINE = Machine("test", 16, 8, (Cache(1024), Cache(8192)))


def planner(scop: Scop, *strategies: Strategy) -> Planner:
    named = [(s.__name__, s) for s in strategies]
    return Planner(initial(scop), MACHINE, named, fuse, share)


def nothing(planner: Planner, group: Group) -> Tree | None:
    return None


def scheduled(made: Planner) -> Scheduled:
    original = made.scop
    tree = tidy(made.completed(made.nest(made.everything())))
    return Scheduled(original, made.scop, tree)


@pytest.mark.parametrize("name", PROGRAMS)
def test_without_strategies_loops_are_as_written(name: str) -> None:
    scop = PROGRAMS[name]()
    promise(scheduled(planner(scop, nothing)), *every(scop, (0, 1, 7)))


def test_statements_that_depend_on_each_other_stay_together() -> None:
    text = "for t in range(N):\n for i in range(1, N):\n  A[i] = A[i - 1] + B[i]\n  B[i] = A[i]"
    made = planner(read(text, A="io N", B="io N"), nothing)
    assert outline(scheduled(made)) == "t i { S0; S1 }"
    assert made.notes == ["as written: S0, S1"]


def test_the_first_answer_counts() -> None:
    asked: list[str] = []

    def one(planner: Planner, group: Group) -> Tree | None:
        asked.append("one")
        return None

    def two(planner: Planner, group: Group) -> Tree | None:
        asked.append("two")
        return Leaf(group.names[0])

    def three(planner: Planner, group: Group) -> Tree | None:
        raise AssertionError

    made = planner(read("A[0] = 3 * A[0]", A="io 1"), one, two, three)
    assert outline(scheduled(made)) == "S0"
    assert asked == ["one", "two"] and made.notes == ["two: S0"]


@pytest.mark.parametrize("over_budget", [False, True])
def test_a_strategy_without_an_answer_leaves_nothing_behind(over_budget: bool) -> None:
    def splits(planner: Planner, group: Group) -> Tree | None:
        name = group.names[-1]
        planner.isolate(name, [Constraint(Var("i") - 3)], group)
        planner.planned[name] = nothing
        planner.tiled[name] = 1
        if over_budget:
            raise BudgetError("WEFT-E0477", "no steps left")
        return None

    made = planner(lu(), splits)
    before = made.scop
    promise(scheduled(made), *every(before, (0, 1, 7)))
    assert made.scop == before and not made.planned and not made.tiled and not made.copies
    assert bool(made.given_up) == over_budget


def test_what_loops_determine() -> None:
    text = "for i in range(N):\n for j in range(N):\n  A[i, j] = 2 * A[i, j]"
    made = planner(read(text, A="io N N"))
    i, j = Var("i"), Var("j")
    group = made.everything().inside({"S0": i + j})
    assert made.free(group, "S0") == ("i", "j")
    assert made.free(group.inside({"S0": j}), "S0") == ()
    tile = made.everything().inside({"S0": i // 4})
    assert made.free(tile, "S0") == ("i", "j") and tile.in_tile and not group.in_tile
    assert made.point(tile, {"S0": i}) == {"S0": i % 4}
    assert made.point(tile, {"S0": j}) == {"S0": j}
