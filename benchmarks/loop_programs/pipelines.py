"""Contractions of tensors, banded solvers, wavefronts in space, and pipelines on images."""

# ruff: noqa: E741, F821
# mypy: disable-error-code="name-defined, valid-type, no-untyped-def, index, operator"

import numpy as np

import weft
from weft.benchmarks.loop_programs.program import Program, float32, floats, whole, zeros32


@weft.kernel
def mttkrp(
    X: weft.f32["I", "J", "L"], B: weft.f32["J", 32], C: weft.f32["L", 32], M: weft.f32["I", 32]
):
    for i in range(I):
        for j in range(J):
            for l in range(L):
                for r in range(32):
                    M[i, r] += X[i, j, l] * B[j, r] * C[l, r]


@weft.kernel
def mode_product(X: weft.f64["I", "J", "K"], U: weft.f64["J", "R"], Y: weft.f64["I", "R", "K"]):
    """Along the middle one of three modes."""
    for i in range(I):
        for r in range(R):
            for k in range(K):
                Y[i, r, k] = 0.0
                for j in range(J):
                    Y[i, r, k] += X[i, j, k] * U[j, r]


@weft.kernel
def coulomb(V: weft.f64["N", "N", "N", "N"], P: weft.f64["N", "N"], J: weft.f64["N", "N"]):
    for i in range(N):
        for j in range(N):
            J[i, j] = 0.0
            for k in range(N):
                for l in range(N):
                    J[i, j] += V[i, j, k, l] * P[k, l]


@weft.kernel
def bilinear_form(
    x: weft.f32["B", "N"], W: weft.f32["N", "M"], z: weft.f32["B", "M"], y: weft.f32["B"]
):
    for b in range(B):
        y[b] = 0.0
        for i in range(N):
            for j in range(M):
                y[b] += x[b, i] * W[i, j] * z[b, j]


@weft.kernel
def banded_product(A: weft.f64["N", 9], x: weft.f64["N + 8"], y: weft.f64["N"]):
    for i in range(N):
        y[i] = 0.0
        for d in range(9):
            y[i] += A[i, d] * x[i + d]


@weft.kernel
def banded_solve(A: weft.f64["N", "K + 1"], X: weft.f64["N", "M"]):
    """Forward substitution: ``A[i, d]`` is element ``(i, i - d)`` of a lower triangle."""
    for i in range(N):
        for d in range(1, min(K, i) + 1):
            for r in range(M):
                X[i, r] -= A[i, d] * X[i - d, r]
        for r in range(M):
            X[i, r] /= A[i, 0]


@weft.kernel
def many_tridiagonal(
    low: weft.f64["N", "M"], diag: weft.f64["N", "M"], up: weft.f64["N", "M"], x: weft.f64["N", "M"]
):
    """Thomas' algorithm for as many systems as there are columns."""
    for i in range(1, N):
        for b in range(M):
            w = low[i, b] / diag[i - 1, b]
            diag[i, b] -= w * up[i - 1, b]
            x[i, b] -= w * x[i - 1, b]
    for b in range(M):
        x[N - 1, b] /= diag[N - 1, b]
    for i in range(N - 2, -1, -1):
        for b in range(M):
            x[i, b] = (x[i, b] - up[i, b] * x[i + 1, b]) / diag[i, b]


@weft.kernel
def incomplete_pivots(a: weft.f64["N", "M"], w: weft.f64["N", "M"], d: weft.f64["N", "M"]):
    """Incomplete Cholesky of a five-point operator: its diagonal."""
    for i in range(1, N):
        for j in range(1, M):
            west, north = w[i, j - 1] / d[i, j - 1], w[i - 1, j] / d[i - 1, j]
            d[i, j] = a[i, j] - w[i, j - 1] * west - w[i - 1, j] * north


@weft.kernel
def transport_sweep(q: weft.f64["N", "N", "N"], phi: weft.f64["N + 1", "N + 1", "N + 1"]):
    for i in range(1, N + 1):
        for j in range(1, N + 1):
            for k in range(1, N + 1):
                flow = phi[i - 1, j, k] + phi[i, j - 1, k] + phi[i, j, k - 1]
                phi[i, j, k] = (q[i - 1, j - 1, k - 1] + 0.5 * flow) * 0.4


@weft.kernel
def lower_sweep(b: weft.f32["N", "M"], u: weft.f32["N", "M"]):
    """Half a step of symmetric Gauss-Seidel, from the corner."""
    for i in range(1, N):
        for j in range(1, M):
            u[i, j] = 0.25 * (b[i, j] + u[i - 1, j] + u[i, j - 1])


@weft.kernel
def erode(img: weft.u8["H", "W"], out: weft.u8["H", "W"]):
    for y in range(1, H - 1):
        for x in range(1, W - 1):
            least = img[y, x]
            for a in range(-1, 2):
                for b in range(-1, 2):
                    least = min(least, img[y + a, x + b])
            out[y, x] = least


