"""Arguments of which tiles load each line many times."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.policy.test_operand_panels import product
from weft.polyhedral.machine import Cache, Machine
from weft.polyhedral.policy.read_again import read_again
from weft.polyhedral.schedule_loops import schedule_loops
from weft.polyhedral.scop import Scop

WIDE = Machine("wide", 64, 32, (Cache(1 << 15), Cache(1 << 20), Cache(1 << 25)))


def found(scop: Scop) -> set[str]:
    made = schedule_loops(scop, WIDE)
    return set(read_again(made.scop, made.tree, WIDE))


@pytest.mark.parametrize(
    ("scop", "names"),
    [
        (product(128, 128, 96), {"B"}),  # each vector by many tiles of rows
        (product(48, 128, 96), set()),  # by few
        (product(128, 64, 48), set()),  # which find it in the first cache
        (product(512, 64, 48), {"B"}),  # and by many more
        (product(128, 127, 96), set()),  # rows begin anywhere
        (product(128, 128, 96, right="B[j, k]"), set()),  # lanes are copied already
    ],
)
def test_lines_of_many_tiles(scop: Scop, names: set[str]) -> None:
    assert found(scop) == names


@pytest.mark.parametrize("role", ["inout", "constant", "temp"])
def test_arguments_alone(role: str) -> None:
    scop = product(128, 128, 96)
    b = replace(scop.tensor("B"), role=role)
    assert not found(replace(scop, tensors=tuple(b if t.name == "B" else t for t in scop.tensors)))
