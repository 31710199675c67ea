"""Temporaries hold what is read of them, where that is little; results stay."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from tests.polyhedral.transform.harness import inputs_of, lowered, tensor
from tests.polyhedral.transform.integer_programs import SIZES, read
from weft.ir import build as w
from weft.ir.scalar_expr import Expr, select
from weft.ir.scop import Scop
from weft.ir.scop_interpreter import interpret
from weft.ir.scop_printer import scop_text
from weft.ir.scop_verifier import verify
from weft.ir.size_arithmetic import evaluate
from weft.ir.tensor_expr import Tensor
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
