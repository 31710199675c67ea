"""Providers are held to their word: each way to break it has an error of its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft
from weft.driver.providers import Runner, Subgraph
from weft.graph.from_program import from_program
from weft.ir.errors import ProviderError
from weft.tuner.runners import check_runner, difference, laid, runner_of

X = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
Y = 2 * X


def doubled(dtype: str = "float32") -> Subgraph:
    x = weft.placeholder((3, 5), dtype, name="x")
    y = weft.compute((3, 5), lambda i, j: x[i, j] * 2, name="y")
    return Subgraph(from_program(weft.program(y)), 1)


def check(
    call: object, tolerance: float | None = None, **layouts: dict[str, tuple[int, ...]]
) -> None:
    part = doubled()
    runner = runner_of("it", lambda part: Runner(call, **layouts), part)
    assert runner is not None
    check_runner("it", runner, part.graph, {"x": X}, {"y": Y}, tolerance)


def overwrites(x: np.ndarray) -> np.ndarray:
    x.flags.writeable = True
    x *= 2
    return x.copy()


def reuses() -> Callable[[np.ndarray], np.ndarray]:
    place = np.empty((3, 5), np.float32)
    return lambda x: np.multiply(x, 2, out=place)


def spoils(bad: float, index: tuple[int, int] = (2, 3)) -> Callable[[np.ndarray], np.ndarray]:
    def run(x: np.ndarray) -> np.ndarray:
        y = 2 * x
        y[index] = bad
        return y

    return run


def raises(x: np.ndarray) -> np.ndarray:
    raise OSError("no device")


BROKEN: dict[str, tuple[str, object, str]] = {
    "raises": ("E1510", raises, "it raises OSError"),
    "writes to read-only": (
        "E1510", lambda x: np.multiply(x, 2, out=x), "it raises ValueError",
    ),
    "nothing": ("E1514", lambda x: [], "it gives 0 results, not 1"),
    "no array": ("E1514", lambda x: 2.0, "'y' is a float, not an array"),
    "two": ("E1514", lambda x: (2 * x, x), "it gives 2 results, not 1"),
    "dtype": (
        "E1514", lambda x: 2 * x.astype(np.float64), "'y' is float64[3, 5], not float32[3, 5]",
    ),
    "shape": ("E1514", lambda x: 2 * x.T.copy(), "'y' is float32[5, 3], not float32[3, 5]"),
    "strides": ("E1514", lambda x: (2 * x).T.copy().T, "'y' does not lie in memory as (0, 1)"),
    "wrong": ("E1515", spoils(1e3), "'y' differs by"),
    "nan": ("E1515", spoils(np.nan), "'y' has 1 elements that are NaN or infinite, or should be"),
    "inf": ("E1515", spoils(-np.inf), "'y' has 1 elements that are NaN or infinite, or should be"),
    "overwrites": ("E1516", overwrites, "it overwrites 'x'"),
    "reuses": ("E1516", reuses(), "'y' is in memory of another array, or of the next call's"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken(name: str) -> None:
    code, call, what = BROKEN[name]
    with pytest.raises(ProviderError) as caught:
        check(call)
    assert caught.value.code == f"WEFT-{code}"
    assert caught.value.what.startswith(what)
    assert caught.value.where == "provider it, node 'y'"


def test_right() -> None:
    check(lambda x: 2 * x)
    check(lambda x: [x + x])
    check(lambda x: 2 * x + np.float32(1e-5))  # within half of the digits
    with pytest.raises(ProviderError, match="E1515"):
        check(lambda x: 2 * x + np.float32(1e-5), tolerance=1e-6)


def test_layouts() -> None:
    def columns(x: np.ndarray) -> np.ndarray:
        assert x.shape == (3, 5) and x.flags.f_contiguous
        return 2 * x

    check(columns, inputs={"x": (1, 0)}, outputs={"y": (1, 0)})
    with pytest.raises(ProviderError, match=r"does not lie in memory as \(1, 0\)"):
        check(lambda x: 2 * x, outputs={"y": (1, 0)})


def test_who_takes_it() -> None:
    part = doubled()
    assert runner_of("it", lambda part: None, part) is None
    made = runner_of("it", lambda part: np.negative, part)
    assert made is not None and made.call is np.negative
    for wrong, code in (
        (lambda part: 7, "E1513"),
        (lambda part: Runner(np.negative, inputs={"x": (0, 0)}), "E1513"),
        (lambda part: Runner(np.negative, outputs={"x": (0, 1)}), "E1513"),
        (lambda part: part.nothing, "E1510"),
    ):
        with pytest.raises(ProviderError, match=code):
            runner_of("it", wrong, part)


@pytest.mark.parametrize(
    ("dtype", "off", "fine"),
    [
        ("float64", 1e-6, False), ("float64", 1e-9, True), ("float32", 1e-3, False),
        ("float16", 1e-2, True), ("float16", 0.1, False), ("bfloat16", 0.05, True),
        ("bfloat16", 0.5, False), ("int8", 1, False), ("int8", 0, True), ("bool", 1, False),
    ],
)  # fmt: skip
def test_differences_by_dtype(dtype: str, off: float, fine: bool) -> None:
    x = weft.placeholder((2, 2), dtype, name="x")
    (value,) = from_program(
        weft.program(weft.compute((2, 2), lambda i, j: x[i, j], name="y"))
    ).outputs
    expected = np.array([[0, 1], [1, 0]]).astype(value.dtype.numpy)
    found = expected.copy()
    found[0, 0] = off
    assert (difference(value, found, expected, None) == "") is fine


def test_nan_and_infinity_where_they_belong() -> None:
    (value,) = doubled().graph.outputs
    odd = np.array([np.nan, np.inf, -np.inf, 0.0], np.float32)
    assert difference(value, odd, odd.copy(), None) == ""
    assert difference(value, odd[[0, 2, 2, 3]], odd, None)
    assert difference(value, odd[[3, 1, 2, 3]], odd, None)
    empty = np.empty((0, 3), np.float32)
    assert difference(value, empty, empty, None) == ""


def test_laid() -> None:
    array = np.arange(24).reshape(2, 3, 4)
    for layout in (None, (0, 1, 2), (2, 0, 1), (1, 2, 0)):
        found = laid(array, layout)
        np.testing.assert_array_equal(found, array)
        assert found.transpose(layout or (0, 1, 2)).flags.c_contiguous
        assert laid(found, layout) is found or np.shares_memory(laid(found, layout), found)
    scalar = np.array(3.0)
    assert laid(scalar, None).shape == () and laid(np.empty((0, 2)), (1, 0)).shape == (0, 2)
