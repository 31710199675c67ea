from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.benchmarks.native_loop import NativeLoop
from weft.ir.errors import ExecutionError


@weft.kernel
def count(a: weft.f64["n"]):  # noqa: F821, UP037
    for i in range(n):  # noqa: F821
        a[i] += 1.0


def test_a_loop_calls_as_often_as_it_is_told() -> None:
    a = np.zeros(5)
    loop = NativeLoop(weft.compile(count, options=weft.Options(threads=1)), {"a": a})
    for times in (0, 1, 7):
        before = a.copy()
        loop(times)
        assert (a == before + times).all()
    assert loop.results()[0] is a and (a == 9).all()  # one more run


def test_what_a_program_refuses_is_raised() -> None:
    table = weft.placeholder((4,), name="table")
    at = weft.placeholder((2,), "int64", name="at")
    taken = weft.compute((2,), lambda i: table[at[i]], name="taken")
    given = {"table": np.arange(4, dtype=np.float32), "at": np.array([3, 9])}
    loop = NativeLoop(weft.compile(taken, options=weft.Options(threads=1)), given)
    with pytest.raises(ExecutionError):
        loop(3)
    given["at"][1] = 0
    loop(3)
    assert loop.results()[0].tolist() == [3.0, 0.0]
