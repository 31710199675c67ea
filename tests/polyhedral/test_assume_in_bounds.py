"""Contexts shrink to the sizes for which programs stay inside their tensors."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir import build as w
from weft.ir.errors import CallError, CompileError
from weft.ir.scop_interpreter import interpret
from weft.ir.tensor_expr import Program
from weft.polyhedral.assume_sizes import assume_in_bounds
from weft.polyhedral.from_tensor_expr import lower
from weft.polyhedral.proof.legality import check_bounds

n, m = w.var("n"), w.var("m")


def lowered(tensor, *inputs):
    return lower(Program("p", inputs, (tensor,)), "p")


def test_an_edge_needs_an_element():
    a = w.placeholder((n,), name="a")
    edge = w.compute((n + 2,), lambda i: a[w.minimum(w.maximum(i - 1, 0), n - 1)], name="edge")
    scop = lowered(edge, a)
    with pytest.raises(CompileError, match="E0430"):
        check_bounds(scop)
    fixed = assume_in_bounds(scop)
    check_bounds(fixed)
    assert interpret(fixed, {"a": np.float32([1, 2])})["edge"].tolist() == [1, 1, 2, 2]
    with pytest.raises(CallError, match="the context does not hold"):
        interpret(fixed, {"a": np.zeros(0, np.float32)})


def test_two_sizes_that_have_to_fit():
    a, b = w.placeholder((n,), name="a"), w.placeholder((m,), name="b")
    both = w.compute((n,), lambda i: a[i] + b[i], name="both")
    fixed = assume_in_bounds(lowered(both, a, b))
    check_bounds(fixed)
    interpret(fixed, {"a": np.zeros(2, np.float32), "b": np.zeros(3, np.float32)})
    with pytest.raises(CallError):
        interpret(fixed, {"a": np.zeros(3, np.float32), "b": np.zeros(2, np.float32)})


def test_a_window_that_has_to_fit_into_what_is_cut_off():
    x, k = w.placeholder((n, m), name="x"), w.placeholder((w.var("f"),), name="k")
    p = w.reduce_axis((0, w.var("f")), name="p")
    y = w.compute((8, m - 4), lambda b, i: w.sum(x[b, i + p] * k[p], [p]), name="y")
    fixed = assume_in_bounds(lowered(y, x, k))
    check_bounds(fixed)
    data, ones = np.arange(56, dtype=np.float32).reshape(8, 7), np.ones(5, np.float32)
    found = interpret(fixed, {"x": data, "k": ones})["y"]
    np.testing.assert_array_equal(found, sum(data[:, q : q + 3] for q in range(5)))
    for images, taps in ((7, 5), (8, 6)):
        wrong = {"x": np.zeros((images, 7), np.float32), "k": np.zeros(taps, np.float32)}
        with pytest.raises(CallError, match="the context does not hold"):
            interpret(fixed, wrong)


def test_nothing_changes_where_nothing_is_wrong_or_nothing_helps():
    a = w.placeholder((n,), name="a")
    fine = lowered(w.compute((n,), lambda i: a[n - 1 - i], name="t"), a)
    assert assume_in_bounds(fine) is fine
    five = w.placeholder((5,), name="five")
    wrong = lowered(w.compute((5,), lambda i: five[i + 1], name="t"), five)
    assert assume_in_bounds(wrong) is wrong
