"""Graphs, sequences and prefix sums."""

# ruff: noqa: F821
# mypy: disable-error-code="name-defined, valid-type, no-untyped-def, index, operator"

import numpy as np

import weft
from weft.benchmarks.loop_programs.program import Program, floats, rng, whole


@weft.kernel
def closure_bool(R: weft.bool_["N", "N"]):
    for k in range(N):
        for i in range(N):
            for j in range(N):
                R[i, j] = R[i, j] or (R[i, k] and R[k, j])


@weft.kernel
def closure_int(R: weft.i32["N", "N"]):
    for k in range(N):
        for i in range(N):
            for j in range(N):
                R[i, j] |= R[i, k] & R[k, j]


@weft.kernel
def closure_branch(R: weft.u8["N", "N"]):
    for k in range(N):
        for i in range(N):
            if R[i, k] != 0:
                for j in range(N):
                    R[i, j] = max(R[i, j], R[k, j])


@weft.kernel
def paths_f32(D: weft.f32["N", "N"]):
    for k in range(N):
        for i in range(N):
            for j in range(N):
                D[i, j] = min(D[i, j], D[i, k] + D[k, j])


@weft.kernel
def paths_i64(D: weft.i64["N", "N"]):
    for k in range(N):
        for i in range(N):
            for j in range(N):
                if D[i, k] + D[k, j] < D[i, j]:
                    D[i, j] = D[i, k] + D[k, j]


@weft.kernel
def widest_paths(D: weft.i32["N", "N"]):
    for k in range(N):
        for i in range(N):
            for j in range(N):
                D[i, j] = max(D[i, j], min(D[i, k], D[k, j]))


@weft.kernel
def matrix_chain(p: weft.i64["N + 1"], m: weft.i64["N", "N"]):
    for i in range(N):
        m[i, i] = 0
    for length in range(2, N + 1):
        for i in range(N - length + 1):
            j = i + length - 1
            m[i, j] = 4_000_000_000_000
            for k in range(i, j):
                m[i, j] = min(m[i, j], m[i, k] + m[k + 1, j] + p[i] * p[k + 1] * p[j + 1])


@weft.kernel
def optimal_bst(
    freq: weft.f64["N"], cost: weft.f64["N + 1", "N + 1"], w: weft.f64["N + 1", "N + 1"]
):
    for i in range(N + 1):
        cost[i, i] = 0.0
        w[i, i] = 0.0
    for i in range(N - 1, -1, -1):
        for j in range(i + 1, N + 1):
            w[i, j] = w[i, j - 1] + freq[j - 1]
            best = 1e300
            for r in range(i, j):
                best = min(best, cost[i, r] + cost[r + 1, j])
            cost[i, j] = best + w[i, j]


@weft.kernel
def lcs(a: weft.u8["N"], b: weft.u8["M"], L: weft.i32["N + 1", "M + 1"]):
    for i in range(N):
        for j in range(M):
            if a[i] == b[j]:
                L[i + 1, j + 1] = L[i, j] + 1
            else:
                L[i + 1, j + 1] = max(L[i, j + 1], L[i + 1, j])


@weft.kernel
def edit_distance(a: weft.i32["N"], b: weft.i32["M"], D: weft.i32["N + 1", "M + 1"]):
    for i in range(N + 1):
        D[i, 0] = i
    for j in range(M + 1):
        D[0, j] = j
    for i in range(1, N + 1):
        for j in range(1, M + 1):
            change = D[i - 1, j - 1] + (0 if a[i - 1] == b[j - 1] else 1)
            D[i, j] = min(change, min(D[i - 1, j] + 1, D[i, j - 1] + 1))


@weft.kernel
def edit_distance_two_rows(a: weft.i32["N"], b: weft.i32["M"], out: weft.i32[1]):
    row = weft.zeros((2, M + 1), weft.i32)
    for j in range(M + 1):
        row[0, j] = j
    for i in range(1, N + 1):
        row[i % 2, 0] = i
        for j in range(1, M + 1):
            change = row[(i - 1) % 2, j - 1] + (0 if a[i - 1] == b[j - 1] else 1)
            row[i % 2, j] = min(change, min(row[(i - 1) % 2, j] + 1, row[i % 2, j - 1] + 1))
    out[0] = row[N % 2, M]


@weft.kernel
def smith_waterman(
    a: weft.u8["N"], b: weft.u8["M"], H: weft.i32["N + 1", "M + 1"], best: weft.i32[1]
):
    best[0] = 0
    for i in range(1, N + 1):
        for j in range(1, M + 1):
            score = 3 if a[i - 1] == b[j - 1] else -3
            H[i, j] = max(0, max(H[i - 1, j - 1] + score, max(H[i - 1, j] - 2, H[i, j - 1] - 2)))
            best[0] = max(best[0], H[i, j])


@weft.kernel
def knapsack(weight: weft.i32["N"], value: weft.i64["N"], best: weft.i64["N + 1", "W"]):
    for i in range(N):
        for c in range(W):
            best[i + 1, c] = best[i, c]
            if c >= weight[i]:
                best[i + 1, c] = max(best[i, c], best[i, c - weight[i]] + value[i])


