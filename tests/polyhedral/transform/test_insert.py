"""New statements in a tree."""

from __future__ import annotations

import pytest

from tests.polyhedral.scops import loop, nest
from tests.polyhedral.transform.machine_code import _outline
from weft.ir.errors import IllegalScheduleError
from weft.ir.scalar_expr import Var, literal
from weft.ir.schedule_tree import Band, Leaf, Mark, Sequence, Tree
from weft.polyhedral.transform.edit import Place, insert

i, j = Var("i"), Var("j")
ZERO = [{"new": literal(0)}]


def tree() -> Tree:
    """i { S; j k { T }; U }, V behind it."""
    t = Band((loop("j", T=j), loop("k", T=i)), Leaf("T"))
    inner = Sequence((Leaf("S"), Mark("anything", t), Leaf("U")))
    return Sequence((Band((loop("i", S=i, T=i, U=i),), inner), nest("V", i)))


@pytest.mark.parametrize(
    ("place", "count", "result"),
    [
        (Place("i", before=("T",)), 1, "i { S; new; j k { T }; U }; V0 { V }"),
        (Place("i", before=("U", "T")), 1, "i { S; new; j k { T }; U }; V0 { V }"),
        (Place("i", after=("S", "T")), 1, "i { S; j k { T }; new; U }; V0 { V }"),
        (Place("i", after=("U",)), 1, "i { S; j k { T }; U; new }; V0 { V }"),
        (Place("j", before=("T",)), 2, "i { S; j { new; k { T } }; U }; V0 { V }"),
        (Place("k", after=("T",)), 3, "i { S; j k { T; new }; U }; V0 { V }"),
        (Place("", before=("V",)), 0, "i { S; j k { T }; U }; new; V0 { V }"),
        (Place("", before=("T",)), 0, "new; i { S; j k { T }; U }; V0 { V }"),
    ],
)
def test_places(place: Place, count: int, result: str) -> None:
    made = insert(tree(), place, Leaf("new"), ZERO * count)
    assert _outline(made) == result


def test_the_loops_around_have_values_for_it() -> None:
    made = insert(tree(), Place("k", before=("T",)), Leaf("new"), [{"new": x} for x in (i, j, i)])
    assert isinstance(made, Sequence) and isinstance(made.children[0], Band)
    assert made.children[0].loops[0].at["new"] == i
    assert "new" not in made.children[1].loops[0].at  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "place", [Place("x", before=("T",)), Place("i", before=("V",)), Place("", after=("W",))]
)
def test_no_such_place(place: Place) -> None:
    with pytest.raises(IllegalScheduleError) as caught:
        insert(tree(), place, Leaf("new"), ZERO)
    assert caught.value.code == "WEFT-E0470"
