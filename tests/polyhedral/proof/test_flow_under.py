"""Whichever way is taken, the flow is what isl finds in the order of the tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import islpy as isl
import pytest

from tests.polyhedral.example_scops import EXAMPLES
from tests.polyhedral.loop_programs import program
from tests.polyhedral.loop_schedules import BANDS, tiled
from tests.polyhedral.transform.blocked_lu import left_looking, right_looking
from tests.properties.random_scops import random_scop, random_tree
from tests.properties.random_tilings import random_chain, random_tiling
from weft.ir.errors import IllegalScheduleError
from weft.ir.isl_context import bounded
from weft.ir.named_isl import parameter_space
from weft.ir.schedule_times import schedule_map
from weft.ir.schedule_tree import Tree
from weft.ir.schedule_verifier import verify_schedule
from weft.ir.scop import Scop
from weft.polyhedral.proof.dependences import folding
from weft.polyhedral.proof.flow import Flow, Read, flow
from weft.polyhedral.proof.flow_under import _Direct, flow_under
from weft.polyhedral.proof.validation import validate
from weft.polyhedral.transform.cache_read import cache_read
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled


def _without_places(of: Scop) -> Scop:
    return replace(of, statements=tuple(replace(s, position=()) for s in of.statements))


def _map(of: Scop, seen: Flow, read: Read) -> tuple[isl.UnionMap, isl.UnionMap]:
    empty = isl.UnionMap.empty(parameter_space(of))
    return seen.sources.get(read, empty), seen.initial.get(read, empty)


def _agree(of: Scop, tree: Tree) -> None:
    folds = folding(of)
    expected = flow(of, schedule_map(of, tree), lambda s: s.name in folds)
    for other in (of, _without_places(of)):
        found = flow_under(other, tree, lambda s: s.name in folds)
        for read in {**expected.sources, **expected.initial}:
            mine, theirs = _map(of, found, read), _map(of, expected, read)
            assert all(m.is_equal(t) for m, t in zip(mine, theirs, strict=True)), read


@pytest.mark.parametrize("seed", range(40))
def test_random_tilings(seed: int) -> None:
    random = Random(seed)
    _agree(*random_tiling(random, *random_chain(random)))


@pytest.mark.parametrize("seed", range(20))
def test_random_scops(seed: int) -> None:
    random = Random(seed)
    of = random_scop(random)
    _agree(of, initial(of).tree)
    for _ in range(4):
        tree = random_tree(random, of)
        if _verified(of, tree):
            _agree(of, tree)


def _verified(of: Scop, tree: Tree) -> bool:
    try:
        verify_schedule(of, tree)
    except IllegalScheduleError:
        return False
    return True


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str) -> None:
    make, tree = EXAMPLES[name]
    _agree(make(), tree())


@pytest.mark.parametrize("name", ["gemm", "lu", "cholesky", "trmm", "jacobi-1d"])
def test_tiled_programs(name: str) -> None:
    of = program(name)
    depth = len(next(iter(BANDS[name].values())))
    _agree(of, tiled(of, BANDS[name], (4,) * depth))


def test_local_buffers_need_no_order_of_tiles() -> None:
    """Of sound tilings, every read of a local buffer is answered directly."""
    direct = asked = 0
    for seed in range(40):
        random = Random(seed)
        of, tree = random_tiling(random, *random_chain(random))
        folds = folding(of)
        with bounded():
            ways = _Direct(of, tree, lambda s, folds=folds: s.name in folds)
            for s in of.statements:
                asked += len(s.reads)
                direct += sum(ways.read(Read(s.name, k)) is not None for k in range(len(s.reads)))
    assert direct > 0.7 * asked, (direct, asked)


# --- copies of what changes ----------------------------------------------------------------------


def _packed(make: Callable[[], Scheduled], operand: int, where: str) -> Scheduled:
    return cache_read(make(), "A", "S1", where, operand=operand)


@pytest.mark.long
@pytest.mark.parametrize("operand", [0, 1])
@pytest.mark.parametrize(
    ("make", "where"),
    [(left_looking, "j_t"), (left_looking, "k_t"), (right_looking, "k_t"), (right_looking, "j_t")],
)
def test_copies_of_a_matrix_that_changes(
    make: Callable[[], Scheduled], where: str, operand: int
) -> None:
    """What is copied for a block of LU is what its readers would see, or isl is asked."""
    try:
        now = _packed(make, operand, where)
    except IllegalScheduleError:
        pytest.skip("no box of closed form")
    folds = folding(now.original)
    exact = flow(now.scop, schedule_map(now.scop, now.tree), lambda s: s.name in folds)
    found = flow_under(now.scop, now.tree, lambda s: s.name in folds)
    for read in {**exact.sources, **exact.initial}:
        mine, theirs = _map(now.scop, found, read), _map(now.scop, exact, read)
        asked = mine[0].domain().union(mine[1].domain())
        assert not asked.is_empty(), read
        for m, t in zip(mine, theirs, strict=True):
            assert m.is_equal(t.intersect_domain(asked)), read
            assert read.name.startswith("copy") or m.is_equal(t), read


def test_a_copy_that_comes_too_early_is_isls_business() -> None:
    """jacobi-1d in time tiles: what is copied at the begin of a tile changes within it."""
    of = program("jacobi-1d")
    now = Scheduled(of, of, tiled(of, BANDS["jacobi-1d"], (4, 8)))
    stale = cache_read(now, "A", "S0", "c1_0")
    with pytest.raises(IllegalScheduleError) as caught:
        validate(of, stale.scop, stale.tree)
    assert caught.value.code in ("WEFT-E0440", "WEFT-E0423")
