"""Register tiles, by the names of loops."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import lu, matmul, refusal, triangular
from tests.polyhedral.transform.machine_code import computes, outline
from weft.ir.errors import IllegalScheduleError
from weft.ir.schedule_tree import Mark, RegisterTile, walk
from weft.polyhedral.transform.distribute import distribute
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.reorder import reorder
from weft.polyhedral.transform.scheduled import Scheduled
from weft.polyhedral.transform.set_kinds import set_kinds
from weft.polyhedral.transform.tensorize import tensorize
from weft.polyhedral.transform.tile import tile


def tiled(rows: int = 3, lanes: int = 4) -> Scheduled:
    now = tile(distribute(initial(matmul()), "i"), {"i_S1": rows, "j_S1": lanes})
    return reorder(now, ["k", "i_S1_p", "j_S1_p"])


@pytest.mark.parametrize(("rows", "lanes"), [(3, 4), (1, 8), (5, 1), (2, 19)])
def test_matmul(rows: int, lanes: int) -> None:
    now = tensorize(tiled(rows, lanes), ["k"], ["i_S1_p"], "j_S1_p")
    assert outline(now) == "i j { S0 }; i_S1_t j_S1_t { k i_S1_p j_S1_p { S1 } }"
    (mark,) = [node for node in walk(now.tree) if isinstance(node, Mark)]
    assert mark.payload == RegisterTile((rows,), lanes)
    assert str(now.steps[-1]) == 'tensorize(["k"], ["i_S1_p"], "j_S1_p")'
    computes(now)


def test_loops_that_get_a_kind_are_ordinary_again() -> None:
    made = tensorize(tiled(), ["k"], ["i_S1_p"], "j_S1_p")
    for loop, kind in (("k", "serial"), ("i_S1_p", "unrolled"), ("j_S1_p", "vector")):
        now = set_kinds(made, {loop: kind})  # type: ignore[dict-item]
        assert now.tree == set_kinds(tiled(), {loop: kind}).tree  # type: ignore[dict-item]
        computes(now)
    outside = set_kinds(made, {"i_S1_t": "parallel"})
    assert [node for node in walk(outside.tree) if isinstance(node, Mark)]


def test_without_rows() -> None:
    computes(tensorize(reorder(tiled(), ["i_S1_p", "k", "j_S1_p"]), ["k"], [], "j_S1_p"))


def test_a_triangle() -> None:
    """Row i of B takes from all rows below it, tile by tile."""
    now = tile(distribute(initial(triangular()), "i"), {"j": 4})
    now = reorder(now, ["i", "j_t", "k", "j_p"])
    computes(tensorize(now, ["k"], [], "j_p"))


def test_a_stream_that_moves_the_elements_is_refused() -> None:
    now = tile(initial(lu()), {"i_2": 4, "j": 8})
    text = refusal(tensorize(now, ["j_t"], ["i_2_p"], "j_p"))
    assert text.startswith("WEFT-E0424: a register tile cannot stand here")


def test_errors() -> None:
    for streams, rows, lanes, why in (
        ([], ["i_S1_p"], "j_S1_p", "a tile without a stream has nothing to keep in registers"),
        (["k"], ["j_S1_p"], "i_S1_p", "not the innermost loops of one statement, in this order"),
        (["j_S1_t"], ["k"], "i_S1_p", "sizes decide how many iterations loop k has"),
    ):
        with pytest.raises(IllegalScheduleError, match="E0463") as caught:
            tensorize(tiled(), streams, rows, lanes)
        assert caught.value.why.endswith(why)
    with pytest.raises(IllegalScheduleError, match=r"E0450.*'x'"):
        tensorize(initial(triangular()), ["x"], [], "k")
