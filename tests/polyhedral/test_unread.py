"""Temporaries hold what is read of them, where that is little; results stay."""

from __future__ import annotations

from functools import partial

import islpy as isl
import numpy as np
import pytest

from tests.polyhedral.transform.harness import inputs_of, lowered, tensor
from tests.polyhedral.transform.integer_programs import SIZES, arrays, every, read
from weft.ir import build as w
from weft.ir.named_isl import domain_set
from weft.ir.scalar_expr import Expr, select
from weft.ir.scop import Scop
from weft.ir.scop_interpreter import interpret
from weft.ir.scop_printer import scop_text
from weft.ir.scop_verifier import verify
from weft.ir.size_arithmetic import evaluate
from weft.ir.tensor_expr import Program, Tensor
from weft.polyhedral.from_tensor_expr import lower
from weft.polyhedral.proof.legality import check_bounds
from weft.polyhedral.unread import unread


def same(scop: Scop, sizes: dict[str, int] | None = None) -> Scop:
    """``scop`` cut, with the same results."""
    now = unread(scop)
    verify(now)
    check_bounds(now)
    assert unread(now) == now
    arrays = inputs_of(scop, sizes or {})
    expected, found = interpret(scop, arrays, sizes or {}), interpret(now, arrays, sizes or {})
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    return now


def shapes(scop: Scop) -> dict[str, list[int]]:
    return {t.name: [evaluate(n, {}) for n in t.shape] for t in scop.tensors if t.role == "temp"}


def test_golden() -> None:
    x = tensor("X", 3)
    t = w.compute((100,), lambda i: select((i >= 10) & (i < 13), x[i - 10], 0), name="T")
    y = w.compute((2,), lambda i: t[i + 11] * t[i + 11], name="Y")
    now = same(lowered(y, inputs=(x,)))
    assert scop_text(now).splitlines()[3:8] == [
        "  temp T: int64[13]",
        "  T[i] at (0, i, 0)",
        "    where i - 11 >= 0 and 12 - i >= 0",
        "    r0 = X[i - 10]",
        "    T[i] = r0",
    ]


def test_what_a_cut_statement_no_longer_uses_it_does_not_read() -> None:
    """A padding whose value is no number: nobody reads the padding, nor that value then."""
    x, z = tensor("X", 3), tensor("Z")
    padded = w.compute((9,), lambda i: select(i < 3, x[i], z[()]), name="P")
    y = w.compute((3,), lambda i: padded[i] * padded[i], name="Y")
    now = same(lowered(y, inputs=(x, z)))
    assert [r.tensor for r in now.statement("P").reads] == ["X"]


def test_what_follows_a_sum_is_all_that_is_summed_up() -> None:
    x, r = tensor("X", 12, 5), w.reduce_axis((0, 5), name="r")
    sums = w.compute((12, 12), lambda i, j: w.sum(x[i, r] * x[j, r], r), name="S")
    more = w.compute((12, 12), lambda i, j: sums[i, j] + 1, name="T")
    y = w.compute((4, 12), lambda i, j: more[i + 1, j], name="Y")
    assert shapes(same(lowered(y, inputs=(x,)))) == {"S": [5, 12], "T": [5, 12]}


@pytest.mark.parametrize(("read", "size"), [(9, 9), (5, 9), (4, 4), (1, 1)])
def test_only_where_half_of_it_is_not_read(read: int, size: int) -> None:
    x = tensor("X", 9)
    t = w.compute((9,), lambda i: x[i] * 2, name="T")
    y = w.compute((read,), lambda i: t[i] + t[i], name="Y")
    assert shapes(same(lowered(y, inputs=(x,)))) == {"T": [size]}


def test_readers_together_and_those_under_a_guard() -> None:
    x = tensor("X", 30)
    t = w.compute((30,), lambda i: x[i] * 2, name="T")
    y = w.compute((9,), lambda i: select(i < 3, t[i % 3], t[i + 3]), name="Y")
    z = w.compute((2,), lambda i: t[i * 6 + 1], name="Z")
    assert shapes(same(lowered(y, z, inputs=(x,)))) == {"T": [12]}


def test_data_as_indices_keep_everything() -> None:
    x, at = tensor("X", 9), tensor("at_9", 9)
    t = w.compute((9,), lambda i: x[i] * 2, name="T")
    y = w.compute((2,), lambda i: t[at[i]], name="Y")
    scop = lowered(y, inputs=(x, at))
    assert same(scop) == scop
    picked = w.compute((9,), lambda i: x[at[i]] * 2, name="T")  # which checks all of ``at``
    scop = lowered(w.compute((2,), lambda i: picked[i], name="Y"), inputs=(x, at))
    assert same(scop) == scop


def test_what_is_written_together_with_a_result() -> None:
    x, r = tensor("X", 9, 3, dtype="float32"), w.reduce_axis((0, 3), name="r")
    top, at = w.computes((9,), lambda i: w.max_with_index(x[i, r], r, r), name="T")
    y = w.compute((2,), lambda i: top[i] * 2, name="Y")
    scop = lowered(y, at, inputs=(x,))
    assert same(scop) == scop


def test_what_reads_itself_reads_all_but_the_last() -> None:
    text = """
        for i in range(1, 40):
            w[i] = A[i] + w[i - 1]
        for i in range(8):
            B[i] = w[i + 1]
        """
    scop = read(text, A="in 40", B="io 8", w="tmp 40")
    assert unread(scop) == scop


