"""Producers that are computed where they are read."""

from __future__ import annotations

from functools import reduce

import pytest

from tests.polyhedral.transform.harness import (
    chain,
    lowered,
    matmul,
    promise,
    random_scops,
    stencil,
    tensor,
)
from tests.polyhedral.transform.test_hoist_constants import constant, scaled
from tests.polyhedral.transform.test_inline_producer import padded
from weft.ir import build as w
from weft.ir import dtypes
from weft.ir.scalar_expr import select
from weft.ir.scop import Scop
from weft.ir.scop_printer import scop_text
from weft.ir.tensor_expr import Tensor
from weft.polyhedral.prepare import MAX_READS
from weft.polyhedral.prepare import prepare as prepare_schedule
from weft.polyhedral.transform.initial import initial


def prepare(of: Scop) -> Scop:
    return prepare_schedule(initial(of)).scop


def names(of: Scop) -> list[str]:
    return [s.name for s in prepare(of).statements]


def test_a_value_that_is_read_once_is_not_stored() -> None:
    assert names(chain()) == ["Y"]


def test_a_reduction_is_stored() -> None:
    assert names(matmul()) == ["C_add_init", "C_add", "D"]


def times(source: Tensor, factor: int) -> Tensor:
    """``source`` times ``factor``."""
    kind = float if source.dtype.is_float else int
    return w.compute(source.shape, lambda i: source[i] * kind(factor), name=f"Y{factor}")


def expensive(readers: int) -> Scop:
    """T = tanh(X) read by several, or by one window."""
    x = tensor("X", 8, dtype="float64")
    t = w.compute((8,), lambda i: w.tanh(x[i]), name="T")
    return lowered(*(times(t, k) for k in range(readers)), inputs=(x,))


def test_work_is_not_repeated_for_several_readers() -> None:
    assert names(expensive(1)) == ["Y0"]
    assert names(expensive(2)) == ["T", "Y0", "Y1"]


def test_a_few_operations_may_be_repeated() -> None:
    x = tensor("X", 8)
    t = w.compute((8,), lambda i: x[i] + 1, name="T")
    assert names(lowered(times(t, 2), times(t, 3), inputs=(x,))) == ["Y2", "Y3"]


def test_a_window_does_not_repeat_work() -> None:
    """Each element of T is read by every output channel and tap: computed once, stored."""
    x, f = tensor("X", 4, 12), tensor("F", 8, 4, 3)
    t = w.compute((4, 12), lambda c, i: x[c, i] * 2 + 1, name="T")
    c, k = w.reduce_axis((0, 4), name="c"), w.reduce_axis((0, 3), name="k")
    y = w.compute((8, 10), lambda o, i: w.sum(t[c, i + k] * f[o, c, k], (c, k)), name="Y")
    assert "T" in names(lowered(y, inputs=(x, f)))


def test_a_copy_is_always_read_through() -> None:
    """A transpose before a contraction moves no data."""
    x, f = tensor("X", 6, 4), tensor("F", 6, 8)
    t = w.compute((4, 6), lambda i, j: x[j, i], name="T")
    r = w.reduce_axis((0, 6), name="r")
    y = w.compute((4, 8), lambda i, j: w.sum(t[i, r] * f[r, j], r), name="Y")
    of = lowered(y, inputs=(x, f))
    assert "T" not in names(of)
    promise(of, prepare(of))


def test_a_product_sees_elements_before_they_are_converted() -> None:
    """What is padded stays small; nothing hides what becomes of it."""
    x, f = tensor("X", 6, dtype="int8"), tensor("F", 8, 3, dtype="int8")
    t = w.compute((8,), lambda i: select((i > 0) & (i < 7), x[i - 1], 0), name="T")
    wide = w.compute((8,), lambda i: t[i].astype(dtypes.int32), name="U")
    k = w.reduce_axis((0, 3), name="k")
    y = w.compute(
        (8, 6),
        lambda o, i: w.sum(wide[i + k] * f[o, k].astype(dtypes.int32), k),
        name="Y",
    )
    of = lowered(y, inputs=(x, f))
    assert names(of) == ["T", "Y_add_init", "Y_add"]
    assert "Y[o, i] add= int32(r0) * int32(r1)" in scop_text(prepare(of))
    promise(of, prepare(of))


def test_a_producer_is_judged_with_what_was_inlined_into_it() -> None:
    """B is cheap, but not once tanh has moved into it."""
    x = tensor("X", 8, dtype="float64")
    a = w.compute((8,), lambda i: w.tanh(x[i]), name="A")
    b = w.compute((8,), lambda i: a[i] + 1.0, name="B")
    assert names(lowered(times(b, 2), times(b, 3), inputs=(x,))) == ["B", "Y2", "Y3"]


def test_bodies_stay_small() -> None:
    """A chain of sums of two: in the end no statement has more than the most reads."""
    x = [tensor(f"X{k}", 4) for k in range(2 * MAX_READS)]

    def plus(a: Tensor, b: Tensor) -> Tensor:
        return w.compute((4,), lambda i: a[i] + b[i], name=f"T_{b.name}")

    total = reduce(plus, x)
    now = prepare(lowered(total, inputs=tuple(x)))
    assert max(len(s.reads) for s in now.statements) <= MAX_READS


def test_constants_are_computed_first() -> None:
    of = scaled()
    assert [s.name for s in prepare(of).statements] == ["compute_Y_constant", "Y"]
    assert [s.name for s in prepare(lowered_plain()).statements] == ["Y"]


def lowered_plain() -> Scop:
    return constant(chain(), "X")


@pytest.mark.parametrize("of", [chain, matmul, stencil, padded, scaled])
def test_it_computes_the_same(of) -> None:  # type: ignore[no-untyped-def]
    promise(of(), prepare(of()))


def test_random_programs() -> None:
    changed = 0
    for of, sizes in random_scops(25, seed=1900):
        now = prepare(of)
        changed += now != of
        promise(of, now, sizes)
    assert changed > 4
