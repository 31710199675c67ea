"""What is bound to the grid and to the threads of a block, by structure alone."""

from __future__ import annotations

import weft
from weft.codegen.machines.nvidia import A100, GPUS
from weft.ir.schedule_printer import print_schedule
from weft.polyhedral.policy.gpu import schedule_gpu, thread_machine
from weft.polyhedral.proof.prove import prove


@weft.kernel
def product(A: weft.f64[n, h], B: weft.f64[h, m], C: weft.f64[n, m]):  # noqa: F821
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            C[i, j] = 0.0
            for k in range(A.shape[1]):
                C[i, j] += A[i, k] * B[k, j]


@weft.kernel
def single(A: weft.f32[n, h], B: weft.f32[h, m], C: weft.f32[n, m]):  # noqa: F821
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            C[i, j] = 0.0
            for k in range(A.shape[1]):
                C[i, j] += A[i, k] * B[k, j]


@weft.kernel
def few_columns(A: weft.f32[n, 5], B: weft.f32[n, 5]):  # noqa: F821
    for i in range(A.shape[0]):
        for j in range(5):
            B[i, j] = A[i, j] * 2.0


@weft.kernel
def sums(A: weft.f32[n, m], s: weft.f32[n]):  # noqa: F821
    for i in range(A.shape[0]):
        for k in range(A.shape[1]):
            s[i] += A[i, k]


@weft.kernel
def steps(A: weft.f32[n], B: weft.f32[n], t: int):  # noqa: F821
    for _ in range(t):
        for i in range(1, A.shape[0] - 1):
            B[i] = A[i - 1] + A[i + 1]
        for j in range(1, A.shape[0] - 1):
            A[j] = B[j]


def text(kernel: weft.Kernel) -> str:
    made = schedule_gpu(kernel.scop, A100)
    prove(kernel.scop, made.scop, made.tree)
    return print_schedule(made.tree)


def test_independent_loops_share_a_tile_and_its_start() -> None:
    assert text(product) == (
        "for i = i    grid\n"
        "  for j_t = j // 256    grid\n"
        "    for j_p = j - 256*(j // 256)    block\n"
        "      sequence\n"
        "        S0\n"
        "        for k = k\n"
        "          S1\n"
    )


def test_products_of_float32_are_tiles_of_threads() -> None:
    marks = [line for line in text(single).splitlines() if "RegisterTile" in line or "fma." in line]
    assert len(marks) == 1 and "fma.m32n32k2.f32" in marks[0]
    assert "fma." not in text(product)  # there is none for float64


def test_short_rows_share_a_block_in_the_order_of_memory() -> None:
    assert text(few_columns) == (
        "for i_t = i // 32    grid\n"
        "  for j_t = j // 8    grid\n"
        "    for i_p = i - 32*(i // 32)    block\n"
        "      for j_p = j - 8*(j // 8)    block\n"
        "        S0\n"
    )


def test_rows_are_reduced_by_a_block() -> None:
    lines = text(sums).splitlines()
    assert lines[0] == "for i = i    grid"
    assert sum(line.endswith("    block") for line in lines) == 4
    assert [line.strip() for line in lines if "S0" in line] == ["S0"]


def test_a_loop_that_carries_is_around_launches() -> None:
    lines = [line.strip() for line in text(steps).splitlines()]
    assert lines[1] == "sequence" and not lines[0].endswith("grid")
    assert sum(line.endswith("    grid") for line in lines) == 2


def test_a_thread_has_no_vectors() -> None:
    for gpu in GPUS.values():
        machine = thread_machine(gpu)
        assert machine.lanes(weft.f32) == 1 and machine.l2 == gpu.cache
