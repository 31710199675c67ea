"""Images, sequences, lattices and graphs: narrow integers, data that steer, sizes in relation."""

# ruff: noqa: B007, F821
# mypy: disable-error-code="name-defined, valid-type, no-untyped-def, index, operator"

import numpy as np

import weft
from weft.benchmarks.loop_programs.program import Program, dominant, floats, rng, whole


@weft.kernel
def sobel(img: weft.u8["H", "W"], out: weft.u8["H", "W"]):
    for y in range(1, H - 1):
        for x in range(1, W - 1):
            gx = weft.i32(0)
            gy = weft.i32(0)
            for d in range(-1, 2):
                weight = 2 - abs(d)
                gx += weight * (weft.i32(img[y + d, x + 1]) - weft.i32(img[y + d, x - 1]))
                gy += weight * (weft.i32(img[y + 1, x + d]) - weft.i32(img[y - 1, x + d]))
            out[y, x] = weft.u8(min(abs(gx) + abs(gy), 255))


@weft.kernel
def equalise(img: weft.u8["H", "W"], count: weft.i64[256], out: weft.u8["H", "W"]):
    for y in range(H):
        for x in range(W):
            count[img[y, x]] += 1
    for v in range(1, 256):
        count[v] += count[v - 1]
    for y in range(H):
        for x in range(W):
            out[y, x] = weft.u8(count[img[y, x]] * 255 // (H * W))


@weft.kernel
def dither(img: weft.u8["H", "W"], e: weft.f32["H", "W"]):
    for y in range(H):
        for x in range(W):
            e[y, x] += weft.f32(img[y, x])
    for y in range(H):
        for x in range(W):
            old = e[y, x]
            e[y, x] = weft.f32(255) if old > 127 else weft.f32(0)
            error = old - e[y, x]
            if x + 1 < W:
                e[y, x + 1] += error * 7 / 16
            if y + 1 < H:
                if x > 0:
                    e[y + 1, x - 1] += error * 3 / 16
                e[y + 1, x] += error * 5 / 16
                if x + 1 < W:
                    e[y + 1, x + 1] += error / 16


@weft.kernel
def mirrored(x: weft.f64["2 * N"], y: weft.f64["N"]):
    """Every second value of a smoothed row whose ends are mirrors."""
    for i in range(N):
        y[i] = 0.0
        for k in range(-3, 4):
            j = 2 * i + k
            y[i] += x[j if 0 <= j < 2 * N else (-j if j < 0 else 4 * N - 2 - j)] / (1 + abs(k))


@weft.kernel
def polyphase(x: weft.f64["3 * N"], h: weft.f64["2 * N + 1"], y: weft.f64["N"]):
    for n in range(N):
        y[n] = 0.0
        for k in range(0, 2 * N + 1, 3):
            if 0 <= 3 * n - k < 3 * N:
                y[n] += h[k] * x[3 * n - k]


@weft.kernel
def xorshift(seed: weft.u32["N"], out: weft.u32["N"]):
    for i in range(N):
        s = seed[i]
        for r in range(4):
            s = s ^ (s << 13)
            s ^= s >> 17
            s ^= s << 5
        out[i] = s


@weft.kernel
def quotients(x: weft.i16["N"], q: weft.i16["N"], r: weft.i16["N"]):
    for i in range(N):
        q[i] = x[i] // 7 + x[i] // -3
        r[i] = x[i] % 7 - x[i] % -5


@weft.kernel
def american_put(steps: int, K: float, up: float, V: weft.f64["steps + 1"]):
    p = (1.001 - 1.0 / up) / (up - 1.0 / up)
    for i in range(steps + 1):
        V[i] = max(K - up ** (2.0 * i - steps), 0.0)
    for t in range(steps - 1, -1, -1):
        for i in range(t + 1):
            hold = (p * V[i + 1] + (1 - p) * V[i]) / 1.001
            V[i] = max(hold, K - up ** (2.0 * i - t))


@weft.kernel
def trinomial(steps: int, m: int, down: float, up: float, V: weft.f64["steps + 1", "m"]):
    for t in range(steps, -1, -1):
        for k in range(m):
            if t == steps:
                V[t, k] = max(0.0, k - 1.0)
            else:
                low, high = V[t + 1, max(k - 1, 0)], V[t + 1, min(k + 1, m - 1)]
                V[t, k] = (low * down + V[t + 1, k] * (1 - down - up) + high * up) * 0.99


@weft.kernel
def lu_pivoted(A: weft.f64["N", "N"], pivot: weft.i64["N"]):
    for k in range(N):
        best = abs(A[k, k])
        row = k
        for i in range(k + 1, N):
            if abs(A[i, k]) > best:
                best = abs(A[i, k])
                row = i
        pivot[k] = row
        for j in range(N):
            A[k, j], A[row, j] = A[row, j], A[k, j]
        for i in range(k + 1, N):
            A[i, k] /= A[k, k]
            for j in range(k + 1, N):
                A[i, j] -= A[i, k] * A[k, j]


@weft.kernel
def symmetric_sweeps(A: weft.f64["N", "N"], b: weft.f64["N"], x: weft.f64["N"]):
    for i in range(N):
        s = b[i]
        for j in range(N):
            if j != i:
                s -= A[i, j] * x[j]
        x[i] = 0.5 * (x[i] + s / A[i, i])
    for i in range(N - 1, -1, -1):
        s = b[i]
        for j in range(N):
            if not j == i:  # noqa: SIM201
                s -= A[j, i] * x[j]
        x[i] = 0.5 * (x[i] + s / A[i, i])


@weft.kernel
def affine_gaps(
    a: weft.i8["N"],
    b: weft.i8["M"],
    H: weft.i32["N + 1", "M + 1"],
    E: weft.i32["N + 1", "M + 1"],
    F: weft.i32["N + 1", "M + 1"],
):
    for i in range(1, N + 1):
        for j in range(1, M + 1):
            E[i, j] = max(E[i, j - 1] - 1, H[i, j - 1] - 4)
            F[i, j] = max(F[i - 1, j] - 1, H[i - 1, j] - 4)
            same = 3 if a[i - 1] == b[j - 1] else -2
            H[i, j] = max(0, E[i, j], F[i, j], H[i - 1, j - 1] + same)


@weft.kernel
def time_warp(a: weft.f64["N", 4], b: weft.f64["M", 4], D: weft.f64["N", "M"]):
    for i in range(N):
        for j in range(M):
            c = 0.0
            for k in range(4):
                c += abs(a[i, k] - b[j, k])
            if i == 0 and j == 0:
                D[i, j] = c
            elif i == 0:
                D[i, j] = c + D[i, j - 1]
            elif j == 0:
                D[i, j] = c + D[i - 1, j]
            else:
                D[i, j] = c + min(D[i - 1, j], D[i, j - 1], D[i - 1, j - 1])


@weft.kernel
def viterbi(
    A: weft.f64["S", "S"],
    seen: weft.i64["T"],
    B: weft.f64["S", 3],
    V: weft.f64["T", "S"],
    came: weft.i32["T", "S"],
    path: weft.i32["T"],
):
    for s in range(S):
        V[0, s] = B[s, seen[0]]
    for t in range(1, T):
        for s in range(S):
            best = -1.0
            arg = 0
            for q in range(S):
                v = V[t - 1, q] * A[q, s]
                if v > best:
                    best = v
                    arg = q
            V[t, s] = 2.0 * best * B[s, seen[t]]
            came[t, s] = arg
    last = 0
    for s in range(S):
        if V[T - 1, s] > V[T - 1, last]:
            last = s
    path[T - 1] = last
    for t in range(T - 2, -1, -1):
        path[t] = came[t + 1, path[t + 1]]


@weft.kernel
def largest_rectangle(a: weft.i32["N", "M"], best: weft.i32[1]):
    column = weft.zeros(M, weft.i32)
    for top in range(N):
        for j in range(M):
            column[j] = 0
        for bottom in range(top, N):
            run = weft.i32(0)
            for j in range(M):
                column[j] += a[bottom, j]
                run = max(run + column[j], 0)
                best[0] = max(best[0], run)


@weft.kernel
def bellman_ford(w: weft.f32["V", "V"], d: weft.f32["V"], parent: weft.i32["V"]):
    for v in range(V):
        d[v] = 0.0 if v == 0 else 1e9
        parent[v] = -1
    for r in range(V - 1):
        for u in range(V):
            for v in range(V):
                if w[u, v] > 0 and d[u] + w[u, v] < d[v]:
                    d[v] = d[u] + w[u, v]
                    parent[v] = u


@weft.kernel
def components(edges: weft.i32["E", 2], label: weft.i32["V"]):
    for v in range(V):
        label[v] = v
    for r in range(V):
        for k in range(E):
            least = min(label[edges[k, 0]], label[edges[k, 1]])
            label[edges[k, 0]] = least
            label[edges[k, 1]] = least


@weft.kernel
def parity_laplace(u: weft.f64["N", "N", "N"], f: weft.f64["N", "N", "N"], most: weft.f64[1]):
    for colour in range(2):
        for i in range(1, N - 1):
            for j in range(1, N - 1):
                for k in range(1 + (i + j + colour) % 2, N - 1, 2):
                    along = u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k]
                    u[i, j, k] = (along + u[i, j, k - 1] + u[i, j, k + 1] - f[i, j, k]) / 6
    for i in range(N):
        for j in range(N):
            for k in range(N):
                most[0] = max(most[0], abs(u[i, j, k]))


