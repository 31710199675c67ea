"""Passes over columns that sum these up run in strips of a few vectors."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import read
from tests.polyhedral.transform.machine_code import computes
from weft.ir.machine import Cache, Machine
from weft.ir.schedule_printer import print_schedule
from weft.ir.schedule_tree import marked_tiles
from weft.ir.scop import Scop
from weft.polyhedral.schedule_loops import schedule_loops

WIDE = Machine("wide", 64, 32, (Cache(1 << 15), Cache(1 << 20)))


def shares(rows: int, columns: int, last: str = "X[k, i] - S[i]") -> Scop:
    """Columns less their sums."""
    text = f"""
    for i in range({columns}):
        S[i] = 0
    for k in range({rows}):
        for i in range({columns}):
            S[i] += X[k, i]
    for k in range({rows}):
        for i in range({columns}):
            Y[k, i] = {last}
    """
    shape = f"{rows} {columns}"
    return read(text, "", X=f"in {shape}", S=f"tmp {columns}", Y=f"out {shape}")


@pytest.mark.parametrize(
    ("rows", "columns", "strip"), [(19, 128, 32), (17, 131, 32), (18, 65, 32), (17, 257, 64)]
)
def test_sums_of_columns_that_are_read_again_run_in_strips(
    rows: int, columns: int, strip: int
) -> None:
    scheduled = schedule_loops(shares(rows, columns), WIDE)
    first = print_schedule(scheduled.tree).splitlines()[0]
    assert "parallel" in first and first.split("//")[1].split()[0] == str(strip)
    assert scheduled.tensor("S").scope == "local"  # the sums of one strip
    computes(scheduled, {})


def test_what_crosses_the_columns_runs_after_all_of_them() -> None:
    scheduled = schedule_loops(shares(19, 128, last="X[k, i] - S[127 - i]"), WIDE)
    assert "//" not in print_schedule(scheduled.tree).splitlines()[0]
    computes(scheduled, {})


def test_few_columns_are_no_strips() -> None:
    scheduled = schedule_loops(shares(19, 63), WIDE)
    assert "//" not in print_schedule(scheduled.tree).splitlines()[0]
    computes(scheduled, {})


def test_windows_stay_in_register_tiles() -> None:
    scheduled = schedule_loops(shares(3, 128), WIDE)
    assert marked_tiles(scheduled.tree)
    computes(scheduled, {})
