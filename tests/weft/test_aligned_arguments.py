"""Arguments may begin anywhere: the answers are the same, bit for bit, and so are the arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft
from weft.driver.options import Options
from weft.ir.size_arithmetic import evaluate

Made = tuple[weft.Tensor, ...]


def product(m: int = 128, n: int = 128, k: int = 128) -> Made:
    a, b = weft.placeholder((m, k), name="a"), weft.placeholder((k, n), name="b")
    t = weft.reduce_axis((0, k), name="t")
    return (weft.compute((m, n), lambda i, j: weft.sum(a[i, t] * b[t, j], axis=t), name="y"),)


def batch() -> Made:
    a, b = weft.placeholder((3, 97, 80), name="a"), weft.placeholder((3, 80, 160), name="b")
    t = weft.reduce_axis((0, 80), name="t")
    return (
        weft.compute(
            (3, 97, 160), lambda g, i, j: weft.sum(a[g, i, t] * b[g, t, j], axis=t), name="y"
        ),
    )


def squared() -> Made:
    """One argument, both operands, and something else that reads it."""
    a = weft.placeholder((128, 128), name="a")
    t = weft.reduce_axis((0, 128), name="t")
    y = weft.compute((128, 128), lambda i, j: weft.sum(a[i, t] * a[t, j], axis=t), name="y")
    return (y, weft.compute((128, 128), lambda i, j: a[i, j] + 1.0, name="z"))


def within(array: np.ndarray, offset: int) -> np.ndarray:
    """A copy that begins so many bytes behind the beginning of a line."""
    memory = np.zeros(array.nbytes + 128, np.uint8)
    begin = -memory.ctypes.data % 64 + offset
    copy = memory[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("make", [product, batch, squared])
def test_answers_do_not_depend_on_where_arguments_begin(
    make: Callable[[], Made], threads: int
) -> None:
    run = weft.compile(list(make()), options=Options(cache=False, threads=threads))
    random = np.random.default_rng(3)
    shapes = {s.name: [evaluate(n, {}) for n in s.shape] for s in run.compiled.inputs}
    given = {n: random.integers(-9, 9, shape).astype(np.float32) for n, shape in shapes.items()}
    first = run.run({name: within(array, 0) for name, array in given.items()})
    for offset in (4, 16, 60):
        moved = {name: within(array, offset) for name, array in given.items()}
        for name, array in run.run(moved).items():
            np.testing.assert_array_equal(array, first[name])
        for name, array in given.items():
            np.testing.assert_array_equal(moved[name], array)
    wide = {name: array.astype(np.float64) for name, array in given.items()}
    expected = wide["a"] @ wide.get("b", wide["a"])
    np.testing.assert_array_equal(first["y"], expected)


def test_what_is_copied_is_explained() -> None:
    run = weft.compile(list(product()), options=Options(cache=False, threads=1))
    assert "copied where they begin within a line: b" in run.explain()
    few = weft.compile(list(product(m=8)), options=Options(cache=False, threads=1))
    assert "copied where" not in few.explain()


@weft.kernel
def twice(C: weft.f32[M, 64], A: weft.f32[M, 128], B: weft.f32[128, 64]):  # type: ignore[name-defined] # noqa: F821
    for i in range(M):  # noqa: F821
        for j in range(64):
            for k in range(128):
                C[i, j] += A[i, k] * B[k, j]


@pytest.mark.parametrize("rows", [0, 1, 130])
def test_loop_kernels(rows: int) -> None:
    random = np.random.default_rng(rows)
    a = random.integers(-9, 9, (rows, 128)).astype(np.float32)
    b = random.integers(-9, 9, (128, 64)).astype(np.float32)
    for offset in (0, 16, 44):
        c = within(np.ones((rows, 64), np.float32), offset)
        twice(c, within(a, offset), within(b, offset))
        np.testing.assert_array_equal(c, a @ b + 1)
