"""What nothing reads is not computed, and all that is read is."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir.build import compute, placeholder, reduce_axis, sum
from weft.ir.named_isl import domain_set
from weft.ir.scalar_expr import select
from weft.ir.scop import Scop
from weft.ir.scop_interpreter import interpret
from weft.ir.scop_verifier import verify
from weft.ir.tensor_expr import Program
from weft.polyhedral.cut_domains import cut_domains
from weft.polyhedral.from_tensor_expr import lower

N = 9


def points(scop: Scop, name: str) -> int:
    return int(domain_set(scop, scop.statement(name)).count_val().to_python())


def program(where) -> Program:
    """s, and sums of it where ``where(i, j)`` holds."""
    a, b = placeholder((N, 3), name="a"), placeholder((N, 3), name="b")
    k, t = reduce_axis((0, 3), name="k"), reduce_axis((0, N), name="t")
    s = compute((N, N), lambda i, j: sum(a[i, k] * b[j, k], k), name="s")
    u = compute((N, N), lambda i, j: s[i, j] * 2.0, name="u")
    y = compute((N,), lambda i: sum(u[i, t], t, where=where(i, t)), name="y")
    return Program("p", (a, b), (y,))


@pytest.mark.parametrize(
    ("where", "count"),
    [
        (lambda i, j: j <= i, N * (N + 1) // 2),
        (lambda i, j: (j <= i) & (j >= i - 1), 2 * N - 1),
        (lambda i, j: j < 4, 4 * N),
        (lambda i, j: j >= 0, N * N),
    ],
)
def test_producers_are_cut_to_what_is_read(where, count: int) -> None:
    scop = lower(program(where), "p")
    cut = cut_domains(scop)
    verify(cut)
    assert points(cut, "u") == points(cut, "s_add") // 3 == count
    rng = np.random.default_rng(0)
    data = {name: rng.standard_normal((N, 3)).astype(np.float32) for name in "ab"}
    results = [interpret(each, data, {}) for each in (scop, cut)]
    np.testing.assert_array_equal(results[0]["y"], results[1]["y"])


def test_what_is_an_output_or_read_as_a_whole_stays() -> None:
    a, t = placeholder((N, N), name="a"), reduce_axis((0, N), name="t")
    s = compute((N, N), lambda i, j: a[i, j] * 2.0, name="s")
    half = compute((N,), lambda i: sum(s[i, t], t, where=t <= i), name="half")
    whole = compute((N,), lambda i: sum(s[t, i], t), name="whole")
    for outputs in ((half, s), (half, whole)):
        scop = lower(Program("p", (a,), outputs), "p")
        assert cut_domains(scop) == scop


def test_a_read_under_a_condition_counts_where_that_holds() -> None:
    a = placeholder((N, N), name="a")
    s = compute((N, N), lambda i, j: a[i, j] * 2.0, name="s")
    y = compute((N, N), lambda i, j: select(j <= i, s[i, j], 0.0), name="y")
    scop = cut_domains(lower(Program("p", (a,), (y,)), "p"))
    assert points(scop, "s") in (N * N, N * (N + 1) // 2)  # as far as reads are guarded
    assert points(scop, "y") == N * N