@weft.kernel
def coins(step: int, ways: weft.i64["N"]):
    for c in range(1, 8):
        for v in range(c, N):
            ways[v] += ways[v - c] * step


@weft.kernel
def pascal(C: weft.i64["N", "N"]):
    for i in range(N):
        C[i, 0] = 1
        for j in range(1, i + 1):
            C[i, j] = C[i - 1, j - 1] + (C[i - 1, j] if j < i else 0)


@weft.kernel
def prefix_sum(x: weft.i64["N"]):
    for i in range(1, N):
        x[i] += x[i - 1]


@weft.kernel
def prefix_sum_scalar(x: weft.f64["N"], y: weft.f64["N"]):
    total = 0.0
    for i in range(N):
        total += x[i]
        y[i] = total


@weft.kernel
def integral_image(image: weft.u8["H", "W"], S: weft.i64["H", "W"]):
    for y in range(H):
        row = 0
        for x in range(W):
            row += weft.i64(image[y, x])
            S[y, x] = row + (S[y - 1, x] if y > 0 else 0)


@weft.kernel
def integral_in_place(S: weft.i32["H", "W"]):
    for y in range(H):
        for x in range(1, W):
            S[y, x] += S[y, x - 1]
    for y in range(1, H):
        for x in range(W):
            S[y, x] += S[y - 1, x]


@weft.kernel
def running_max(x: weft.f32["N"], y: weft.f32["N"]):
    for i in range(N):
        y[i] = x[i] if i == 0 else max(x[i], y[i - 1])


@weft.kernel
def kadane(x: weft.i64["N"], best: weft.i64[1]):
    here = 0
    best[0] = 0
    for i in range(N):
        here = max(here + x[i], 0)
        best[0] = max(best[0], here)


@weft.kernel
def horner(c: weft.f64["K"], x: weft.f64["N"], y: weft.f64["N"]):
    for i in range(N):
        y[i] = 0.0
        for k in range(K - 1, -1, -1):
            y[i] = y[i] * x[i] + c[k]


@weft.kernel
def polynomial_product(a: weft.i64["N"], b: weft.i64["M"], c: weft.i64["N + M"]):
    for k in range(N + M):
        c[k] = 0
    for i in range(N):
        for j in range(M):
            c[i + j] += a[i] * b[j]


@weft.kernel
def linear_recurrence(a: weft.f64["N"], b: weft.f64["N"], h: weft.f64["N"]):
    for t in range(1, N):
        h[t] = a[t] * h[t - 1] + b[t]


@weft.kernel
def histogram(pixels: weft.u8["H", "W"], bins: weft.i64[256]):
    for y in range(H):
        for x in range(W):
            bins[pixels[y, x]] += 1


@weft.kernel
def gather_scatter(where: weft.i32["N"], x: weft.f64["N"], y: weft.f64["N"]):
    for i in range(N):
        y[where[i]] = 2.0 * x[where[N - 1 - i]]


@weft.kernel
def bitonic_step(x: weft.i32["2 * N"]):
    for i in range(N):
        low = min(x[i], x[i + N])
        x[i + N] = max(x[i], x[i + N])
        x[i] = low


@weft.kernel
def bitonic_pass(x: weft.i32["N"], k: int, j: int):
    for i in range(N):
        m = i ^ j
        if m > i and m < N:  # noqa: SIM102
            if ((i & k) == 0 and x[i] > x[m]) or ((i & k) != 0 and x[i] < x[m]):
                t = x[i]
                x[i] = x[m]
                x[m] = t


@weft.kernel
def multiplication_table(x: weft.i64["N"]):
    for i in range(N):
        for j in range(N):
            if i * j < N:
                x[i * j] += 1


@weft.kernel
def odd_even_sort(x: weft.i32["N"]):
    for t in range(N):
        for i in range(t % 2, N - 1, 2):
            low = min(x[i], x[i + 1])
            x[i + 1] = max(x[i], x[i + 1])
            x[i] = low


@weft.kernel
def bubble_sort(x: weft.i64["N"]):
    for i in range(N):
        for j in range(N - 1 - i):
            a = x[j]
            b = x[j + 1]
            x[j] = min(a, b)
            x[j + 1] = max(a, b)


@weft.kernel
def spmv_ell(
    cols: weft.i32["N", "K"], vals: weft.f64["N", "K"], x: weft.f64["N"], y: weft.f64["N"]
):
    for i in range(N):
        y[i] = 0.0
        for k in range(K):
            y[i] += vals[i, k] * x[cols[i, k]]


def _words(n: int, dtype=np.int32):
    m = n + 2
    table = np.zeros((n + 1, m + 1), np.int32)
    return whole(n, 0, 4, n, dtype=dtype), whole(n + 1, 0, 4, m, dtype=dtype), table


