"""Stores that interleave, as whole vectors: the same memory as one store after the other, and
nothing beyond it (buffers end at forbidden pages)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.codegen.kernel_runner import check
from weft.codegen.llvm.kernel import emit_kernel
from weft.codegen.llvm.target import host_target
from weft.ir import dtypes
from weft.ir.build import monoid
from weft.ir.dtypes import DType
from weft.ir.loop_ir import Block, Buffer, For, Kernel, Store, Update
from weft.ir.scalar_expr import Expr, Load, Var, literal

i, n = Var("i"), Var("n")
one = literal(1)


def interleave(dtype: DType, count: int, stride: int, values: list[Expr] | None = None) -> Kernel:
    """``P[stride * i + k] = A[k, i]`` for each k below ``count``, or other ``values``."""
    given = values or [Load("A", (literal(k), i), dtype) for k in range(count)]
    stores = tuple(Store("P", (i * stride + k,), value) for k, value in enumerate(given))
    buffers = (
        Buffer("A", dtype, (literal(count), n), (n, one), writable=False),
        Buffer("P", dtype, (n * stride,), (one,)),
    )
    return Kernel("k", ("n",), buffers, For("i", literal(0), n, "vector", Block(stores)))


def arrays(dtype: DType, count: int, stride: int, size: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(size)
    return {
        "A": rng.integers(-50, 50, count * size).astype(dtype.numpy),
        "P": rng.integers(-50, 50, stride * size).astype(dtype.numpy),
    }


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.bfloat16, dtypes.float64])
@pytest.mark.parametrize("count", [2, 3, 4, 5, 7])
def test_vectors_and_what_is_left(dtype: DType, count: int) -> None:
    kernel = interleave(dtype, count, count)
    for size in (0, 1, 7, 64, 65, 131):
        done = check(kernel, {"n": size}, arrays(dtype, count, count, size))
        np.testing.assert_array_equal(done["P"].reshape(size, count).T.ravel(), done["A"])


@pytest.mark.parametrize("count, stride", [(2, 3), (3, 3), (4, 8)])
def test_what_lies_between_stays(count: int, stride: int) -> None:
    kernel = interleave(dtypes.int32, count, stride)
    check(kernel, {"n": 37}, arrays(dtypes.int32, count, stride, 37))


def test_what_is_read_again_is_what_was_written() -> None:
    first = Load("A", (literal(0), i), dtypes.int32) + 1
    again = Load("P", (i * 2,), dtypes.int32) * 3
    kernel = interleave(dtypes.int32, 2, 2, [first, again])
    check(kernel, {"n": 37}, arrays(dtypes.int32, 2, 2, 37))


def test_they_are_whole_vectors() -> None:
    target = replace(host_target(), vector_bytes=32)
    assert "store <16 x float>" in emit_kernel(interleave(dtypes.float32, 2, 2), target).text
    assert "store <16 x float>" not in emit_kernel(interleave(dtypes.float32, 2, 3), target).text


@pytest.mark.parametrize("order", [(1, 0), (2, 0, 1), (0, 2, 1), (3, 1, 0, 2)])
def test_in_any_order_and_among_others(order: tuple[int, ...]) -> None:
    """What is stored elsewhere in between ends a group, and begins another."""
    count = len(order)
    stores = [Store("P", (i * count + k,), Load("A", (literal(k), i), dtypes.int32)) for k in order]
    other = Store("A", (literal(0), i), Load("P", (i * count,), dtypes.int32) + 1)
    kernel = interleave(dtypes.int32, count, count)
    buffers = tuple(replace(b, writable=True) for b in kernel.buffers)
    for stmts in ([*stores, other], [other, *stores], [stores[0], other, *stores[1:]]):
        body = For("i", literal(0), n, "vector", Block(tuple(stmts)))
        for size in (1, 16, 37):
            given = arrays(dtypes.int32, count, count, size)
            check(replace(kernel, buffers=buffers, body=body), {"n": size}, given)


@pytest.mark.parametrize("dtype", [dtypes.int32, dtypes.float64, dtypes.bfloat16])
@pytest.mark.parametrize("count", [2, 3])
def test_folds_interleave_as_stores_do(dtype: DType, count: int) -> None:
    """A compare and exchange: the fold reads both elements, the store a value from before."""
    places = [(i * count + k,) for k in range(count)]
    folds = [
        Update((("P", place),), monoid("max", dtype), (Load("A", (literal(k), i), dtype),))
        for k, place in enumerate(places)
    ]
    first = Update((("P", places[1]),), monoid("max", dtype), (Load("P", places[0], dtype),))
    kernel = interleave(dtype, count, count)
    for stmts in (folds, [first, folds[0], *folds[2:]], [folds[0], first, *folds[2:]]):
        body = For("i", literal(0), n, "vector", Block(tuple(stmts)))
        for size in (0, 5, 64, 67):
            check(replace(kernel, body=body), {"n": size}, arrays(dtype, count, count, size))
