"""Vector loops, register tiles and packs, by closed forms."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod

import pytest

from tests.polyhedral.test_grouping import running_sum, softmax
from tests.polyhedral.transform.harness import chain, lowered, matmul, random_scops, tensor
from tests.polyhedral.transform.test_hoist_constants import constant
from weft.frontend import build as w
from weft.polyhedral.grouping import groups_of, recurrent_dims
from weft.polyhedral.machine import Cache, Machine
from weft.polyhedral.prepare import prepare
from weft.polyhedral.scop import Scop
from weft.polyhedral.tile_choice import TileChoice, choose_tiles, group_lanes

WIDE = Machine("wide", 64, 32, (Cache(32 << 10), Cache(1 << 20)), 4, 2, 2)
NARROW = Machine("narrow", 16, 16, (Cache(32 << 10),), 4, 1, 1)


def choice(of: Scop, machine: Machine = WIDE) -> TileChoice:
    (group,) = groups_of(of)
    return choose_tiles(of, group, machine)


def gemm(m: int, n: int, h: int, *, turned: bool = False, dtype: str = "float32") -> Scop:
    a = tensor("A", m, h, dtype=dtype)
    b = tensor("B", *((n, h) if turned else (h, n)), dtype=dtype)
    r = w.reduce_axis((0, h), name="r")
    c = w.compute(
        (m, n), lambda i, j: w.sum(a[i, r] * (b[j, r] if turned else b[r, j]), r), name="C"
    )
    return lowered(c, inputs=(a, b))


def registers(found: TileChoice, lanes: int) -> int:
    assert found.vector is not None
    return prod(ceil(n / lanes) if d == found.vector else n for d, n in found.tiles.items())


def test_a_matrix_product_is_tiled_in_both_dims() -> None:
    """Wide enough to hide the latency of multiply-adds, and small enough for the registers."""
    found = choice(gemm(512, 512, 512))
    assert found.vector == 1 and set(found.tiles) == {0, 1}
    assert found.tiles[1] % 16 == 0
    assert WIDE.fma_latency * WIDE.fma_per_cycle <= registers(found, 16) < WIDE.vector_registers


def test_fewer_registers_make_a_smaller_tile() -> None:
    found = choice(gemm(512, 512, 512), NARROW)
    assert found.tiles[1] % 4 == 0 and registers(found, 4) < NARROW.vector_registers


def test_a_matrix_of_the_wrong_order_is_packed_if_it_is_read_often() -> None:
    found = choice(gemm(512, 512, 512, turned=True))
    assert [(p.operand, p.dim) for p in found.packs] == [(1, "j")] and found.vector == 1
    assert choice(gemm(512, 512, 512)).packs == ()


def test_little_reuse_does_not_pay_for_a_copy_unless_it_is_made_when_compiling() -> None:
    of = gemm(4, 512, 512, turned=True)
    assert choice(of).packs == ()
    assert [p.operand for p in choice(constant(of, "B")).packs] == [1]


def test_elements_decide_how_many_lanes_there_are() -> None:
    for dtype, lanes in (("float64", 8), ("float32", 16), ("int8", 64)):
        of = gemm(64, 64, 64, dtype=dtype)
        assert group_lanes(of, groups_of(of)[0], WIDE) == lanes


def test_elementwise_work_runs_along_the_contiguous_dim() -> None:
    x = tensor("X", 64, 128, dtype="float32")
    y = w.compute((64, 128), lambda i, j: x[i, j] * 2.0, name="Y")
    found = choice(lowered(y, inputs=(x,)))
    assert found.vector == 1


def test_rows_of_softmax_stay_whole() -> None:
    """Each statement along the columns, in loops of its own, under the rows."""
    found = choice(softmax(256, 512))
    assert found.vector is None and not found.tiles and not found.packs
    assert set(found.inner.values()) == {"r", "j"}


def test_no_vector_loop_along_a_recurrence() -> None:
    of = running_sum(256, 2)
    (group,) = groups_of(of)
    found = choose_tiles(of, group, WIDE)
    chosen = set(found.inner.values())
    if found.vector is not None:
        chosen |= set(group.shared[found.vector].dims.values())
    assert not chosen & recurrent_dims(of.statements[0])


@pytest.mark.parametrize("n", [0, 1, 2, 15, 16, 17])
def test_awkward_sizes_have_some_choice(n: int) -> None:
    for of in (gemm(n, 5, 3), gemm(5, n, 3), gemm(3, 5, n), prepare(chain(n))):
        for group in groups_of(of):
            assert choose_tiles(of, group, WIDE).cycles >= 0


def test_symbolic_sizes_are_guessed() -> None:
    m, n, h = w.var("m"), w.var("n"), w.var("h")
    assert set(choice(matmul(m, n, h)).tiles) == {0, 1}


def test_random_programs() -> None:
    """Tiles fit the registers, vector tiles are whole vectors, and the choice is the same twice."""
    tiled = 0
    for of, _ in random_scops(60, seed=1700):
        staged = prepare(of)
        for group in groups_of(staged):
            found = choose_tiles(staged, group, NARROW)
            lanes = group_lanes(staged, group, NARROW)
            assert found == choose_tiles(staged, group, NARROW)
            if found.vector is not None and any(s.update for s in group.statements):
                tiled += 1
                assert found.tiles[found.vector] % lanes == 0
                assert all(n >= 1 for n in found.tiles.values())
                assert registers(found, lanes) < NARROW.vector_registers
    assert tiled > 10


def test_a_cheaper_machine_is_not_slower() -> None:
    of = gemm(128, 128, 128)
    slow = replace(WIDE, fma_per_cycle=1)
    assert choice(of).cycles <= choice(of, slow).cycles
