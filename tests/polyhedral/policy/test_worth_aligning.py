"""Arguments of which tiles load each line many times."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.codegen.llvm.test_tiles import OPTIONS, TILES
from tests.codegen.llvm.test_tiles import product as multiply
from tests.polyhedral.policy.test_operand_panels import product
from tests.polyhedral.transform.integer_programs import read
from weft import bf16
from weft.driver.compiler import lower_loops
from weft.ir.machine import Cache, Machine
from weft.ir.schedule_tree import marked_tiles
from weft.ir.scop import Scop
from weft.polyhedral.policy.operand_panels import worth_aligning
from weft.polyhedral.schedule_loops import schedule_loops

WIDE = Machine("wide", 64, 32, (Cache(1 << 15), Cache(1 << 20), Cache(1 << 25)))


def found(scop: Scop) -> set[str]:
    made = schedule_loops(scop, WIDE)
    return set(worth_aligning(made.scop, made.tree, WIDE))


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


@pytest.mark.parametrize(("lanes", "names"), [(8, {"A", "B"}), (12, set())])
def test_upright_tiles(lanes: int, names: set[str]) -> None:
    """Products whose number is the last axis, a line of 8 or one and a half."""
    text = f"""
    for m in range(96):
        for n in range(96):
            for z in range({lanes}):
                for k in range(64):
                    C[m, n, z] += A[m, k, z] * B[k, n, z]
    """
    scop = read(text, "", A=f"in 96 64 {lanes}", B=f"in 64 96 {lanes}", C=f"io 96 96 {lanes}")
    (tile,) = marked_tiles(schedule_loops(scop, WIDE).tree).values()
    assert len(tile.payload.rows) == 2 and found(scop) == names


@pytest.mark.parametrize(("m", "n", "k", "names"), [(64, 512, 512, {"A"}), (64, 64, 512, set()),
                                                    (64, 512, 500, set())])  # fmt: skip
def test_rows_of_blocks(m: int, n: int, k: int, names: set[str]) -> None:
    """A matrix unit loads lines along the steps, for each tile of lanes."""
    (unit,) = lower_loops(multiply(bf16, bf16, m, n, k).lowered, OPTIONS).distinct
    made, machine = unit.scheduled, TILES.machine
    assert worth_aligning(made.scop, made.tree, machine) == names
