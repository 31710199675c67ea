"""The Δ-box is the exact range of distances, whichever way it was found."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.polyhedral.example_scops import EXAMPLES
from tests.polyhedral.scops import Constraint, Var, at, box, loop, scop, statement, tensor
from weft.ir.errors import BudgetError
from weft.ir.quasi_affine import affine
from weft.ir.scalar_expr import Expr, literal
from weft.ir.schedule_times import paths
from weft.ir.schedule_tree import Loop
from weft.polyhedral.analysis.delta_box import DISTANCE, Distances, Quota, Range
from weft.polyhedral.proof.dependences import Dependence, dependences

i, j, k, n, t = (Var(name) for name in "ijknt")


def _one(write: Expr, read: Expr, size: Expr | int = 32) -> Dependence:
    parameters = ("n",) if size is n else ()
    context = (Constraint(n - 4),) if size is n else ()
    producer = statement("p", box(i=size), at("A", write), dims=("i",))
    consumer = statement("c", box(i=size), at("B", i), (at("A", read),), dims=("i",), position=1)
    whole = scop(
        (tensor("A", 99), tensor("B", size)), producer, consumer,
        parameters=parameters, context=context,
    )  # fmt: skip
    [found] = [d for d in dependences(whole) if d.kind == "flow"]
    return found


def delta_box(dependence: Dependence, loops: Sequence[Loop]) -> tuple[Range, ...]:
    distances = Distances(dependence)
    source, sink = dependence.source.name, dependence.sink.name
    return tuple(distances.between(loop.at[source], loop.at[sink]) for loop in loops)


@pytest.mark.parametrize(
    ("write", "read", "at_p", "at_c", "expected"),
    [
        (i, i, i, i, (0, 0)),
        (i, i - 3, i, i, (3, 3)),
        (2 * i + 1, 2 * i - 5, i, i, (3, 3)),
        (i, i - 3, -i, -i, (-3, -3)),
        (i, i - 3, i // 4, i // 4, (0, 1)),
        (i, i - 4, i // 4, i // 4, (1, 1)),
        (i, i - 4, i % 4, i % 4, (0, 0)),
        (i, i - 3, i % 4, i % 4, (-1, 3)),
        (i, 31 - i, i, i, (-31, 31)),
        (i, 2 * i, i, i, (-15, 0)),
        (i, 2 * i, i, 2 * i, (0, 0)),
        (i // 2, i, i, i, (-16, 0)),
        (i // 2, i // 2, i // 2, i // 2, (0, 0)),
        (literal(0), literal(0), i, i, (-31, 31)),
    ],
)
def test_distance(
    write: Expr, read: Expr, at_p: Expr, at_c: Expr, expected: tuple[int, int]
) -> None:
    assert delta_box(_one(write, read), [loop("l", p=at_p, c=at_c)]) == (expected,)


def test_closed_forms_agree_with_isl() -> None:
    """Every constant that the accesses alone give is what isl finds as well."""
    compared = 0
    for make, tree in EXAMPLES.values():
        above = paths(tree())
        for dependence in dependences(make()):
            closed, general = Distances(dependence), Distances(dependence)
            general.constant = lambda *_: None  # type: ignore[method-assign, assignment]
            source, sink = dependence.source.name, dependence.sink.name
            for one, two in zip(above[source], above[sink], strict=False):
                if one is not two or not isinstance(one, Loop):
                    break
                values = one.at[source], one.at[sink]
                constant = closed.constant(*map(affine, values))
                if constant is not None:
                    compared += 1
                    assert general.between(*values) == (constant, constant)
    assert compared > 50


def test_unbounded_distances_are_none() -> None:
    dependence = _one(literal(0), literal(0), size=n)
    assert delta_box(dependence, [loop("l", p=i, c=i)]) == ((None, None),)


def test_parameters_cancel() -> None:
    dependence = _one(i + n, i + n - 1, size=n)
    assert delta_box(dependence, [loop("l", p=i, c=i)]) == ((1, 1),)
    assert delta_box(dependence, [loop("l", p=i, c=i + n)]) == ((5, None),)


def test_a_stencil_over_time_can_be_skewed() -> None:
    step = statement(
        "s", box(t=8, i=(1, 31)), at("A", t + 1, i),
        (at("A", t, i - 1), at("A", t, i), at("A", t, i + 1)), dims=("t", "i"),
    )  # fmt: skip
    whole = scop((tensor("A", 9, 32),), step)
    loops = [loop("t", s=t), loop("i", s=i), loop("skewed", s=i + t)]
    boxes = [delta_box(d, loops) for d in dependences(whole)]
    assert boxes == [
        ((1, 1), (1, 1), (2, 2)),
        ((1, 1), (0, 0), (1, 1)),
        ((1, 1), (-1, -1), (0, 0)),
    ]


def test_halo_of_a_tiled_producer() -> None:
    """A consumer that reads A[i - 1 … i + 1] in tiles of 8 needs at most one tile to each side."""
    dependences_ = [_one(i + 1, i + d) for d in (0, 1, 2)]
    tiles = [loop("tile", p=i // 8, c=i // 8)]
    assert [delta_box(d, tiles) for d in dependences_] == [((0, 1),), ((0, 0),), ((-1, 0),)]


def test_a_quota_is_for_all_questions_to_isl() -> None:
    quota = Quota(2 * DISTANCE)
    distances = [Distances(_one(i, 31 - i), quota=quota) for _ in range(3)]
    assert [d.between(i, i) for d in distances[:2]] == [(-31, 31)] * 2
    with pytest.raises(BudgetError, match="WEFT-E0477"):
        distances[2].between(i, i)
    assert Distances(_one(i, i - 3), quota=quota).between(i, i) == (3, 3)  # isl is not asked
