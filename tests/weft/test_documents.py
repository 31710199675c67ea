"""Documents say what Weft does: each block runs, and prints what the document says."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

import weft
from tests.weft.documents import outputs, rewritten, same
from weft.driver.schedule_value import TRANSFORMATIONS
from weft.driver.targets import target_for
from weft.ir.dtypes import float32, float64
from weft.ir.machine import Cache, Machine, Tlb, register_tile
from weft.polyhedral.policy.cache_tiles import cache_tiles, nearest

DOCS = Path(__file__).parents[2] / "docs"
EXECUTED = (
    "extending.md", "open-sizes.md", "providers.md", "schedule-language.md", "targets.md",
    "tuning.md", "tutorial-matmul-gpu.md", "tutorial-matmul.md", "worked-example.md",
)  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", EXECUTED)
def test_every_block_prints_what_stands_behind_it(name: str) -> None:
    for code, expected, found in outputs((DOCS / name).read_text()):
        assert same(expected or "", found), f"{name}:\n{code}\n{found}"


def test_every_transformation_is_described() -> None:
    text = (DOCS / "schedule-language.md").read_text()
    entries = {entry.split("`")[0]: entry for entry in text.split("\n### `")[1:]}
    assert [name for name in TRANSFORMATIONS if name not in entries] == []
    for name in TRANSFORMATIONS:
        assert all(word in entries[name] for word in ("```python", "Halide", "TVM", "Exo")), name


def test_the_runner_itself() -> None:
    document = "```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n\n```python\nx = 1\n```\n"
    ((_, expected, found), (_, none, silent)) = outputs(document)
    assert (expected, found, none, silent) == ("3\n", "2\n", None, "")
    assert not same(expected or "", found)
    assert rewritten(document) == document.replace("\n3\n", "\n2\n")
    assert same("~ 3.5 GFLOP/s\n", "~ 12 GFLOP/s\n") and not same("~ 3 GFLOP/s\n", "~ 3 s\n")


def test_the_sizes_of_tiles_are_those_of_the_record() -> None:
    text = (DOCS / "plans.md").read_text().partition("| tile | rule |")[2]
    machine = target_for(weft.Options(target="znver5")).machine
    for column, dtype in ((3, float64), (4, float32)):
        cells = [row.split("|")[column] for row in text.splitlines()[2:6]]
        rows, vectors = register_tile(machine, dtype)
        found = cache_tiles(machine, dtype.itemsize)
        lanes = vectors * machine.lanes(dtype)
        size = found.nc, nearest(found.nc, lanes), found.mc, found.mc_shared
        numbers = [list(map(int, re.findall(r"\b\d+\b", cell))) for cell in cells]
        assert numbers[0] == [rows, lanes]
        assert numbers[1][-1] == found.kc
        assert tuple(numbers[2] + numbers[3]) == size


def test_the_fields_of_a_machine_are_listed() -> None:
    text = (DOCS / "extending.md").read_text().partition("### The machine's record")[2]
    tables = text.partition("\n## ")[0].split("\n| `machine.")[1:]
    for record, rows in zip((Machine, Cache, Tlb), tables, strict=True):
        listed = [row.split("`")[1] for row in rows.splitlines() if row.startswith("| `")]
        assert sorted(listed) == sorted(field.name for field in dataclasses.fields(record))