def _image(n: int, w: int) -> np.ndarray:
    return whole(n, 0, 256, n, w, dtype=np.uint8)


def _letters(n: int, length: int) -> np.ndarray:
    return whole(n + length, 0, 4, length, dtype=np.int8)


def _table(n: int, dtype: type) -> np.ndarray:
    return np.zeros((n + 1, n + 2), dtype)


MIXTURES = {
    "sobel": Program(sobel, lambda n: (_image(n, n), np.zeros((n, n), np.uint8)), 4_000),
    "equalise": Program(
        equalise,
        lambda n: (_image(n, n), np.zeros(256, np.int64), np.zeros((n, n), np.uint8)),
        4_000,
    ),
    "dither": Program(dither, lambda n: (_image(n, n), np.zeros((n, n), np.float32)), 3_000),
    "mirrored": Program(mirrored, lambda n: (floats(n, 2 * n + 4), np.zeros(n + 2)), 5_000_000),
    "polyphase": Program(
        polyphase, lambda n: (floats(n, 3 * n), floats(n, 2 * n + 1), np.zeros(n)), 10_000
    ),
    "xorshift": Program(
        xorshift,
        lambda n: (whole(n, 0, 2**32, n, dtype=np.uint32), np.zeros(n, np.uint32)),
        10_000_000,
    ),
    "quotients": Program(
        quotients,
        lambda n: (
            whole(n, -(2**15), 2**15, n, dtype=np.int16),
            np.zeros(n, np.int16),
            np.zeros(n, np.int16),
        ),
        10_000_000,
    ),
    "american_put": Program(american_put, lambda n: (n, 1.1, 1.02, np.zeros(n + 1)), 2_000),
    "trinomial": Program(
        trinomial, lambda n: (n, n + 1, 0.1, 0.3, np.zeros((n + 1, n + 1))), 4_000
    ),
    "lu_pivoted": Program(
        lu_pivoted, lambda n: (dominant(n)[::-1].copy(), np.zeros(n, np.int64)), 800
    ),
    "symmetric_sweeps": Program(
        symmetric_sweeps, lambda n: (dominant(n), floats(n, n), np.zeros(n)), 4_000
    ),
    "affine_gaps": Program(
        affine_gaps,
        lambda n: (_letters(n, n), _letters(n, n + 1), *(_table(n, np.int32) for _ in range(3))),
        3_000,
    ),
    "time_warp": Program(
        time_warp, lambda n: (floats(n, n, 4), floats(n, n + 1, 4), np.zeros((n, n + 1))), 3_000
    ),
    "viterbi": Program(
        viterbi,
        lambda n: (
            rng(n).random((n, n)),
            whole(n, 0, 3, n),
            rng(n + 1).random((n, 3)),
            np.zeros((n, n)),
            np.zeros((n, n), np.int32),
            np.zeros(n, np.int32),
        ),
        400,
    ),
    "largest_rectangle": Program(
        largest_rectangle,
        lambda n: (whole(n, -9, 9, n, n, dtype=np.int32), np.zeros(1, np.int32)),
        400,
    ),
    "bellman_ford": Program(
        bellman_ford,
        lambda n: (
            whole(n, 0, 50, n, n).astype(np.float32),
            np.zeros(n, np.float32),
            np.zeros(n, np.int32),
        ),
        400,
    ),
    "components": Program(
        components,
        lambda n: (whole(n, 0, n + 1, n, 2, dtype=np.int32), np.zeros(n + 1, np.int32)),
        3_000,
    ),
    "parity_laplace": Program(
        parity_laplace, lambda n: (floats(n, n, n, n), floats(n, n, n, n), np.zeros(1)), 200
    ),
}
