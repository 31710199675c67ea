"""Loop kernels for all sizes beside the same text with these sizes written in it."""

# mypy: disable-error-code="no-untyped-def, valid-type, index, operator, name-defined"

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import weft
from weft.benchmarks.blind_case import Case, random

f32 = weft.float32
Size = Any  # a number, or the name of one


def product(M: Size, N: Size, K: Size) -> Any:
    """A matrix product."""

    @weft.kernel
    def product(C: f32[M, N], A: f32[M, K], B: f32[K, N]):
        for i in range(M):
            for j in range(N):
                C[i, j] = 0.0
                for k in range(K):
                    C[i, j] += A[i, k] * B[k, j]

    return product


def transposed(M: Size, N: Size, K: Size) -> Any:
    """A product with a transposed operand."""

    @weft.kernel
    def transposed(C: f32[M, N], A: f32[M, K], B: f32[N, K]):
        for i in range(M):
            for j in range(N):
                C[i, j] = 0.0
                for k in range(K):
                    C[i, j] += A[i, k] * B[j, k]

    return transposed


def convolution(C: Size, H: Size, W: Size, K: Size) -> Any:
    """A 3×3 convolution without padding."""

    @weft.kernel
    def convolution(
        y: f32[K, H, W],
        x: f32[C, H + 2 if H != "H" else "H + 2", W + 2 if W != "W" else "W + 2"],
        w: f32[K, C, 3, 3],
    ):
        for k in range(K):
            for i in range(H):
                for j in range(W):
                    y[k, i, j] = 0.0
                    for c in range(C):
                        for r in range(3):
                            for s in range(3):
                                y[k, i, j] += x[c, i + r, j + s] * w[k, c, r, s]

    return convolution


def shares(M: Size, N: Size) -> Any:
    """Softmax of each row."""

    @weft.kernel
    def shares(y: f32[M, N], x: f32[M, N]):
        top = weft.empty((M,), f32)
        total = weft.empty((M,), f32)
        for i in range(M):
            top[i] = x[i, 0]
            for j in range(N):
                top[i] = max(top[i], x[i, j])
            total[i] = 0.0
            for j in range(N):
                y[i, j] = np.exp(x[i, j] - top[i])
                total[i] += y[i, j]
            for j in range(N):
                y[i, j] = y[i, j] / total[i]

    return shares


def moments(M: Size, N: Size) -> Any:
    """Rows less their mean, over their deviation."""

    @weft.kernel
    def moments(y: f32[M, N], x: f32[M, N]):
        mean = weft.empty((M,), f32)
        spread = weft.empty((M,), f32)
        for i in range(M):
            mean[i] = 0.0
            for j in range(N):
                mean[i] += x[i, j]
            mean[i] = mean[i] / N
            spread[i] = 0.0
            for j in range(N):
                spread[i] += (x[i, j] - mean[i]) * (x[i, j] - mean[i])
            spread[i] = 1.0 / np.sqrt(spread[i] / N + 1e-5)
            for j in range(N):
                y[i, j] = (x[i, j] - mean[i]) * spread[i]

    return moments


def vector(M: Size, N: Size) -> Any:
    """A matrix times a vector."""

    @weft.kernel
    def vector(y: f32[M], A: f32[M, N], x: f32[N]):
        for i in range(M):
            y[i] = 0.0
            for j in range(N):
                y[i] += A[i, j] * x[j]

    return vector


def columns(M: Size, N: Size) -> Any:
    """Sums of columns."""

    @weft.kernel
    def columns(y: f32[N], x: f32[M, N]):
        for j in range(N):
            y[j] = 0.0
        for i in range(M):
            for j in range(N):
                y[j] += x[i, j]

    return columns


def turned(M: Size, N: Size) -> Any:
    """A transpose."""

    @weft.kernel
    def turned(y: f32[N, M], x: f32[M, N]):
        for i in range(N):
            for j in range(M):
                y[i, j] = x[j, i]

    return turned


def plate(M: Size, N: Size) -> Any:
    """Five-point averages."""

    @weft.kernel
    def plate(y: f32[M, N], x: f32[M, N]):
        for i in range(1, M - 1):
            for j in range(1, N - 1):
                y[i, j] = 0.2 * (x[i, j] + x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])

    return plate


def many(B: Size, M: Size, N: Size, K: Size) -> Any:
    """A batch of products."""

    @weft.kernel
    def many(C: f32[B, M, N], A: f32[B, M, K], E: f32[B, K, N]):
        for b in range(B):
            for i in range(M):
                for j in range(N):
                    C[b, i, j] = 0.0
                    for k in range(K):
                        C[b, i, j] += A[b, i, k] * E[b, k, j]

    return many


def _case(
    make: Callable[..., Any], names: str, sizes: Sequence[int], *shapes: Sequence[int]
) -> Case:
    title = f"kernel: {make.__doc__}".rstrip(".") + " " + "×".join(map(str, sizes))
    return Case(title, make(*sizes), make(*names), [random(*shape) for shape in shapes])


KERNELS: tuple[Callable[[], Case], ...] = (
    partial(_case, product, "MNK", (256, 384, 512), (256, 384), (256, 512), (512, 384)),
    partial(_case, product, "MNK", (100, 77, 65), (100, 77), (100, 65), (65, 77)),
    partial(_case, transposed, "MNK", (256, 384, 512), (256, 384), (256, 512), (384, 512)),
    partial(_case, many, "BMNK", (12, 128, 128, 64), (12, 128, 128), (12, 128, 64), (12, 64, 128)),
    partial(
        _case, convolution, "CHWK", (64, 28, 28, 64), (64, 28, 28), (64, 30, 30), (64, 64, 3, 3)
    ),
    partial(_case, shares, "MN", (512, 256), (512, 256), (512, 256)),
    partial(_case, moments, "MN", (512, 256), (512, 256), (512, 256)),
    partial(_case, vector, "MN", (256, 1024), (256,), (256, 1024), (1024,)),
    partial(_case, columns, "MN", (512, 256), (256,), (512, 256)),
    partial(_case, turned, "MN", (512, 300), (300, 512), (512, 300)),
    partial(_case, plate, "MN", (256, 300), (256, 300), (256, 300)),
)
