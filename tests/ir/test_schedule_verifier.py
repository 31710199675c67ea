"""Every rule of schedule trees has a tree that breaks it."""

from __future__ import annotations

import pytest

from tests.polyhedral.example_scops import EXAMPLES
from tests.polyhedral.scops import (
    Band,
    Constraint,
    Leaf,
    Origin,
    Sequence,
    Var,
    at,
    box,
    loop,
    nest,
    scop,
    statement,
    tensor,
)
from weft.ir.errors import IllegalScheduleError
from weft.ir.scalar_expr import Expr
from weft.ir.schedule_tree import Tree
from weft.ir.schedule_verifier import verify_schedule
from weft.ir.scop import Scop

i, j, n = Var("i"), Var("j"), Var("n")


def _two() -> Scop:
    return scop(
        (tensor("A", 8, 8), tensor("B", 8, 8)),
        statement("S", box(i=8, j=8), at("A", i, j), origin=Origin("S", (i, j), "Conv node 'c1'")),
        statement("T", box(i=8, j=8), at("B", i, j), position=1),
    )


def _refused(tree: Tree, code: str, of: Scop | None = None) -> str:
    with pytest.raises(IllegalScheduleError) as caught:
        verify_schedule(of or _two(), tree)
    assert caught.value.code == code
    return str(caught.value)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_are_well_formed(name: str) -> None:
    make, tree = EXAMPLES[name]
    verify_schedule(make(), tree())


def test_a_statement_is_missing() -> None:
    text = _refused(nest("T", i, j), "WEFT-E0410")
    assert "runs statement S 0 times" in text and "Conv node 'c1'" in text


def test_a_statement_runs_twice() -> None:
    tree = Sequence((nest("S", i, j), nest("T", i, j), nest("S", i, j, prefix="again")))
    assert "runs statement S 2 times" in _refused(tree, "WEFT-E0410")


def test_an_unknown_statement() -> None:
    tree = Sequence((nest("S", i, j), nest("T", i, j), Leaf("U")))
    assert "'U'" in _refused(tree, "WEFT-E0410")


def test_two_loops_of_one_name() -> None:
    tree = Sequence((nest("S", i, j, prefix="x"), nest("T", i, j, prefix="x")))
    assert "'x0'" in _refused(tree, "WEFT-E0411")


def test_a_loop_without_a_value() -> None:
    tree = Band((loop("i", S=i),), Sequence((nest("S", j), nest("T", j))))
    assert "loop i, statement T" in _refused(tree, "WEFT-E0412")


def test_a_value_of_unknown_variables() -> None:
    text = _refused(Sequence((nest("S", i, j), nest("T", i, Var("q")))), "WEFT-E0412")
    assert "'q'" in text and "i, j" in text


def test_a_value_that_is_not_quasi_affine() -> None:
    _refused(Sequence((nest("S", i, j), nest("T", i, i * j))), "WEFT-E0412")


@pytest.mark.parametrize("values", [(i,), (i, i), (i // 2, j), (i + j,), (i % 4, i // 8, j), ()])
def test_instances_that_the_loops_do_not_tell_apart(values: tuple[Expr, ...]) -> None:
    text = _refused(Sequence((nest("S", i, j), nest("T", *values))), "WEFT-E0413")
    assert "T[i=" in text


@pytest.mark.parametrize(
    "values",
    [
        (i, j),
        (j, -i),
        (i + j, j),
        (i // 4, j // 4, i % 4, j % 4),
        (i // 4, j // 4, i, j),
        (i // 4, (i - 4 * (i // 4)) // 2, i % 2, j),
        (i % 2, i // 2, j),
        (8 * i + j,),  # only because j < 8
        (i // 2 + 4 * j, i % 2),
    ],
)
def test_instances_that_the_loops_tell_apart(values: tuple[Expr, ...]) -> None:
    verify_schedule(_two(), Sequence((nest("S", i, j), nest("T", *values))))


def test_the_sample_names_the_parameters() -> None:
    only = statement("S", box(i=n), at("A", i), dims=("i",))
    whole = scop((tensor("A", n),), only, parameters=("n",), context=(Constraint(n - 1),))
    assert "for n=" in _refused(nest("S", i // 2), "WEFT-E0413", whole)


def test_a_point_needs_no_loop() -> None:
    verify_schedule(scop((tensor("A"),), statement("S", (), at("A"))), Leaf("S"))


@pytest.mark.parametrize("value", [i // (1 << 62) // 4, i + j * (1 << 40), i - (1 << 63)])
def test_values_beyond_64_bits(value: Expr) -> None:
    """Tiles of tiles of 2**62 would be tiles of 2**64, which are none."""
    text = _refused(Sequence((nest("S", i, j), nest("T", i, value, j))), "WEFT-E0412")
    assert "does not fit 64 bits" in text
