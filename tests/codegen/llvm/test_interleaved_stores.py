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
from weft.ir.dtypes import DType
from weft.ir.loop_ir import Block, Buffer, For, Kernel, Store
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
@pytest.mark.parametrize("count", [2, 4])
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
