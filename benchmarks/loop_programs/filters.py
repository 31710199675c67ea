"""Filters, images, transforms, and elements in another order."""

# ruff: noqa: F821
# mypy: disable-error-code="name-defined, valid-type, no-untyped-def, index, operator"

import numpy as np

import weft
from weft.benchmarks.loop_programs.program import Program, float32, floats, whole, zeros32


@weft.kernel
def convolve_1d(x: weft.f32["N"], w: weft.f32["K"], y: weft.f32["N"]):
    for i in range(N - K + 1):
        y[i] = 0.0
        for k in range(K):
            y[i] += x[i + k] * w[k]


@weft.kernel
def convolve_strided(x: weft.f32["2 * N + 9"], w: weft.f32[5], y: weft.f32["N"]):
    for i in range(N):
        y[i] = 0.0
        for k in range(5):
            y[i] += x[2 * i + 2 * k] * w[k]


@weft.kernel
def convolve_2d(x: weft.f32["H", "W"], w: weft.f32[3, 3], y: weft.f32["H", "W"]):
    for i in range(1, H - 1):
        for j in range(1, W - 1):
            s = weft.f32(0.0)
            for a in range(3):
                for b in range(3):
                    s += x[i + a - 1, j + b - 1] * w[a, b]
            y[i, j] = s


@weft.kernel
def convolve_layer(
    x: weft.f32["C", "H + 2", "W + 2"], w: weft.f32["O", "C", 3, 3], y: weft.f32["O", "H", "W"]
):
    for o in range(O):
        for i in range(H):
            for j in range(W):
                y[o, i, j] = 0.0
                for c in range(C):
                    for a in range(3):
                        for b in range(3):
                            y[o, i, j] += x[c, i + a, j + b] * w[o, c, a, b]


@weft.kernel
def convolve_3d(x: weft.f64["N", "N", "N"], w: weft.f64[3, 3, 3], y: weft.f64["N", "N", "N"]):
    for i in range(1, N - 1):
        for j in range(1, N - 1):
            for k in range(1, N - 1):
                y[i, j, k] = 0.0
                for a in range(3):
                    for b in range(3):
                        for c in range(3):
                            y[i, j, k] += x[i + a - 1, j + b - 1, k + c - 1] * w[a, b, c]


@weft.kernel
def edges(x: weft.u8["H", "W"], y: weft.u8["H", "W"]):
    blur = weft.zeros((H, W), weft.i32)
    for i in range(1, H - 1):
        for j in range(1, W - 1):
            s = 0
            for a in range(-1, 2):
                for b in range(-1, 2):
                    s += weft.i32(x[i + a, j + b])
            blur[i, j] = s // 9
    for i in range(2, H - 2):
        for j in range(2, W - 2):
            gx = blur[i - 1, j + 1] + 2 * blur[i, j + 1] + blur[i + 1, j + 1]
            gx -= blur[i - 1, j - 1] + 2 * blur[i, j - 1] + blur[i + 1, j - 1]
            gy = blur[i + 1, j - 1] + 2 * blur[i + 1, j] + blur[i + 1, j + 1]
            gy -= blur[i - 1, j - 1] + 2 * blur[i - 1, j] + blur[i - 1, j + 1]
            y[i, j] = 255 if abs(gx) + abs(gy) > 64 else 0


@weft.kernel
def separable_blur(x: weft.f32["H", "W"], y: weft.f32["H", "W"]):
    across = weft.empty((H, W), weft.f32)
    for i in range(H):
        for j in range(2, W - 2):
            across[i, j] = (
                x[i, j - 2] + 4 * x[i, j - 1] + 6 * x[i, j] + 4 * x[i, j + 1] + x[i, j + 2]
            ) / 16
    for i in range(2, H - 2):
        for j in range(2, W - 2):
            y[i, j] = (
                across[i - 2, j] + 4 * across[i - 1, j] + 6 * across[i, j]
                + 4 * across[i + 1, j] + across[i + 2, j]
            ) / 16  # fmt: skip


@weft.kernel
def downsample(x: weft.f32["2 * H", "2 * W"], y: weft.f32["H", "W"]):
    for i in range(H):
        for j in range(W):
            y[i, j] = 0.25 * (
                x[2 * i, 2 * j]
                + x[2 * i + 1, 2 * j]
                + x[2 * i, 2 * j + 1]
                + x[2 * i + 1, 2 * j + 1]
            )


