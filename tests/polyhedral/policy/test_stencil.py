"""Time tiles: a time loop around uniform accesses runs in skewed tiles of time and rows."""

# Loop kernels are read as text, and not run by Python as they stand.
# ruff: noqa: F821, UP037

from __future__ import annotations

import pytest

import weft
from tests.polyhedral.policy import time_programs as programs
from weft.loop_kernel import Kernel

# Sizes around the tiles' own, 32 steps by 16 or 32 rows, and where there is nothing to do.
SIZES = (0, 1, 2, 3, 13, 31, 32, 33, 65)
CASES = {
    "line": (programs.line, [(t, [(n,)] * 2) for n in SIZES for t in (1, 33)]),
    "plane": (programs.plane, [(t, [(n, 7)] * 2) for n in SIZES for t in (2, 17)]),
    "narrow": (programs.plane, [(3, [(5, m)] * 2) for m in (0, 1, 2, 3, 17)]),
    "space": (programs.space, [(t, [(n, n, 4)] * 2) for n in (0, 1, 2, 3, 7, 11) for t in (0, 22)]),
    "fields": (programs.fields, [(t, [(n, 6)] * 3) for n in SIZES[1:] for t in (1, 18)]),
}


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", CASES)
def test_tiles_compute_what_the_loops_say(name: str, threads: int) -> None:
    kernel, cases = CASES[name]
    programs.check(kernel, threads, cases)


@pytest.mark.parametrize("kernel", [programs.line, programs.plane, programs.space, programs.fields])
def test_time_and_rows_are_tiled_and_rows_stay_whole(kernel: Kernel) -> None:
    loops = [line.split()[1] for line in programs.text(kernel).splitlines() if "for" in line]
    assert loops[:3] == ["t_t", "w_t", "t"]
    assert not any(name.endswith("_t") for name in loops[3:])


def test_without_time_tiles_time_is_outermost() -> None:
    assert programs.text(programs.plane, time_tile=False).startswith("for t = t\n")


def test_the_choice_is_told() -> None:
    (note,) = [n for n in programs.scheduled(programs.plane).notes if n.startswith("time tiles")]
    assert "32 steps by 32 rows" in note


def test_more_threads_get_more_tiles_at_a_time() -> None:
    def steps(threads: int) -> int:
        notes = programs.scheduled(programs.space, threads=threads).notes
        (note,) = [n for n in notes if n.startswith("time tiles")]
        return int(note.split()[3])

    assert steps(1) > steps(2) > steps(4) >= 4


def test_a_loop_that_depends_on_nothing_is_no_time_loop() -> None:
    @weft.kernel
    def copies(T: weft.i64, A: weft.i64["T", "N"], B: weft.i64["T", "N"]):
        for t in range(T):
            for i in range(1, N - 1):
                B[t, i] = A[t, i - 1] + A[t, i + 1]

    assert "w_t" not in programs.text(copies)
