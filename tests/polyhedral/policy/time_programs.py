"""Programs that are iterated in time, in integers, beside the same loops run by Python."""

# Loop kernels are read as text, and not run by Python as they stand.
# ruff: noqa: B007, F821, UP037

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

import weft
from weft.codegen.machines.host import host_machine
from weft.ir.errors import WeftWarning
from weft.ir.machine import Cache
from weft.ir.schedule_printer import print_schedule
from weft.loop_kernel import Kernel
from weft.polyhedral.schedule_loops import schedule_loops
from weft.polyhedral.transform.scheduled import Scheduled

Array = np.ndarray
# This processor with caches of one size everywhere, as tests say what follows from them.
MACHINE = replace(host_machine(), caches=(Cache(1 << 15), Cache(1 << 20), Cache(1 << 25, cores=2)))


@weft.kernel
def line(T: weft.i64, A: weft.i64["N"], B: weft.i64["N"]):
    for t in range(T):
        for i in range(1, N - 1):
            B[i] = A[i - 1] * 3 + A[i] - A[i + 1]
        for i in range(1, N - 1):
            A[i] = B[i - 1] + B[i] * 5 - B[i + 1]


@weft.kernel
def plane(T: weft.i64, A: weft.i64["N", "M"], B: weft.i64["N", "M"]):
    for t in range(T):
        for i in range(1, N - 1):
            for j in range(1, M - 1):
                B[i, j] = A[i, j] * 3 + A[i, j - 1] - A[i, j + 1] + A[i + 1, j] - A[i - 1, j]
        for i in range(1, N - 1):
            for j in range(1, M - 1):
                A[i, j] = B[i, j] + B[i, j - 1] * 3 - B[i, j + 1] + B[i + 1, j] - B[i - 1, j]


@weft.kernel
def space(T: weft.i64, A: weft.i64["N", "N", "M"], B: weft.i64["N", "N", "M"]):
    for t in range(T):
        for i in range(1, N - 1):
            for j in range(1, N - 1):
                for k in range(1, M - 1):
                    B[i, j, k] = A[i, j, k] * 3 + A[i - 1, j, k] - A[i, j + 1, k] + A[i, j, k - 1]
        for i in range(1, N - 1):
            for j in range(1, N - 1):
                for k in range(1, M - 1):
                    A[i, j, k] = B[i, j, k] + B[i + 1, j, k] - B[i, j - 1, k] * 3 + B[i, j, k + 1]


@weft.kernel
def fields(T: weft.i64, E: weft.i64["N", "M"], F: weft.i64["N", "M"], H: weft.i64["N", "M"]):
    for t in range(T):
        for j in range(M):
            F[0, j] = t
        for i in range(1, N):
            for j in range(M):
                F[i, j] -= H[i, j] - H[i - 1, j] * 3
        for i in range(N):
            for j in range(1, M):
                E[i, j] -= H[i, j] * 5 - H[i, j - 1]
        for i in range(N - 1):
            for j in range(M - 1):
                H[i, j] -= E[i, j + 1] - E[i, j] + F[i + 1, j] - F[i, j] * 3


@weft.kernel
def in_place(T: weft.i64, A: weft.i64["N", "M"]):
    for t in range(T):
        for i in range(1, N - 1):
            for j in range(1, M - 1):
                A[i, j] = A[i - 1, j + 1] * 3 + A[i, j - 1] - A[i + 1, j] + A[i, j + 1] * 5


def scheduled(kernel: Kernel, *, threads: int = 1, time_tile: bool = True) -> Scheduled:
    return schedule_loops(kernel.scop, MACHINE, threads=threads, time_tile=time_tile)


def text(kernel: Kernel, *, threads: int = 1, time_tile: bool = True) -> str:
    return print_schedule(scheduled(kernel, threads=threads, time_tile=time_tile).tree)


def check(kernel: Kernel, threads: int, cases: Sequence[tuple[int, Sequence[tuple[int, ...]]]]):
    """Compiled code equals the function run by Python, in each of ``cases``: (steps, shapes)."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", WeftWarning)  # no fallback
        compiled = kernel.compile(options=weft.Options(cache=False, threads=threads, texts=False))
    random = np.random.default_rng(7)
    for steps, shapes in cases:
        arrays = [random.integers(-9, 9, shape) for shape in shapes]
        want = [a.copy() for a in arrays]
        with np.errstate(over="ignore"):  # integers wrap around in both
            kernel.python(steps, *want)
        compiled(steps, *arrays)
        for got, expected in zip(arrays, want, strict=True):
            np.testing.assert_array_equal(got, expected, str((steps, shapes)))
