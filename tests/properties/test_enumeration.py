"""The fast oracle says what the slow and obvious one does; legality says the same of wild Scops,
whose accesses may lie outside their tensors and be data-dependent, which nobody could run."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.properties.brute_force import all_parameters, judge
from tests.properties.random_scops import random_scop, random_tree
from tests.properties.verdicts import Program
from weft.ir.errors import IllegalScheduleError
from weft.polyhedral.proof.legality import check

_PARTS = 4


def test_twins() -> None:
    for seed in range(60):
        random = Random(seed)
        scop = random_scop(random)
        tree = random_tree(random, scop)
        slow = judge(scop, tree)
        fast = Program(scop, list(all_parameters(scop))).judge(tree)
        assert slow.legal == (not fast.violated), seed
        assert slow.injective == fast.injective, seed
        assert slow.carries == fast.carries, seed
        every = fast.carries | fast.carries_reduction
        assert slow.carries | slow.carries_reduction == every, seed


@pytest.mark.parametrize("part", range(_PARTS))
def test_legality_of_wild_scops(part: int) -> None:
    kinds: Counter[bool] = Counter()
    for seed in range(part, 400, _PARTS):
        random = Random(seed)
        scop = random_scop(random)
        tree = random_tree(random, scop)
        legal = Program(scop, list(all_parameters(scop))).judge(tree).legal
        try:
            check(scop, tree)
        except IllegalScheduleError as error:
            assert not legal, f"seed {seed} is refused: {error}"
        else:
            assert legal, f"seed {seed} is accepted"
        kinds[legal] += 1
    assert kinds[True] > 20 and kinds[False] > 20, kinds