@weft.kernel
def unsharp(img: weft.f32["H", "W"], blurred: weft.f32["H", "W"], out: weft.f32["H", "W"]):
    for y in range(H):
        for x in range(2, W - 2):
            along = img[y, x - 2] + img[y, x + 2] + 4 * (img[y, x - 1] + img[y, x + 1])
            blurred[y, x] = (along + 6 * img[y, x]) / 16
    for y in range(2, H - 2):
        for x in range(2, W - 2):
            along = blurred[y - 2, x] + blurred[y + 2, x]
            near = blurred[y - 1, x] + blurred[y + 1, x]
            soft = (along + 4 * near + 6 * blurred[y, x]) / 16
            out[y, x] = min(max(2 * img[y, x] - soft, 0.0), 1.0)


@weft.kernel
def halve(img: weft.u8["2 * H", "2 * W"], out: weft.u8["H", "W"]):
    for y in range(H):
        for x in range(W):
            total = weft.u16(2)
            for a in range(2):
                for b in range(2):
                    total += weft.u16(img[2 * y + a, 2 * x + b])
            out[y, x] = weft.u8(total // 4)


@weft.kernel
def grey(rgb: weft.u8["H", "W", 3], out: weft.u8["H", "W"]):
    for y in range(H):
        for x in range(W):
            r, g, b = weft.i32(rgb[y, x, 0]), weft.i32(rgb[y, x, 1]), weft.i32(rgb[y, x, 2])
            out[y, x] = weft.u8((77 * r + 150 * g + 29 * b + 128) // 256)


@weft.kernel
def diffusion(u: weft.f32["H", "W"], out: weft.f32["H", "W"], k: float):
    """Of an image, none where it changes much: Tukey's weights."""
    for y in range(1, H - 1):
        for x in range(1, W - 1):
            change = weft.f32(0.0)
            for s in range(-1, 2, 2):
                down = u[y + s, x] - u[y, x]
                side = u[y, x + s] - u[y, x]
                change += down * max(1 - down * down * weft.f32(k), 0.0)
                change += side * max(1 - side * side * weft.f32(k), 0.0)
            out[y, x] = u[y, x] + 0.2 * change


def _band(n: int) -> np.ndarray:
    band = floats(n, n, 33) / 33
    band[:, 0] = 4
    return band


PIPELINES = {
    "mttkrp": Program(
        mttkrp,
        lambda n: (float32(n, n, n, n), float32(n, n, 32), float32(n + 1, n, 32), zeros32(n, 32)),
        128,
    ),
    "mode_product": Program(
        mode_product,
        lambda n: (floats(n, n, n, n), floats(n, n, n + 2), np.zeros((n, n + 2, n))),
        100,
    ),
    "coulomb": Program(
        coulomb, lambda n: (floats(n, n, n, n, n), floats(n, n, n), np.zeros((n, n))), 40
    ),
    "bilinear_form": Program(
        bilinear_form,
        lambda n: (float32(n, n, n), float32(n, n, n + 1), float32(n, n, n + 1), zeros32(n)),
        300,
    ),
    "banded_product": Program(
        banded_product, lambda n: (floats(n, n, 9), floats(n, n + 8), np.zeros(n)), 500_000
    ),
    "banded_solve": Program(banded_solve, lambda n: (_band(n), floats(n, n, 65)), 5_000),
    "many_tridiagonal": Program(
        many_tridiagonal,
        lambda n: (
            floats(n, n, n + 2), 4 + floats(n + 1, n, n + 2),
            floats(n + 2, n, n + 2), floats(n + 3, n, n + 2),
        ),
        1_000,
    ),
    "incomplete_pivots": Program(
        incomplete_pivots,
        lambda n: (4 + floats(n, n, n + 2), floats(n, n, n + 2), 4 + floats(n, n, n + 2)),
        2_000,
    ),
    "transport_sweep": Program(
        transport_sweep, lambda n: (floats(n, n, n, n), np.zeros((n + 1, n + 1, n + 1))), 200
    ),
    "lower_sweep": Program(
        lower_sweep, lambda n: (float32(n, n, n + 2), float32(n + 1, n, n + 2)), 3_000
    ),
    "erode": Program(
        erode,
        lambda n: (whole(n, 0, 256, n, n + 2, dtype=np.uint8), np.zeros((n, n + 2), np.uint8)),
        4_000,
    ),
    "unsharp": Program(
        unsharp, lambda n: (float32(n, n, n + 2), zeros32(n, n + 2), zeros32(n, n + 2)), 3_000
    ),
    "halve": Program(
        halve,
        lambda n: (whole(n, 0, 256, 2 * n, 2 * n, dtype=np.uint8), np.zeros((n, n), np.uint8)),
        2_000,
    ),
    "grey": Program(
        grey,
        lambda n: (whole(n, 0, 256, n, n, 3, dtype=np.uint8), np.zeros((n, n), np.uint8)),
        2_000,
    ),
    "diffusion": Program(
        diffusion, lambda n: (float32(n, n, n + 2), zeros32(n, n + 2), 3.0), 2_000
    ),
}  # fmt: skip
