"""Sums of elementwise products run in upright register tiles where these are cheaper."""

from __future__ import annotations

import pytest

from tests.polyhedral.transform.integer_programs import read
from tests.polyhedral.transform.machine_code import computes
from weft.ir.machine import Cache, Machine
from weft.ir.schedule_tree import marked_tiles
from weft.ir.scop import Scop
from weft.polyhedral.policy.window_costs import vertical
from weft.polyhedral.schedule_loops import schedule_loops

WIDE = Machine("wide", 64, 32, (Cache(1 << 15), Cache(1 << 20)))


def batch(a: str, b: str, c: str, size: int) -> Scop:
    """C += A B for each z, the dims of each in the order that is given."""
    sizes = {"z": size, "m": 9, "n": 7, "k": 5}
    text = f"""
    for z in range({size}):
        for m in range(9):
            for n in range(7):
                C[{", ".join(c)}] = 0
                for k in range(5):
                    C[{", ".join(c)}] += A[{", ".join(a)}] * B[{", ".join(b)}]
    """
    shapes = [" ".join(str(sizes[d]) for d in order) for order in (a, b, c)]
    return read(text, "", A=f"in {shapes[0]}", B=f"in {shapes[1]}", C=f"out {shapes[2]}")


@pytest.mark.parametrize("size", [16, 19, 33])
def test_a_batch_that_lies_innermost_runs_in_lanes(size: int) -> None:
    scheduled = schedule_loops(batch("mkz", "knz", "mnz", size), WIDE)
    (tile,) = marked_tiles(scheduled.tree).values()
    assert len(tile.payload.rows) == 2
    assert {t.name for t in scheduled.scop.tensors} == {"A", "B", "C"}  # nothing is copied
    computes(scheduled, {})


@pytest.mark.parametrize("orders", [("zmk", "zkn", "zmn"), ("mkz", "knz", "zmn")])
def test_what_does_not_lie_along_one_dim_runs_in_other_tiles(orders: tuple[str, str, str]) -> None:
    scop = batch(*orders, 16)
    assert vertical(scop, scop.statements[1], scop.statements[1].dims, WIDE) is None
    computes(schedule_loops(scop, WIDE), {})


def test_windows_over_groups() -> None:
    text = """
    for i in range(7):
        for o in range(3):
            for g in range(18):
                Y[i, o, g] = 0
                for r in range(3):
                    for c in range(4):
                        Y[i, o, g] += X[i + r, c, g] * W[r, c, o, g]
    """
    scop = read(text, "", X="in 9 4 18", W="in 3 4 3 18", Y="out 7 3 18")
    scheduled = schedule_loops(scop, WIDE)
    (tile,) = marked_tiles(scheduled.tree).values()
    assert len(tile.payload.rows) == 2
    computes(scheduled, {})


def test_sizes_that_are_open_have_no_closed_form() -> None:
    text = """
    for m in range(N):
        for z in range(16):
            for k in range(5):
                C[m, z] += A[m, k, z] * B[k, z]
    """
    scop = read(text, "N", A="in N 5 16", B="in 5 16", C="out N 16")
    statement = scop.statements[0]
    assert vertical(scop, statement, statement.dims, WIDE) is None
