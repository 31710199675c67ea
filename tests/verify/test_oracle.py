"""What counts as the same result."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
import pytest

import weft
from tests.weft import verified_examples as examples
from weft.ir.errors import ExecutionError
from weft.verify.oracle import Expected, expected, garbage, run_graph, tried

NAN, INF = float("nan"), float("inf")


def wanted(
    value: Sequence[object], dtype: object, precise: Sequence[object] | None = None
) -> Expected:
    values = np.array(value, dtype)
    exact = values.astype(np.float64) if precise is None else np.array(precise, np.float64)
    return expected(["y"], [values], [exact if values.dtype.kind not in "iub" else values])


@pytest.mark.parametrize(
    ("dtype", "value", "other"),
    [
        (np.int64, [(1 << 53) + 1, 7], [1 << 53, 7]),
        (np.uint64, [(1 << 64) - 1], [(1 << 64) - 2]),
        (bool, [True, False], [True, True]),
        (np.float32, [1.0, NAN], [1.0, 0.0]),
        (np.float32, [1.0, INF], [1.0, -INF]),
        (np.float32, [1.0, 2.0], [1.0, 2.001]),
        (np.float64, [1.0, 2.0], [1.0, 2.0 + 1e-9]),
        (ml_dtypes.bfloat16, [1.0, 2.0], [1.0, 4.0]),
    ],
)
def test_what_differs_is_shown(dtype: object, value: list[object], other: list[object]) -> None:
    same, different = np.array(value, dtype), np.array(other, dtype)
    assert wanted(value, dtype).difference([same]) == ""
    place = int(np.flatnonzero([repr(a) != repr(b) for a, b in zip(value, other, strict=True)])[0])
    shown = wanted(value, dtype).difference([different])
    assert shown.startswith(f"y[{place}] is ") and "1 of" in shown


def test_rounding_is_allowed_for_as_far_as_it_goes() -> None:
    value = np.float32(0.1) * np.arange(1, 50, dtype=np.float32)
    one_ulp = np.nextafter(value, np.float32(INF))
    assert wanted(list(value), np.float32).difference([one_ulp]) == ""
    assert wanted(list(value), np.float32).difference([value * np.float32(1.001)])


def test_where_the_precisions_disagree_nothing_is_said() -> None:
    overflown = wanted([INF, 1.0], np.float32, [1e300, 1.0])
    assert overflown.difference([np.array([-3.0, 1.0], np.float32)]) == ""
    assert overflown.difference([np.array([INF, 2.0], np.float32)])


def test_shape_is_free_but_dtype_and_size_are_not() -> None:
    like = wanted([1.0, 2.0], np.float32)
    assert like.difference([np.array([[1.0], [2.0]], np.float32)]) == ""
    assert "float64" in like.difference([np.array([1.0, 2.0])])
    assert "[3]" in like.difference([np.zeros(3, np.float32)])


def test_garbage_is_of_any_dtype() -> None:
    for name in ("float32", "bfloat16", "float8_e4m3fn", "int4", "uint8", "bool_"):
        assert garbage(3, getattr(weft, name)).dtype == getattr(weft, name).numpy


def test_indices_get_data_that_they_accept() -> None:
    table, at = weft.placeholder((2, 3), name="table"), weft.placeholder((5,), "int64", name="at")
    graph = examples.graph_of(weft.compute((5, 3), lambda i, j: table[at[i], j], name="rows"))
    _, inputs, found = tried(graph, run_graph)
    index = next(a for a in inputs if a.dtype == np.int64)
    assert set(index) <= {0, 1} and not found.difference(list(found.values))


def test_no_data_at_all_is_an_error() -> None:
    table, at = weft.placeholder((2,), name="table"), weft.placeholder((5,), "int64", name="at")
    graph = examples.graph_of(weft.compute((5,), lambda i: table[at[i] + 9], name="rows"))
    with pytest.raises(ExecutionError, match="out of range"):
        tried(graph, run_graph)


def test_domains_of_functions_are_found() -> None:
    x = weft.placeholder((50,), name="x")
    graph = examples.graph_of(weft.compute((50,), lambda i: weft.sqrt(x[i] - 0.2), name="y"))
    _, _, found = tried(graph, run_graph)
    assert not np.isnan(found.values[0]).any()
