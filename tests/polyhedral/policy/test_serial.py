"""Carrying loops: the one inside which statements run best; tiles of columns that are long."""

from __future__ import annotations

import re

import numpy as np
import pytest

import weft
from tests.polyhedral.transform.integer_programs import promise, read
from tests.polyhedral.transform.machine_code import outline
from weft.benchmarks.loop_programs.factorisations import banded_cholesky, modified_gram_schmidt
from weft.ir.machine import Cache, Machine
from weft.ir.scop import Scop
from weft.polyhedral.schedule_loops import schedule_loops

MACHINE = Machine("test", 64, 32, (Cache(1 << 15), Cache(1 << 20), Cache(1 << 25)))


def orthogonal() -> Scop:
    text = """
    for k in range(N):
        for i in range(N):
            Q[i, k] = A[i, k] * 3
        for j in range(k + 1, N):
            for i in range(N):
                A[i, j] -= Q[i, k] * A[0, k]
    """
    return read(text, A="io N N", Q="io N N")


def test_columns_that_reach_to_the_end_go_in_tiles() -> None:
    made = schedule_loops(orthogonal(), MACHINE)
    assert outline(made).startswith("j_t ")
    promise(made, *({"N": n} for n in (0, 1, 2, 7)))


def test_columns_of_a_band_do_not() -> None:
    assert "_t" not in outline(schedule_loops(banded_cholesky.scop, MACHINE))


def test_threads_share_the_tiles_of_a_front() -> None:
    """The carrying loop is tiled as well: a tile of columns needs what the earlier ones made."""
    made = schedule_loops(orthogonal(), MACHINE, threads=2)
    assert "_t_j_t j_t!parallel " in outline(made)
    promise(made, *({"N": n} for n in (0, 1, 2, 7)))


def test_fronts_of_columns_compute_an_orthogonal_basis() -> None:
    options = weft.Options(cache=False, threads=2, texts=False)
    factor = modified_gram_schmidt.compile(options=options)
    for n in (1, 63, 64, 131, 300):
        a = np.random.default_rng(n).normal(size=(n + 40, n))
        q, r = a.copy(), np.zeros((n, n))
        factor(q, r)
        np.testing.assert_allclose(q @ r, a, rtol=0, atol=1e-11)
        np.testing.assert_allclose(q.T @ q, np.eye(n), rtol=0, atol=1e-10)


def paths() -> Scop:
    text = """
    for k in range(N):
        for i in range(N):
            for j in range(N):
                P[i, j] += P[i, k] * P[k, j]
    """
    return read(text, P="io N N")


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_and_columns_of_a_block_of_steps_run_in_strips(threads: int) -> None:
    text = outline(schedule_loops(paths(), MACHINE, threads=threads))
    assert text.startswith("k_t { k {")  # the corner, step by step
    rows = re.findall(r"(j_t\w*!parallel k_\w+) \{", text)
    columns = re.findall(r"(i_t\w*!parallel k_\w+) \{", text)
    assert (len(rows), len(columns)) == (2, 2)  # before the block and after it


def test_the_loop_inside_which_elements_are_independent_is_left_inside() -> None:
    """Both loops carry dependences: with the items outside, capacities run in vectors."""
    text = """
    for k in range(K):
        for c in range(C):
            B[k + 1, c] = B[k, c]
            if c >= 7:
                B[k + 1, c] = max(B[k, c], B[k, c - 7] + A[k])
    """
    scop = read(text, "K C", A="in K", B="io K+1 C")
    made = schedule_loops(scop, MACHINE)
    assert re.match(r"k c!vector", outline(made)), outline(made)
    promise(made, *({"K": k, "C": c} for k in (0, 1, 5) for c in (0, 1, 7, 8, 40)))
