"""Matrix products of small integers and of bfloat16 as loop kernels, and numbers for them."""

# ruff: noqa: F821  (sizes of a signature are names in the function's body)

import numpy as np

import weft
from weft import i32
from weft.loop_kernel import Kernel


def of_any_size(left: weft.DType, right: weft.DType, result: weft.DType = i32) -> Kernel:
    @weft.kernel
    def multiply(A: left["M", "K"], B: right["K", "N"], C: result["M", "N"]):
        for i in range(M):
            for j in range(N):
                for k in range(K):
                    C[i, j] += result(A[i, k]) * result(B[k, j])

    return multiply


def integers(random: np.random.Generator, dtype: weft.DType, shape: tuple[int, ...]) -> np.ndarray:
    """Any of ``dtype``, its extremes included."""
    low, high = int(dtype.lowest), int(dtype.highest)
    return random.integers(low, high, shape, endpoint=True).astype(dtype.numpy)
