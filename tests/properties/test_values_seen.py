"""What reads see by enumeration: the same in correct programs, another value in broken ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.transform.integer_programs import read
from tests.properties.examine import keeps_statements
from tests.properties.fitting import Sizes
from tests.properties.scheduled_programs import CASES, case
from tests.properties.tree_moves import put
from tests.properties.values_seen import agree
from weft.ir.build import monoid
from weft.ir.dtypes import int64
from weft.ir.schedule_tree import Sequence, Tree, walk
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.skew import reverse

LARGEST: Sizes = {"n": 4}


@pytest.mark.parametrize("name", CASES)
def test_correct_programs(name: str) -> None:
    pair = case(name)
    if keeps_statements(pair):
        of = pair.scheduled
        assert agree(of.original, of.scop, of.tree, LARGEST)


def _turned(tree: Tree) -> Tree:
    """The parts of the innermost sequence in the opposite order."""
    node = [n for n in walk(tree) if isinstance(n, Sequence)][-1]
    return put(tree, node, Sequence(node.children[::-1]))


@pytest.mark.parametrize("name", ["packed", "accumulated", "overlapped", "copied", "computed at"])
def test_parts_in_the_wrong_order(name: str) -> None:
    of = case(name).scheduled
    assert not agree(of.original, of.scop, _turned(of.tree), LARGEST)


def test_a_wrong_index() -> None:
    of = case("copied").scheduled
    copy = of.scop.statements[-1]
    [read] = copy.reads
    wrong = replace(read, indices=(read.indices[0], read.indices[1] + 1))
    statements = (*of.scop.statements[:-1], replace(copy, reads=(wrong,)))
    scop = replace(of.scop, statements=statements)
    assert not agree(of.original, scop, of.tree, LARGEST)


def test_folds_of_several_kinds() -> None:
    """Sums of one element may change places, but not with a maximum between them."""
    scop = read(
        """
        for i in range(n):
            A[0] += B[i]
        A[0] += B[0]
        for i in range(n):
            A[0] += C[i]
        """,
        "n", A="io n", B="in n", C="in n",
    )  # fmt: skip
    sums, middle, more = scop.statements
    assert middle.update is not None
    largest = replace(middle, update=replace(middle.update, monoid=monoid("max", int64)))
    scop = replace(scop, statements=(sums, largest, more))
    of = initial(scop)
    first, second, third = of.tree.children  # type: ignore[union-attr]
    assert agree(scop, scop, of.tree, LARGEST)
    assert agree(scop, scop, reverse(of, first.loops[0].name).tree, LARGEST)
    assert not agree(scop, scop, Sequence((second, first, third)), LARGEST)
    assert not agree(scop, scop, Sequence((first, third, second)), LARGEST)
