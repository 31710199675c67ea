"""Reasons: what arguments may be, and ways out that ``why_not`` knows."""

# ruff: noqa: F821, UP037  (sizes are names in kernels)

from __future__ import annotations

import re

import numpy as np
import pytest

import weft
from tests.weft.scheduled_kernels import blur, lu, matmul, of, sweep
from weft.driver.schedule_value import TRANSFORMATIONS
from weft.ir.errors import IllegalScheduleError


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (("split", "i", 2**40), "up to 2**31"),
        (("set_kinds", {"i": "gpu"}), '"serial", "parallel", "vector", "unrolled"'),
    ],
    ids=str,
)
def test_what_arguments_may_be(step: tuple[str, *tuple[object, ...]], words: str) -> None:
    why = matmul.schedule().why_not(*step)
    assert why is not None and words in why


def test_names_of_buffers_and_loops_are_identifiers() -> None:
    s = matmul.schedule()
    with pytest.raises(IllegalScheduleError, match="cannot name"):
        s.cache_read("A", "S1", "i", name="a b")
    with pytest.raises(IllegalScheduleError, match="cannot name"):
        s.split("i", 4, tile="for")


def test_a_schedule_that_strict_forbids_says_so() -> None:
    @weft.kernel
    def total(A: weft.f64["N"], B: weft.f64[1]):
        for i in range(N):
            B[0] += A[i]

    with pytest.raises(IllegalScheduleError, match="strict keeps sums in order"):
        total.schedule().vectorize("i").compile(weft.Options(strict=True))


def test_nothing_speaks_against_it() -> None:
    assert matmul.schedule().why_not("parallel", "i") is None
    assert lu.schedule().why_not("tile", {"i": 32, "j": 32}) is None


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (("parallel", "i"), 'skew("i", "t"), then skew("t", "i"), then parallel("i")'),
        (("tile", {"t": 4, "i": 4}), 'skew("i", "t"), then tile({"t": 4, "i": 4})'),
        (("reorder", ["i", "t"]), 'skew("i", "t"), then reorder(["i", "t"])'),
        (("reverse", "t"), "keep the two in order, in an outer loop or a sequence"),
    ],
)
def test_a_way_out(question: tuple[str, object], answer: str) -> None:
    told = sweep.schedule().why_not(*question)
    assert told is not None and told.splitlines()[-1] == f"  try: {answer}"
    assert re.search(r"S0\[t=\d+, i=\d+\] (reads|writes) A\[\d+\] before S0\[", told)
    if "then" in answer:
        eval("s." + answer.replace(", then ", "."), {"s": sweep.schedule()})


@pytest.mark.parametrize(
    ("step", "hint"), [(("parallel", "k"), 'parallel("i")'), (("parallel", "x"), "loops: i, j, k")]
)
def test_a_refusal_says_what_why_not_says(step: tuple[str, str], hint: str) -> None:
    s = matmul.schedule()
    with pytest.raises(IllegalScheduleError) as refused:
        getattr(s, step[0])(step[1])
    assert str(refused.value) == s.why_not(*step)
    assert refused.value.hint == hint


def test_a_way_out_of_fusing() -> None:
    told = blur.schedule().why_not("fuse", "i", "i_2")
    assert told is not None and told.endswith('try: fuse("i", "i_2", shift=1)')
    told = of("stencil").why_not("fuse", "i", "i_2", name="both")
    assert told is not None and told.endswith('try: fuse("i", "i_2", shift=1, name="both")')


def test_a_way_out_of_a_parallel_loop() -> None:
    told = lu.schedule().why_not("parallel", "i")
    assert told is not None and told.endswith('try: parallel("j_2")')


@weft.kernel
def means(A: weft.f64["M", "N"], B: weft.f64["M"]):
    for i in range(M):
        total = 0.0
        for j in range(N):
            total += A[i, j]
        B[i] = total


def test_a_way_out_by_private_scalars() -> None:
    told = means.schedule().why_not("parallel", "i")
    assert told is not None and told.endswith('try: expand("total", ["i"]), then parallel("i")')
    s = means.schedule().expand("total", ["i"]).parallel("i")
    a, b = np.arange(12.0).reshape(3, 4), np.zeros(3)
    s.compile()(a, b)
    np.testing.assert_array_equal(b, a.sum(1))


def test_a_way_out_by_partial_sums() -> None:
    @weft.kernel
    def total(A: weft.i64["N"], s: weft.i64[1]):
        for i in range(N):
            s[0] += A[i]

    told = total.schedule().why_not("parallel", "i")
    assert told is not None and told.endswith('try: rfactor("S0", "i"), then parallel("i")')
    run = total.schedule().split("i", 64).rfactor("S0", "i_t").parallel("i_t").compile()
    for n in (0, 1, 64, 1000):
        found = np.array([5])
        run(np.arange(n), found)
        assert found[0] == 5 + n * (n - 1) // 2


def test_why_not_of_no_transformation() -> None:
    with pytest.raises(IllegalScheduleError, match="E0019") as caught:
        lu.schedule().why_not("nothing_of_the_kind")
    assert caught.value.hint == f"transformations: {', '.join(TRANSFORMATIONS)}"
