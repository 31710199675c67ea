"""Tile loops: plain for one thread, in wavefronts for more."""

# Loop kernels are read as text, and not run by Python as they stand.
# ruff: noqa: F821, UP037

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.polyhedral.policy import time_programs as programs
from weft.loop_kernel import Kernel

SERIAL_TILES = [programs.line, programs.plane, programs.fields, programs.in_place]


@weft.kernel
def product_in_place(T: weft.i64, A: weft.i64["N", "N"]):
    for i in range(N):
        for j in range(i, N):
            for k in range(i):
                A[i, j] -= A[i, k] * A[k, j] * T


@pytest.mark.parametrize("kernel", SERIAL_TILES)
def test_one_thread_keeps_the_plain_order(kernel: Kernel) -> None:
    lines = _tiles(programs.text(kernel))
    assert [line.split()[1] for line in lines[:2]] == ["t_t", "w_t"]
    assert not any("parallel" in line for line in lines)


def _tiles(text: str) -> list[str]:
    """The lines of the tiles, without the form for small arrays that comes behind them."""
    lines = text.splitlines()
    return lines[1:] if lines[0] == "sequence" else lines


@pytest.mark.parametrize("kernel", SERIAL_TILES[1:])  # a line takes diamonds
def test_threads_share_the_tiles_of_a_front(kernel: Kernel) -> None:
    """Folds into one element (of ``fields``) lie in the tiles' order, so they are no obstacle."""
    first, second, *_ = _tiles(programs.text(kernel, threads=2))
    assert first.split()[1] == "t_t_w_t"
    assert second.split()[1] == "w_t" and second.endswith("parallel")


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_fronts_of_time_tiles_compute_what_the_loops_say(threads: int) -> None:
    programs.check(programs.plane, threads, [(65, [(n, 4)] * 2) for n in (2, 31, 37)])


@pytest.mark.long
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_fronts_of_tiles_in_place(threads: int) -> None:
    options = weft.Options(cache=False, threads=threads, texts=False)
    compiled = product_in_place.compile(options=options)
    random = np.random.default_rng(3)
    for n in (0, 1, 2, 3, 47, 191, 192, 193, 389):  # tiles have 192 rows
        got = random.integers(-9, 9, (n, n))
        want = got.copy()
        for i in range(n):
            want[i, i:] -= want[i, :i] @ want[:i, i:] * 3
        compiled(3, got)
        np.testing.assert_array_equal(got, want, str(n))
