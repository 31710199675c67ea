"""Reductions run where they change something; what they compute stays, to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tests.polyhedral.transform.harness import inputs_of, lowered, tensor
from weft.frontend.operators.registry import instantiate
from weft.ir import build as w
from weft.ir.scalar_expr import Expr, literal, select
from weft.ir.scop import Scop
from weft.ir.scop_interpreter import interpret
from weft.ir.scop_verifier import verify
from weft.ir.size_arithmetic import evaluate
from weft.ir.tensor_expr import Tensor
from weft.polyhedral.contributing import contributing
from weft.polyhedral.from_tensor_expr import lower
from weft.polyhedral.proof.legality import check_bounds

FOLDS: dict[str, tuple[Callable[..., Expr], float]] = {
    "sum": (w.sum, 0),
    "product": (w.prod, 1),
    "least": (w.min_over, np.inf),
    "greatest": (w.max_over, -np.inf),
}


def instances(scop: Scop, **sizes: int) -> set[tuple[int, ...]]:
    """The instances of the one reduction, by brute force over a box that is large enough here."""
    (s,) = (s for s in scop.statements if s.update is not None)

    bound = 50 if len(s.dims) < 4 else 10

    def points(dims: Sequence[str]) -> Iterator[dict[str, int]]:
        if not dims:
            yield {}
            return
        for rest in points(dims[:-1]):
            for value in range(bound):
                yield {**rest, dims[-1]: value}

    return {
        tuple(at.values())
        for at in points(s.dims)
        if all(evaluate(c.expr, at | sizes) >= 0 for c in s.domain)
    }


def same(scop: Scop, sizes: dict[str, int] | None = None) -> Scop:
    """``scop`` cut, with the same results on data with NaN, -0.0 and infinities in it."""
    now = contributing(scop)
    verify(now)
    check_bounds(now)
    assert contributing(now) == now
    arrays = inputs_of(scop, sizes or {})
    for array in arrays.values():
        if array.dtype.kind == "f":
            array.ravel()[:4] = [np.nan, -0.0, np.inf, -np.inf][: array.size]
    expected, found = interpret(scop, arrays, sizes or {}), interpret(now, arrays, sizes or {})
    for name, value in expected.items():
        assert found[name].tobytes() == value.tobytes(), name
    return now


def windows(fold: Any, other: float, size: int, taps: int, pad: int, dtype: str) -> Scop:
    """``fold`` over windows of ``taps`` elements of what has ``pad`` times ``other`` around it."""
    x, r = tensor("X", size, dtype=dtype), w.reduce_axis((0, taps), name="r")
    padded = w.compute(
        (size + 2 * pad,),
        lambda i: select((i >= pad) & (i < size + pad), x[i - pad], literal(other, x.dtype)),
        name="P",
    )
    y = w.compute((size + 2 * pad - taps + 1,), lambda i: fold(padded[i + r], r), name="Y")
    return lowered(y, inputs=(x,))


@pytest.mark.parametrize("kind", FOLDS)
@pytest.mark.parametrize(("size", "taps", "pad"), [(1, 3, 1), (3, 5, 4), (5, 3, 1), (1, 7, 3)])
def test_a_fold_over_windows(kind: str, size: int, taps: int, pad: int) -> None:
    fold, identity = FOLDS[kind]
    before = windows(fold, identity, size, taps, pad, "float32")
    now = same(before)
    contributes = {(o, r) for o, r in instances(before) if 0 <= o + r - pad < size}
    run = instances(now)
    assert contributes <= run
    for d in (0, 1):  # as few values of each dim as there can be
        assert {at[d] for at in run} == {at[d] for at in contributes}


@pytest.mark.parametrize("kind", FOLDS)
def test_what_is_no_identity_stays(kind: str) -> None:
    scop = windows(FOLDS[kind][0], 3, 1, 7, 3, "float32")
    assert contributing(scop) == scop


def test_few_instances_in_a_large_box_are_all_that_run() -> None:
    before = windows(w.sum, 0, 1, 25, 24, "float64")
    now = same(before)
    assert instances(now) == {(o, 24 - o) for o in range(25)}
    narrow = windows(w.sum, 0, 1, 25, 24, "uint8")  # vectors of so many are faster
    assert same(narrow) == narrow


def test_conditions_of_rows_are_bounds_before_those_that_vectors_evaluate() -> None:
    x = tensor("X", 3, 3, dtype="float32")
    r, s = (w.reduce_axis((0, 8), name=n) for n in "rs")

    def inside(i: Expr) -> Expr:
        return (i >= 7) & (i < 10)

    padded = w.compute(
        (17, 17), lambda i, j: select(inside(i) & inside(j), x[i - 7, j - 7], 0), name="P"
    )
    y = w.compute((10, 10), lambda i, j: w.sum(padded[i + r, j + s], (r, s)), name="Y")
    run = instances(same(lowered(y, inputs=(x,))))
    rows = {(i, r) for i in range(10) for r in range(8) if 7 <= i + r < 10}
    assert run == {(i, j, r, s) for i, r in rows for j in range(10) for s in range(8)}


def image(fold: Callable[[Expr, Any], Expr], inner: Callable[[Expr], Expr], dtype: str) -> Scop:
    x, r = tensor("X", 2, dtype=dtype), w.reduce_axis((0, 9), name="r")
    changed = w.compute((9,), lambda i: inner(select(i < 2, x[i % 2], 0)), name="P")
    return lowered(w.compute((1,), lambda i: fold(changed[i + r], r), name="Y"), inputs=(x,))


def taps_of(scop: Scop) -> int:
    return len({at[-1] for at in instances(scop)})


@pytest.mark.parametrize(
    ("inner", "dtype", "taps"),
    [
        (lambda v: w.maximum(v, 0), "float32", 2),
        (lambda v: v * v, "float32", 2),
        (lambda v: abs(v) * 3.0, "float32", 2),
        (lambda v: v.astype("float64"), "float16", 2),
        (lambda v: v + 1, "float32", 9),
        (lambda v: w.exp(v), "float32", 9),
    ],
)
def test_what_is_computed_from_padding(inner: Any, dtype: str, taps: int) -> None:
    assert taps_of(same(image(w.sum, inner, dtype))) == taps


@pytest.mark.parametrize(("dtype", "taps"), [("int32", 2), ("float32", 9)])
def test_zero_times_what_may_be_infinite_contributes(dtype: str, taps: int) -> None:
    x, k, r = (
        tensor("X", 2, dtype=dtype),
        tensor("K", 9, dtype=dtype),
        w.reduce_axis((0, 9), name="r"),
    )
    padded = w.compute((9,), lambda i: select(i < 2, x[i % 2], 0), name="P")
    y = w.compute((1,), lambda i: w.sum(padded[i + r] * k[r], r), name="Y")
    assert taps_of(same(lowered(y, inputs=(x, k)))) == taps


def test_conditions_inside_of_conditions_and_the_other_way_round() -> None:
    x, r = tensor("X", 9, dtype="float32"), w.reduce_axis((0, 9), name="r")
    body = select(r < 2, literal(0, x.dtype), select(r < 5, x[r], literal(0, x.dtype)))
    now = same(lowered(w.compute((1,), lambda i: w.sum(body, r), name="Y"), inputs=(x,)))
    assert {at[-1] for at in instances(now)} == {2, 3, 4}


def test_conditions_on_data_say_nothing() -> None:
    x, r = tensor("X", 9, dtype="float32"), w.reduce_axis((0, 9), name="r")
    body = select((x[r] > 0) & (r < 5), x[r], literal(0, x.dtype))
    scop = lowered(w.compute((1,), lambda i: w.sum(body, r), name="Y"), inputs=(x,))
    assert contributing(scop) == scop


def test_an_index_that_is_data_is_checked_where_it_is_not_needed() -> None:
    x, k, r = tensor("X", 3, dtype="int32"), tensor("K", 9), w.reduce_axis((0, 9), name="r")
    body = select(r < 2, literal(1, x.dtype), literal(0, x.dtype)) * x[k[r]]
    scop = lowered(w.compute((1,), lambda i: w.sum(body, r), name="Y"), inputs=(x, k))
    assert contributing(scop) == scop


def test_a_fold_of_pairs_and_nothing_at_all() -> None:
    x, r = tensor("X", 2, dtype="float32"), w.reduce_axis((0, 9), name="r")
    at = select(r < 2, r, -1)
    value = select(r < 2, x[r % 2], literal(float("-inf"), x.dtype))
    pair = w.computes((1,), lambda i: w.max_with_index(value, at, r), name="Y")
    assert taps_of(same(lowered(*pair, inputs=(x,)))) == 2
    never = w.compute((1,), lambda i: w.sum(select(r > 9, x[r % 2], 0), r), name="Y")
    same(lowered(never, inputs=(x,)))


def test_open_sizes() -> None:
    n = w.var("n")
    x, r = tensor("X", n, dtype="float32"), w.reduce_axis((0, 9), name="r")
    body = select((r >= 3) & (r < n), x[r], literal(0, x.dtype))
    scop = lowered(w.compute((1,), lambda i: w.sum(body, r), name="Y"), inputs=(x,))
    for size in (0, 1, 4, 9, 20):
        now = same(scop, {"n": size})
    assert {at[-1] for at in instances(now, n=20)} == set(range(3, 9))


def test_windows_of_ordinary_networks_stay_as_they_are() -> None:
    x = Tensor("x", (1, 3, 14, 14), w.placeholder((1,), name="t").dtype)
    for op, more in (("max_pool", {}), ("average_pool", {"ceil_mode": True}), ("lp_pool", {})):
        program = instantiate(op, [x], kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1), **more)
        scop = lower(program, "pool")
        assert contributing(scop) == scop
