"""What register tiles cost, against figures worked out by hand."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.harness import matmul
from weft.ir.machine import Cache, Machine
from weft.ir.scalar_expr import Var
from weft.ir.schedule_tree import Band, Leaf, Loop, Mark, RegisterTile, Tree
from weft.ir.scop import Scop
from weft.polyhedral.analysis.tile_costs import TileCosts, tile_costs

MACHINE = Machine("any", 64, 32, (Cache(32 << 10),))


def tiled(of: Scop, rows: int, lanes: int) -> tuple[TileCosts, ...]:
    """The sum of a product of float64 over r in tiles of ``rows`` of i and ``lanes`` of j."""
    (total,) = (s for s in of.statements if s.update)
    i, j, r = (Var(dim) for dim in total.dims)
    places = (("i_t", i // rows), ("j_t", j // lanes))
    inner = (("r", r), ("i_p", i - i // rows * rows), ("j_p", j - j // lanes * lanes))
    outside, inside = (
        tuple(Loop(name, {total.name: at}) for name, at in loops) for loops in (places, inner)
    )
    tile = Mark(RegisterTile((rows,), lanes), Band(inside, Leaf(total.name)))
    tree: Tree = Band(outside, tile)
    return tuple(tile_costs(of, tree, MACHINE))


def test_a_tile_that_fits_is_bound_by_its_arithmetic() -> None:
    (found,) = tiled(matmul(60, 128, 5, relu=False), 6, 32)
    assert (found.rows, found.lanes, found.streams) == ({"i": 6}, ("j", 32), ("r",))
    assert (found.sums, found.registers) == (24, 32)
    assert (found.arithmetic, found.loads, found.chain) == (12.0, 5.0, 4.0)
    assert (found.bound, found.share, found.kept) == ("arithmetic", 1.0, 1.0)
    assert "6 rows of i by 32 lanes of j, over r" in found.text()


@pytest.mark.parametrize(
    ("m", "n", "kept"),
    [(60, 32, 1), (61, 32, 1), (60, 33, 33 / 40), (1, 1, 1 / 8), (7, 50, 50 / 56), (7, 64, 1)],
)
def test_what_vectors_hold_beyond_the_edge_is_lost(m: int, n: int, kept: float) -> None:
    (found,) = tiled(matmul(m, n, 5, relu=False), 6, 32)
    assert found.kept == pytest.approx(kept)
    assert found.share == pytest.approx(kept)
    assert ("cut off" in found.text()) == (kept < 1)


def test_narrow_tiles_wait_for_chains_or_loads() -> None:
    (alone,) = tiled(matmul(60, 64, 5, relu=False), 1, 8)
    assert (alone.bound, alone.share) == ("latency", 0.125)
    (column,) = tiled(matmul(60, 64, 5, relu=False), 12, 8)
    assert column.loads == 6.5 and column.bound == "loads"
    assert column.share == pytest.approx(6 / 6.5)


def test_lanes_that_fill_no_vector_are_lost_at_any_size() -> None:
    (found,) = tiled(matmul(Var("M"), Var("N"), 5, relu=False), 6, 20)
    assert found.kept == pytest.approx(20 / 24)
    assert not tile_costs(matmul(), Leaf("C_add"), MACHINE)
