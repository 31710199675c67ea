"""What of a product's operands stays in caches: steps whole pages apart share their sets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.polyhedral.transform.integer_programs import read
from weft.ir.machine import Cache, Machine
from weft.ir.schedule_tree import RegisterTile, payloads
from weft.ir.scop import Scop
from weft.polyhedral.policy.cache_tiles import footprint_bytes, on_new_pages, rows_ahead
from weft.polyhedral.schedule_loops import schedule_loops

WIDE = Machine("wide", 64, 32, (Cache(1 << 15), Cache(1 << 20)), misses=20)


def product(width: str, right: str = "B[k, j]", depth: int = 1100) -> Scop:
    text = f"""
    for i in range(8):
        for j in range(96):
            for k in range({depth}):
                C[i, j] += A[i, k] * {right}
    """
    return read(text, A=f"in 8 {depth}", B=f"in {depth} {width}", C="io 8 96")


@pytest.mark.parametrize(
    ("scop", "ahead"),
    [
        (product("512"), 20),  # of eight bytes
        (product("1024"), 20),
        (product("513"), 20),  # a step goes on in another set each time, on another page
        (product("511"), 0),  # sometimes on the same page
        (product("N"), 0),  # who knows
        (product("1100", "B[j, k]"), 0),  # lanes are apart, steps are not
    ],
)
def test_lanes_on_new_pages(scop: Scop, ahead: int) -> None:
    s = scop.statement("S0")
    assert on_new_pages(scop, s, "j", ("k",), WIDE) == ((1,) if ahead else ())
    marks = [p for p in payloads(schedule_loops(scop, WIDE).tree) if isinstance(p, RegisterTile)]
    assert {m.ahead for m in marks if isinstance(m, RegisterTile)} == {ahead}


def sums(rows: int, width: str, right: str = "B[k, j]") -> Scop:
    text = f"""
    for j in range(90000):
        for k in range({rows}):
            y[j] += {right}
    """
    return read(text, B=f"in {rows} {width}", W="in 90000", y="io 90000")


@pytest.mark.parametrize(
    ("scop", "lines"),
    [
        (sums(8, "90112"), 256),  # half of the first cache
        (sums(9, "90112"), 0),  # more rows in the same sets than they hold lines
        (sums(9, "90001"), 256),
        (sums(32, "90001"), 256),
        (sums(33, "90001"), 0),  # of too many rows there are few lines each
        (sums(1, "90001"), 0),
        (sums(8, "N"), 0),  # who knows
        (sums(8, "90001", "W[j]"), 0),  # no rows
    ],
)
def test_next_lines_of_a_few_rows(scop: Scop, lines: int) -> None:
    assert rows_ahead(scop, scop.statement("S0"), "j", "k", WIDE) == lines
    marks = [p for p in payloads(schedule_loops(scop, WIDE).tree) if isinstance(p, RegisterTile)]
    assert not lines or {m.ahead for m in marks if isinstance(m, RegisterTile)} == {lines}


def test_a_sequential_prefetcher_needs_no_hints() -> None:
    first, last = WIDE.caches
    foreseen = replace(WIDE, caches=(first, replace(last, sequential_prefetcher=True)))
    tree = schedule_loops(sums(8, "90112"), foreseen).tree
    marks = [p for p in payloads(tree) if isinstance(p, RegisterTile)]
    assert {m.ahead for m in marks if isinstance(m, RegisterTile)} == {0}


def test_rows_that_a_cache_holds_are_not_asked_for() -> None:
    scop, wider = sums(8, "90001"), Cache(8 * 90001 * 8)
    larger = Machine("wide", 64, 32, (Cache(1 << 15), wider))
    assert rows_ahead(scop, scop.statement("S0"), "j", "k", larger) == 0


@pytest.mark.parametrize(
    ("pixel", "expected"),
    [
        ("A[n, k, y, x]", 3 * 4 * 5 * 8 * 8),  # all of it, no row with a line of its own
        ("A[n, k, y, 4*x]", 3 * 4 * 5 * 32 * 8),  # all the way from row to row
        ("A[n, k, 9*y, x]", 3 * 4 * 5 * (7 * 8 + 64)),
        ("A[n, 0, 0, x]", 3 * (7 * 8 + 64)),
        ("A[n, 0, 0, 0]", 3 * 64),
    ],
)
def test_bytes_of_rows_that_lie_one_after_the_other(pixel: str, expected: int) -> None:
    text = f"""
    for n in range(3):
        for k in range(4):
            for y in range(5):
                for x in range(8):
                    C[n, k, y, x] = {pixel}
    """
    rows, columns = 37 if "9*y" in pixel else 5, 32 if "4*x" in pixel else 8
    scop = read(text, "", A=f"in 3 4 {rows} {columns}", C="out 3 4 5 8")
    (s,) = scop.statements
    found = footprint_bytes(scop, s.reads[0], {"n": 3, "k": 4, "y": 5, "x": 8}, 64)
    assert found == expected