@weft.kernel
def upsample(x: weft.f32["H", "W"], y: weft.f32["2 * H", "2 * W"]):
    for i in range(2 * H):
        for j in range(2 * W):
            y[i, j] = x[i // 2, j // 2]


@weft.kernel
def interleave(a: weft.i32["N"], b: weft.i32["N"], c: weft.i32["2 * N"]):
    for i in range(2 * N):
        c[i] = a[i // 2] if i % 2 == 0 else b[i // 2]


@weft.kernel
def transpose_blocks(A: weft.f64["8 * N", "8 * N"], B: weft.f64["8 * N", "8 * N"]):
    for i in range(64 * N * N // 64 * 0 + 8 * N):
        for j in range(8 * N):
            B[8 * (j // 8) + i % 8, 8 * (i // 8) + j % 8] = A[i, j]


@weft.kernel
def transpose_in_place(A: weft.f64["N", "N"]):
    for i in range(N):
        for j in range(i):
            t = A[i, j]
            A[i, j] = A[j, i]
            A[j, i] = t


@weft.kernel
def reverse_in_place(x: weft.i64["N"]):
    for i in range(N // 2):
        t = x[i]
        x[i] = x[N - 1 - i]
        x[N - 1 - i] = t


@weft.kernel
def clamped_bounds(A: weft.f64["N", "M"], w: int):
    for i in range(N):
        for j in range(max(i - w, 0), min(i + w + 1, M)):
            A[i, j] = 2.0 * A[i, j] + 1.0


@weft.kernel
def dct_8x8(x: weft.f32["8 * H", "8 * W"], c: weft.f32[8, 8], y: weft.f32["8 * H", "8 * W"]):
    half = weft.empty((8, 8), weft.f32)
    for bi in range(H):
        for bj in range(W):
            for u in range(8):
                for j in range(8):
                    half[u, j] = 0.0
                    for i in range(8):
                        half[u, j] += c[u, i] * x[8 * bi + i, 8 * bj + j]
            for u in range(8):
                for v in range(8):
                    y[8 * bi + u, 8 * bj + v] = 0.0
                    for j in range(8):
                        y[8 * bi + u, 8 * bj + v] += half[u, j] * c[v, j]


@weft.kernel
def fft_stage(re: weft.f64["2 * N"], im: weft.f64["2 * N"], c: weft.f64["N"], s: weft.f64["N"]):
    for k in range(N):
        tr = c[k] * re[k + N] - s[k] * im[k + N]
        ti = c[k] * im[k + N] + s[k] * re[k + N]
        re[k + N] = re[k] - tr
        im[k + N] = im[k] - ti
        re[k] += tr
        im[k] += ti


@weft.kernel
def iir(x: weft.f32["C", "N"], y: weft.f32["C", "N"], b0: weft.f32, a1: weft.f32, a2: weft.f32):
    for c in range(C):
        y1 = weft.f32(0.0)
        y2 = weft.f32(0.0)
        for n in range(N):
            v = b0 * x[c, n] - a1 * y1 - a2 * y2
            y[c, n] = v
            y2 = y1
            y1 = v


def _bytes(n: int, *shape: int) -> np.ndarray:
    return whole(n, 0, 256, *shape, dtype=np.uint8)


FILTERS = {
    "convolve_1d": Program(
        convolve_1d, lambda n: (float32(n, n), float32(n, 7), zeros32(n)), 3_000_000
    ),
    "convolve_strided": Program(
        convolve_strided, lambda n: (float32(n, 2 * n + 9), float32(n, 5), zeros32(n)), 3_000_000
    ),
    "convolve_2d": Program(
        convolve_2d, lambda n: (float32(n, n, n + 1), float32(n, 3, 3), zeros32(n, n + 1)), 2000
    ),
    "convolve_layer": Program(
        convolve_layer,
        lambda n: (float32(n, 5, n + 2, n + 3), float32(n, 9, 5, 3, 3), zeros32(9, n, n + 1)),
        300,
    ),
    "convolve_3d": Program(
        convolve_3d,
        lambda n: (floats(n, n, n, n), floats(n, 3, 3, 3), np.zeros((n, n, n))),
        150,
    ),
    "edges": Program(edges, lambda n: (_bytes(n, n, n + 1), _bytes(n, n, n + 1)), 2000),
    "separable_blur": Program(
        separable_blur, lambda n: (float32(n, n, n + 1), zeros32(n, n + 1)), 3000
    ),
    "downsample": Program(
        downsample, lambda n: (float32(n, 2 * n, 2 * n + 2), zeros32(n, n + 1)), 2000
    ),
    "upsample": Program(
        upsample, lambda n: (float32(n, n, n + 1), zeros32(2 * n, 2 * n + 2)), 2000
    ),
    "interleave": Program(
        interleave,
        lambda n: (
            whole(n, 0, 99, n, dtype=np.int32),
            whole(n + 1, 0, 99, n, dtype=np.int32),
            np.zeros(2 * n, np.int32),
        ),
        4_000_000,
    ),
    "transpose_blocks": Program(
        transpose_blocks, lambda n: (floats(n, 8 * n, 8 * n), np.zeros((8 * n, 8 * n))), 250
    ),
    "transpose_in_place": Program(transpose_in_place, lambda n: (floats(n, n, n),), 2000),
    "reverse_in_place": Program(reverse_in_place, lambda n: (whole(n, 0, 99, n),), 5_000_000),
    "clamped_bounds": Program(clamped_bounds, lambda n: (floats(n, n, n + 1), n // 3), 3000),
    "dct_8x8": Program(
        dct_8x8,
        lambda n: (float32(n, 8 * n, 8 * n + 8), float32(n, 8, 8), zeros32(8 * n, 8 * n + 8)),
        150,
    ),
    "fft_stage": Program(
        fft_stage,
        lambda n: (floats(n, 2 * n), floats(n + 1, 2 * n), floats(n, n), floats(n + 1, n)),
        1_000_000,
    ),
    "iir": Program(
        iir,
        lambda n: (
            float32(n, n // 100 + 3, n), zeros32(n // 100 + 3, n),
            np.float32(0.5), np.float32(-0.3), np.float32(0.1),
        ),
        10_000,
    ),
}  # fmt: skip
