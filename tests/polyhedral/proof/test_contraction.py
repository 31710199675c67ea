"""Storage that tiles share is refused where a tile still needs it, and accepted where none does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.example_scops import band
from tests.polyhedral.scops import (
    Band,
    Constraint,
    Leaf,
    Sequence,
    Statement,
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
from weft.ir.scop import Access, Scop
from weft.polyhedral.proof.contraction import check_contraction
from weft.polyhedral.proof.legality import check

i, j, m, n = (Var(name) for name in "ijmn")


def _tiled(tile_read: Expr = i // 4, contracted: int = 1) -> Scop:
    """L[tile, within] is written and read in tiles of 4."""
    return scop(
        (
            tensor("L", 4, 4, scope="local", contracted=contracted),
            tensor("B", 16, role="output"),
        ),
        statement("p", box(i=16), at("L", i // 4, i % 4)),
        statement("c", box(i=16), at("B", i), (at("L", tile_read, i % 4),), position=1),
    )


def _fused(outer: Expr = i // 4) -> Tree:
    parts = (nest("p", i % 4), nest("c", i % 4))
    return Band((loop("tile", p=outer, c=outer),), Sequence(parts))


def _refused(of: Scop, tree: Tree) -> str:
    with pytest.raises(IllegalScheduleError) as caught:
        check_contraction(of, tree)
    assert caught.value.code == "WEFT-E0423"
    return str(caught.value)


def test_loops_tell_tiles_apart_together() -> None:
    def around(*values: Expr) -> Tree:
        parts = (nest("p", i % 4), nest("c", i % 4))
        loops = (loop(f"t{k}", p=value, c=value) for k, value in enumerate(values))
        return Band(tuple(loops), Sequence(parts))

    check(_tiled(), around(i // 8, i // 4 - 2 * (i // 8)))
    check(_tiled(), around(-(i // 4)))
    assert "no storage" in _refused(_tiled(), around(i // 8))
    assert "no storage" in _refused(_tiled(), around(i // 4 - 2 * (i // 8)))


def test_a_tile_that_is_written_and_read_in_one_iteration() -> None:
    check(_tiled(), _fused())
    check(_tiled(), _fused(-(i // 4) + 7 + 2 * (i // 4)))


def test_nothing_is_asked_of_tensors_with_storage() -> None:
    check(_tiled(contracted=0), Sequence((nest("p", i), nest("c", i))))


def test_all_tiles_written_before_any_is_read() -> None:
    text = _refused(_tiled(), Sequence((nest("p", i), nest("c", i))))
    assert "dimension 0 of L" in text


def test_loops_that_hold_two_tiles() -> None:
    _refused(_tiled(), _fused(i // 8))


def test_a_tile_that_reads_its_neighbour() -> None:
    of = _tiled(tile_read=i // 4 - 1)
    _refused(of, _fused())


def _refilled(where: int) -> tuple[Scop, Tree]:
    """A panel that is packed again in every iteration of m (where = 1), or once (where = 0)."""
    panel = at("L", i // 4, i % 4)
    pack = statement("pack", box(m=3, i=16) if where else box(i=16), panel, (at("X", i),),
                     dims=("m", "i") if where else ("i",))  # fmt: skip
    use = statement("use", box(m=3, i=16), at("B", m, i), (panel,), dims=("m", "i"), position=1)
    of = scop(
        (
            tensor("X", 16, role="input"),
            tensor("L", 4, 4, scope="local", contracted=1),
            tensor("B", 3, 16, role="output"),
        ),
        pack,
        use,
    )
    values: dict[str, tuple[Expr, ...]] = {
        "pack": (m if where else m * 0, i // 4),
        "use": (m, i // 4),
    }
    parts = (band(["a"], {"pack": (i,)}, Leaf("pack")), band(["b"], {"use": (i,)}, Leaf("use")))
    return of, band(["m", "tile"], values, Sequence(parts))


def test_a_panel_that_is_packed_again_in_every_iteration() -> None:
    of, tree = _refilled(1)
    check_contraction(of, tree)


def test_a_panel_that_is_packed_in_the_first_iteration_only() -> None:
    of, tree = _refilled(0)
    text = _refused(of, tree)
    assert "use[m=" in text and "pack[" in text


def test_data_dependent_accesses_are_not_followed() -> None:
    producer = statement("p", box(i=16), at("L", i // 4, i % 4))
    consumer: Statement = statement(
        "c", box(i=16), at("B", i), (Access("L", (), may=True),), position=1
    )
    tensors = (tensor("L", 4, 4, contracted=1), tensor("B", 16, role="output"))
    _refused(scop(tensors, producer, consumer), _fused())


def test_a_single_tile_needs_no_loop() -> None:
    """All of L is one tile: values may go from any iteration to any other."""
    of = scop(
        (tensor("L", 1, 16, scope="local", contracted=1), tensor("B", 16, role="output")),
        statement("p", box(i=16), at("L", i // 16, i)),
        statement("c", box(i=16), at("B", i), (at("L", i * 0, i),), position=1),
    )
    check(of, Band((loop("i", p=i, c=i + 3),), Sequence((Leaf("p"), Leaf("c")))))
    check(of, Sequence((nest("p", i), nest("c", -i))))


def test_a_single_tile_for_all_sizes_that_there_are() -> None:
    """There is one tile of each 16."""
    of = scop(
        (
            tensor("L", (n + 15) // 16, 16, scope="local", contracted=1),
            tensor("B", n, role="output"),
        ),
        statement("p", box(i=n), at("L", i // 16, i % 16), dims=("i",)),
        statement("c", box(i=n), at("B", i), (at("L", i // 16, i % 16),), position=1,
                  dims=("i",)),
        parameters=("n",), context=(Constraint(n - 1), Constraint(16 - n)),
    )  # fmt: skip
    tree = Sequence((nest("p", i), nest("c", i)))
    check(of, tree)
    _refused(replace(of, context=(Constraint(n - 1), Constraint(32 - n))), tree)