def _bits(n: int, dtype) -> np.ndarray:
    return (rng(n).random((n, n)) < 2.0 / max(n, 1)).astype(dtype)


DYNAMIC = {
    "closure_bool": Program(closure_bool, lambda n: (_bits(n, np.bool_),), 600),
    "closure_int": Program(closure_int, lambda n: (whole(n, 0, 99, n, n, dtype=np.int32),), 600),
    "closure_branch": Program(closure_branch, lambda n: (_bits(n, np.uint8),), 800),
    "paths_f32": Program(
        paths_f32, lambda n: (floats(n, n, n).astype(np.float32) + np.float32(1.01),), 600
    ),
    "paths_i64": Program(paths_i64, lambda n: (whole(n, 1, 999, n, n),), 500),
    "widest_paths": Program(
        widest_paths, lambda n: (whole(n, 1, 9999, n, n, dtype=np.int32),), 600
    ),
    "matrix_chain": Program(
        matrix_chain, lambda n: (whole(n, 1, 50, n + 1), np.zeros((n, n), np.int64)), 500
    ),
    "optimal_bst": Program(
        optimal_bst,
        lambda n: (floats(n, n) + 1.0, np.zeros((n + 1, n + 1)), np.zeros((n + 1, n + 1))),
        500,
    ),
    "lcs": Program(lcs, lambda n: _words(n, np.uint8), 3000),
    "edit_distance": Program(edit_distance, _words, 3000),
    "edit_distance_two_rows": Program(
        edit_distance_two_rows, lambda n: (*_words(n)[:2], np.zeros(1, np.int32)), 3000
    ),
    "smith_waterman": Program(
        smith_waterman, lambda n: (*_words(n, np.uint8), np.zeros(1, np.int32)), 3000
    ),
    "knapsack": Program(
        knapsack,
        lambda n: (
            whole(n, 0, n + 1, n, dtype=np.int32),
            whole(n, 0, 100, n),
            np.zeros((n + 1, 2 * n + 1), np.int64),
        ),
        2000,
    ),
    "coins": Program(coins, lambda n: (1, np.ones(n, np.int64)), 1_000_000),
    "pascal": Program(pascal, lambda n: (np.zeros((n, n), np.int64),), 4000),
    "prefix_sum": Program(prefix_sum, lambda n: (whole(n, -9, 9, n),), 10_000_000),
    "prefix_sum_scalar": Program(
        prefix_sum_scalar, lambda n: (floats(n, n), np.zeros(n)), 5_000_000
    ),
    "integral_image": Program(
        integral_image,
        lambda n: (whole(n, 0, 256, n, n + 1, dtype=np.uint8), np.zeros((n, n + 1), np.int64)),
        2000,
    ),
    "integral_in_place": Program(
        integral_in_place, lambda n: (whole(n, -9, 9, n, n + 2, dtype=np.int32),), 3000
    ),
    "running_max": Program(
        running_max,
        lambda n: (floats(n, n).astype(np.float32), np.zeros(n, np.float32)),
        5_000_000,
    ),
    "kadane": Program(kadane, lambda n: (whole(n, -9, 9, n), np.zeros(1, np.int64)), 5_000_000),
    "horner": Program(horner, lambda n: (floats(n, 12), floats(n + 1, n), np.zeros(n)), 1_000_000),
    "polynomial_product": Program(
        polynomial_product,
        lambda n: (whole(n, -9, 9, n), whole(n, -9, 9, n + 2), np.ones(2 * n + 2, np.int64)),
        8000,
    ),
    "linear_recurrence": Program(
        linear_recurrence, lambda n: (floats(n, n), floats(n, n), np.ones(n)), 3_000_000
    ),
    "histogram": Program(
        histogram,
        lambda n: (whole(n, 0, 256, n, n + 1, dtype=np.uint8), np.zeros(256, np.int64)),
        4000,
    ),
    "gather_scatter": Program(
        gather_scatter,
        lambda n: (rng(n).permutation(n).astype(np.int32), floats(n, n), np.zeros(n)),
        2_000_000,
    ),
    "bitonic_step": Program(
        bitonic_step, lambda n: (whole(n, 0, 999, 2 * n, dtype=np.int32),), 5_000_000
    ),
    "bitonic_pass": Program(
        bitonic_pass, lambda n: (whole(n, 0, 999, n, dtype=np.int32), 4, 2), 2_000_000
    ),
    "multiplication_table": Program(multiplication_table, lambda n: (np.zeros(n, np.int64),), 4000),
    "odd_even_sort": Program(
        odd_even_sort, lambda n: (whole(n, 0, 999, n, dtype=np.int32),), 10_000
    ),
    "bubble_sort": Program(bubble_sort, lambda n: (whole(n, 0, 999, n),), 10_000),
    "spmv_ell": Program(
        spmv_ell,
        lambda n: (
            whole(n, 0, max(n, 1), n, 9, dtype=np.int32),
            floats(n, n, 9),
            floats(n, n),
            np.zeros(n),
        ),
        500_000,
    ),
}
