"""Time tiles: a time loop around uniform accesses runs in skewed tiles of time and rows."""

# Loop kernels are read as text, and not run by Python as they stand.
# ruff: noqa: B007, F821, UP037

from __future__ import annotations

from typing import Any

import pytest

import weft
from tests.polyhedral.policy import time_programs as programs
from weft.loop_kernel import Kernel
from weft.polyhedral.policy import stencil
from weft.polyhedral.policy.time_costs import DIAMONDS, Form, forms

# Sizes around the tiles' own, of 8 to 32 steps by 16 or 32 rows, and with nothing to do.
SIZES = (0, 1, 2, 3, 13, 31, 32, 33, 65)
CASES = {
    "line": (programs.line, [(t, [(n,)] * 2) for n in SIZES for t in (1, 33)]),
    "plane": (programs.plane, [(t, [(n, 7)] * 2) for n in SIZES for t in (2, 17)]),
    "narrow": (programs.plane, [(3, [(5, m)] * 2) for m in (0, 1, 2, 3, 17)]),
    "space": (programs.space, [(t, [(n, n, 4)] * 2) for n in (0, 1, 2, 3, 7, 11) for t in (0, 22)]),
    "fields": (programs.fields, [(t, [(n, 6)] * 3) for n in SIZES[1:] for t in (1, 18)]),
}


@pytest.fixture
def always_tiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """No sweeps beside the tiles, which small sizes would take."""
    monkeypatch.setattr(stencil, "limit", lambda *_, **__: 0)


@pytest.mark.long
@pytest.mark.usefixtures("always_tiled")
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", CASES)
def test_tiles_compute_what_the_loops_say(name: str, threads: int) -> None:
    kernel, cases = CASES[name]
    programs.check(kernel, threads, cases)


@pytest.mark.usefixtures("always_tiled")
@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("name", ["line", "plane", "fields"])
def test_diamonds_compute_what_the_loops_say(
    name: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def diamonds_first(*arguments: Any, **options: Any) -> list[Form]:
        return sorted(forms(*arguments, **options), key=lambda form: form.name != DIAMONDS)

    monkeypatch.setattr(stencil, "forms", diamonds_first)
    kernel, cases = CASES[name]
    first, second, *_ = programs.text(kernel, threads=threads).splitlines()
    assert "w_t_x_t" in first and "x_t" in second and second.endswith("parallel")
    programs.check(kernel, threads, cases)


@pytest.mark.parametrize("name", CASES)
def test_small_arrays_are_swept_and_right(name: str) -> None:
    kernel, cases = CASES[name]
    programs.check(kernel, 1, cases)


def test_sizes_choose_the_form_when_the_program_runs() -> None:
    notes = programs.scheduled(programs.line).notes
    assert any("sweeps, chosen when it runs" in note for note in notes)
    sizes = (1000, 1020, 1023, 1024, 1025, 1026, 1030, 3000)  # 16 KiB are 1,024 elements of each
    programs.check(programs.line, 1, [(5, [(n,)] * 2) for n in sizes])


def test_many_threads_start_at_once_in_diamonds() -> None:
    text = programs.text(programs.line, threads=64)
    assert text.startswith("for w_t_x_t = ") and "for x_t" in text
    programs.check(programs.line, 2, [(5, [(3000,)] * 2)])


@pytest.mark.parametrize("kernel", [programs.line, programs.plane, programs.space, programs.fields])
def test_time_and_rows_are_tiled_and_rows_stay_whole(kernel: Kernel) -> None:
    loops = [line.split()[1] for line in programs.text(kernel).splitlines() if "for" in line]
    tiled = loops[: loops.index("t")]
    assert tiled == (["t_t", "w_t", "v_t"] if kernel is programs.space else ["t_t", "w_t"])
    assert not any(name.endswith("_t") for name in loops[len(tiled) :])


def test_without_time_tiles_statements_share_the_rows_of_one_step() -> None:
    for kernel in (programs.plane, programs.space, programs.fields):
        assert programs.text(kernel, time_tile=False).startswith("for t = t\n  for w = ")


def test_rows_of_one_step_are_not_shared_where_threads_would_lose_them() -> None:
    text = programs.text(programs.plane, time_tile=False, threads=2)
    assert "for w" not in text and "for i = i    parallel" in text


def test_the_choice_is_told_in_numbers() -> None:
    (note,) = [n for n in programs.scheduled(programs.plane).notes if n.startswith("time loop")]
    chosen, rejected = note.split("rather than")
    assert "tiles of 12 steps by 24 rows" in chosen and "cycles a step" in chosen
    assert "sweeps that share their rows" in rejected and "64,000,000 bytes" in rejected


def test_programs_whose_arrays_are_known_to_be_small_are_swept() -> None:
    @weft.kernel
    def small(T: weft.i64, A: weft.i64[100, 100], B: weft.i64[100, 100]):
        for t in range(T):
            for i in range(1, 99):
                for j in range(1, 99):
                    B[i, j] = A[i, j - 1] + A[i + 1, j] - A[i - 1, j]
            for i in range(1, 99):
                for j in range(1, 99):
                    A[i, j] = B[i, j + 1] - B[i, j]

    assert programs.text(small).startswith("for t = t\n  for w = ")
    programs.check(small, 1, [(3, [(100, 100)] * 2)])


def test_two_rows_in_turn_are_elements_in_wide_windows() -> None:
    @weft.kernel
    def in_turn(T: weft.i64, A: weft.i64[2, "N"]):
        for t in range(T):
            for i in range(1, N - 1):
                A[(t + 1) % 2, i] = A[t % 2, i - 1] - A[t % 2, i] * 3 + A[t % 2, i + 1]

    assert "// 1024" in programs.text(in_turn)
    programs.check(in_turn, 1, [(t, [(2, n)]) for n in (1, 2, 3, 40, 1500) for t in (1, 5, 34)])


def test_recurrences_in_space_go_in_strips_along_rows() -> None:
    @weft.kernel
    def relaxed(T: weft.i64, A: weft.i64["N", "N", "N"]):
        for t in range(T):
            for i in range(1, N - 1):
                for j in range(1, N - 1):
                    for k in range(1, N - 1):
                        A[i, j, k] = (
                            A[i - 1, j, k] + A[i, j - 1, k] * 3 - A[i, j, k - 1] + A[i, j, k + 1]
                        )

    text = programs.text(relaxed)
    assert "j_p = j - 8*(j // 8)    unrolled" in text
    programs.check(relaxed, 1, [(t, [(n, n, n)]) for n in (2, 3, 11) for t in (1, 9)])


def test_a_loop_that_depends_on_nothing_is_no_time_loop() -> None:
    @weft.kernel
    def copies(T: weft.i64, A: weft.i64["T", "N"], B: weft.i64["T", "N"]):
        for t in range(T):
            for i in range(1, N - 1):
                B[t, i] = A[t, i - 1] + A[t, i + 1]

    assert "w_t" not in programs.text(copies)