def test_open_sizes_stay() -> None:
    n = w.var("n")
    x = tensor("X", n)
    t = w.compute((n,), lambda i: x[i] * 2, name="T")
    scop = lowered(w.compute((n,), lambda i: t[i] + t[0], name="Y"), inputs=(x,))
    for size in SIZES:
        assert same(scop, {"n": size}) == scop


def surrounded(x: Tensor, before: int, size: int, i: Expr) -> Expr:
    return select((i >= before) & (i < size + before), x[i - before], 7)


def strided(x: Tensor, step: int, start: int, i: Expr) -> Expr:
    return x[i * step + start]


def test_random_readers() -> None:
    rng = np.random.default_rng(3)
    cut = 0
    for _ in range(60):
        size, before, count, step, start = rng.integers([2, 0, 1, 1, 0], [30, 9, 6, 4, 9])
        least = int((count - 1) * step + start + 1)
        x, total = tensor("X", size), max(int(size + before), least)

        t = w.compute((total,), partial(surrounded, x, int(before), int(size)), name="T")
        y = w.compute((count,), partial(strided, t, int(step), int(start)), name="Y")
        scop = lowered(y, inputs=(x,))
        cut += same(scop) != scop
    assert 10 < cut < 60


# ---- Triangles and bands


N = 9


def points(scop: Scop, name: str, **sizes: int) -> int:
    found = domain_set(scop, scop.statement(name))
    for parameter, size in sizes.items():
        found = found.fix_val(isl.dim_type.param, scop.parameters.index(parameter), size)
    return int(found.count_val().to_python())


def same_in_place(scop: Scop) -> Scop:
    """``scop`` cut, with the same results whatever its sizes are."""
    now = unread(scop)
    verify(now)
    check_bounds(now)
    assert unread(now) == now
    for sizes in every(scop):
        given = arrays(scop, sizes)
        expected, found = interpret(scop, given, sizes), interpret(now, given, sizes)
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=f"{name} at {sizes}")
    return now


def program(where) -> Program:
    """s, and sums of it where ``where(i, j)`` holds."""
    a, b = w.placeholder((N, 3), name="a"), w.placeholder((N, 3), name="b")
    k, t = w.reduce_axis((0, 3), name="k"), w.reduce_axis((0, N), name="t")
    s = w.compute((N, N), lambda i, j: w.sum(a[i, k] * b[j, k], k), name="s")
    u = w.compute((N, N), lambda i, j: s[i, j] * 2.0, name="u")
    y = w.compute((N,), lambda i: w.sum(u[i, t], t, where=where(i, t)), name="y")
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
    cut = unread(scop)
    verify(cut)
    assert points(cut, "u") == points(cut, "s_add") // 3 == count
    rng = np.random.default_rng(0)
    data = {name: rng.standard_normal((N, 3)).astype(np.float32) for name in "ab"}
    results = [interpret(each, data, {}) for each in (scop, cut)]
    np.testing.assert_array_equal(results[0]["y"], results[1]["y"])


def test_what_is_an_output_or_read_as_a_whole_stays() -> None:
    a, t = w.placeholder((N, N), name="a"), w.reduce_axis((0, N), name="t")
    s = w.compute((N, N), lambda i, j: a[i, j] * 2.0, name="s")
    half = w.compute((N,), lambda i: w.sum(s[i, t], t, where=t <= i), name="half")
    whole = w.compute((N,), lambda i: w.sum(s[t, i], t), name="whole")
    for outputs in ((half, s), (half, whole)):
        scop = lower(Program("p", (a,), outputs), "p")
        assert unread(scop) == scop


def test_a_read_under_a_condition_counts_where_that_holds() -> None:
    a = w.placeholder((N, N), name="a")
    s = w.compute((N, N), lambda i, j: a[i, j] * 2.0, name="s")
    y = w.compute((N, N), lambda i, j: select(j <= i, s[i, j], 0.0), name="y")
    scop = unread(lower(Program("p", (a,), (y,)), "p"))
    assert points(scop, "s") in (N * N, N * (N + 1) // 2)  # as far as reads are guarded
    assert points(scop, "y") == N * N


def test_open_sizes_bound_what_is_read() -> None:
    text = """
        for i in range(N):
            w[i] = 7
        for i in range(1, N - 1):
            w[i] = A[i]
        for i in range(2, N - 1):
            B[i] = w[i - 1]
        """
    scop = read(text, "N", A="in N", B="io N", w="tmp N")
    now = same_in_place(scop)
    assert points(now, "S0", N=9) == points(now, "S1", N=9) == 6


def test_sizes_alone_bound_nothing() -> None:
    text = """
        for i in range(N):
            w[i] = A[i]
        for i in range(N):
            for j in range(M):
                B[i] += w[i]
        """
    scop = read(text, "N M", A="in N", B="io N", w="tmp N")
    assert same_in_place(scop) == scop


def test_what_takes_isl_too_long_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.polyhedral.unread.OPERATIONS", 1)
    scop = lower(program(lambda i, j: j <= i), "p")
    assert unread(scop) == scop


def test_indices_that_are_data_behind_a_read_that_never_is() -> None:
    x, at = tensor("X", 9), tensor("at_9", 4)
    y = w.compute((4,), lambda i: select(i >= 4, x[i - 4], 1) + x[at[i]], name="Y")
    now = same(lowered(y, inputs=(x, at)))
    assert [len(s.reads) for s in now.statements] == [2]
