"""Whichever way is taken, the flow is what isl finds in the order of the tree."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import islpy as isl
import pytest

from tests.polyhedral.example_scops import EXAMPLES
from tests.polyhedral.loop_programs import program
from tests.polyhedral.loop_schedules import BANDS, tiled
from tests.properties.random_scops import random_scop, random_tree
from tests.properties.random_tilings import random_chain, random_tiling
from weft.errors import IllegalScheduleError
from weft.polyhedral.analysis.dependences import folding
from weft.polyhedral.analysis.flow import Flow, Read, flow
from weft.polyhedral.flow_under import _Direct, flow_under
from weft.polyhedral.named_isl import bounded, parameter_space, schedule_map
from weft.polyhedral.schedule_tree import Tree
from weft.polyhedral.schedule_verifier import verify_schedule
from weft.polyhedral.scop import Scop
from weft.polyhedral.transform.initial import initial


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
