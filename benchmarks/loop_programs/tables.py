"""Tables of dynamic programming in one, two and three directions, and updates under guards."""

# ruff: noqa: F821
# mypy: disable-error-code="name-defined, valid-type, no-untyped-def, index, operator"

import numpy as np

import weft
from weft.benchmarks.loop_programs.program import Program, floats, rng, whole


@weft.kernel
def alignment(a: weft.u8["N"], b: weft.u8["M"], F: weft.f32["N + 1", "M + 1"]):
    """Needleman and Wunsch: global, with a linear gap."""
    for i in range(N + 1):
        F[i, 0] = -0.5 * i
    for j in range(M + 1):
        F[0, j] = -0.5 * j
    for i in range(1, N + 1):
        for j in range(1, M + 1):
            same = 1.0 if a[i - 1] == b[j - 1] else -1.0
            F[i, j] = max(F[i - 1, j - 1] + same, F[i - 1, j] - 0.5, F[i, j - 1] - 0.5)


@weft.kernel
def edit_distance_i64(a: weft.i64["N"], b: weft.i64["M"], D: weft.i64["N + 1", "M + 1"]):
    for i in range(N + 1):
        D[i, 0] = i
    for j in range(M + 1):
        D[0, j] = j
    for i in range(1, N + 1):
        for j in range(1, M + 1):
            change = D[i - 1, j - 1] + int(a[i - 1] != b[j - 1])
            D[i, j] = min(D[i - 1, j] + 1, D[i, j - 1] + 1, change)


@weft.kernel
def time_warp_f32(a: weft.f32["N"], b: weft.f32["M"], D: weft.f32["N + 1", "M + 1"]):
    for i in range(1, N + 1):
        for j in range(1, M + 1):
            c = a[i - 1] - b[j - 1]
            D[i, j] = c * c + min(D[i - 1, j], D[i, j - 1], D[i - 1, j - 1])


@weft.kernel
def lcs_of_three(
    a: weft.u8["N"], b: weft.u8["M"], c: weft.u8["K"], L: weft.i32["N + 1", "M + 1", "K + 1"]
):
    for i in range(1, N + 1):
        for j in range(1, M + 1):
            for k in range(1, K + 1):
                if a[i - 1] == b[j - 1] and b[j - 1] == c[k - 1]:
                    L[i, j, k] = L[i - 1, j - 1, k - 1] + 1
                else:
                    L[i, j, k] = max(L[i - 1, j, k], L[i, j - 1, k], L[i, j, k - 1])


@weft.kernel
def common_substring(a: weft.u8["N"], b: weft.u8["M"], L: weft.i32["N + 1", "M + 1"]):
    for i in range(N):
        for j in range(M):
            L[i + 1, j + 1] = L[i, j] + 1 if a[i] == b[j] else 0


@weft.kernel
def largest_square(a: weft.u8["N", "M"], S: weft.i32["N + 1", "M + 1"]):
    for i in range(N):
        for j in range(M):
            least = min(S[i, j], S[i, j + 1], S[i + 1, j])
            S[i + 1, j + 1] = least + 1 if a[i, j] != 0 else 0


@weft.kernel
def cheapest_way(cost: weft.f64["N", "M"], D: weft.f64["N + 1", "M + 1"]):
    """Down or to the right, through a field of costs."""
    for i in range(N):
        for j in range(M):
            D[i + 1, j + 1] = cost[i, j] + min(D[i, j + 1], D[i + 1, j])


@weft.kernel
def seam(energy: weft.f32["N", "M + 2"], E: weft.f32["N + 1", "M + 2"]):
    for i in range(N):
        for j in range(1, M + 1):
            E[i + 1, j] = energy[i, j] + min(E[i, j - 1], E[i, j], E[i, j + 1])


@weft.kernel
def palindromes(a: weft.u8["N"], P: weft.i32["N", "N"]):
    """The longest palindromic subsequence of each part."""
    for i in range(N - 1, -1, -1):
        P[i, i] = 1
        for j in range(i + 1, N):
            if a[i] == a[j]:
                P[i, j] = P[i + 1, j - 1] + 2
            else:
                P[i, j] = max(P[i + 1, j], P[i, j - 1])


@weft.kernel
def rod_cutting(price: weft.i64["N"], best: weft.i64["N"]):
    for n in range(N):
        best[n] = price[n]
        for k in range(n):
            best[n] = max(best[n], price[k] + best[n - 1 - k])


@weft.kernel
def increasing(x: weft.i32["N"], L: weft.i32["N"]):
    """The longest increasing subsequence that ends at each place."""
    for i in range(N):
        L[i] = 1
        for j in range(i):
            if x[j] < x[i]:
                L[i] = max(L[i], L[j] + 1)


@weft.kernel
def subset_sums(weight: weft.i32["N"], reached: weft.u8["N + 1", "W"]):
    for i in range(N):
        for c in range(W):
            reached[i + 1, c] = reached[i, c]
            if c >= weight[i]:
                reached[i + 1, c] = max(reached[i, c], reached[i, c - weight[i]])


@weft.kernel
def paths_by_comparison(D: weft.f64["N", "N"]):
    for k in range(N):
        for i in range(N):
            for j in range(N):
                if D[i, k] + D[k, j] < D[i, j]:
                    D[i, j] = D[i, k] + D[k, j]


@weft.kernel
def paths_reached(D: weft.f32["N", "N"]):
    for k in range(N):
        for i in range(N):
            if D[i, k] < 1e30:
                for j in range(N):
                    through = D[i, k] + D[k, j]
                    if D[i, j] >= through:
                        D[i, j] = through


@weft.kernel
def safest_paths(P: weft.f64["N", "N"]):
    """The probability of the most reliable path."""
    for k in range(N):
        for i in range(N):
            for j in range(N):
                P[i, j] = P[i, k] * P[k, j] if P[i, k] * P[k, j] > P[i, j] else P[i, j]


@weft.kernel
def least_of_columns(x: weft.f64["N", "M"], least: weft.f64["M"]):
    for i in range(N):
        for j in range(M):
            if x[i, j] < least[j]:
                least[j] = x[i, j]


@weft.kernel
def outliers(x: weft.f32["N", "M"], limit: weft.f32["M"], total: weft.f32["M"]):
    for i in range(N):
        for j in range(M):
            if abs(x[i, j]) > limit[j]:
                total[j] += x[i, j]


def _word(n: int, length: int, dtype: type = np.uint8) -> np.ndarray:
    return whole(n + length, 0, 4, length, dtype=dtype)


def _table(n: int, dtype: type) -> np.ndarray:
    return np.zeros((n + 1, n + 3), dtype)


def _walled(n: int, dtype: type) -> np.ndarray:
    table: np.ndarray = np.full((n + 1, n + 3), 1e9, dtype)
    table[0, 0] = 0
    return table


def _lengths(n: int, dtype: type) -> tuple[np.ndarray]:
    found: np.ndarray = whole(n, 1, 999, n, n).astype(dtype)
    found[rng(n).random((n, n)) < 0.3] = 1e31 if np.dtype(dtype).kind == "f" else 10**6
    return (found,)


TABLES = {
    "alignment": Program(
        alignment, lambda n: (_word(n, n), _word(n, n + 2), _table(n, np.float32)), 3_000
    ),
    "edit_distance_i64": Program(
        edit_distance_i64,
        lambda n: (_word(n, n, np.int64), _word(n, n + 2, np.int64), _table(n, np.int64)),
        2_000,
    ),
    "time_warp_f32": Program(
        time_warp_f32,
        lambda n: (
            floats(n, n).astype(np.float32),
            floats(n + 1, n + 2).astype(np.float32),
            _walled(n, np.float32),
        ),
        3_000,
    ),
    "lcs_of_three": Program(
        lcs_of_three,
        lambda n: (
            _word(n, n), _word(n, n + 1), _word(n, n + 2),
            np.zeros((n + 1, n + 2, n + 3), np.int32),
        ),
        200,
    ),
    "common_substring": Program(
        common_substring, lambda n: (_word(n, n), _word(n, n + 2), _table(n, np.int32)), 3_000
    ),
    "largest_square": Program(
        largest_square,
        lambda n: (whole(n, 0, 9, n, n + 2, dtype=np.uint8), _table(n, np.int32)),
        3_000,
    ),
    "cheapest_way": Program(
        cheapest_way, lambda n: (floats(n, n, n + 2), _walled(n, np.float64)), 2_000
    ),
    "seam": Program(
        seam,
        lambda n: (floats(n, n, n + 2).astype(np.float32), np.zeros((n + 1, n + 2), np.float32)),
        3_000,
    ),
    "palindromes": Program(
        palindromes, lambda n: (_word(n, n), np.zeros((n, n), np.int32)), 3_000
    ),
    "rod_cutting": Program(
        rod_cutting, lambda n: (whole(n, 1, 99, n), np.zeros(n, np.int64)), 10_000
    ),
    "increasing": Program(
        increasing, lambda n: (whole(n, 0, n + 1, n, dtype=np.int32), np.zeros(n, np.int32)), 10_000
    ),
    "subset_sums": Program(
        subset_sums,
        lambda n: (
            whole(n, 0, n + 1, n, dtype=np.int32),
            (np.arange((n + 1) * (4 * n + 1)) == 0).astype(np.uint8).reshape(n + 1, 4 * n + 1),
        ),
        2_000,
    ),
    "paths_by_comparison": Program(
        paths_by_comparison, lambda n: _lengths(n, np.float64), 600
    ),
    "paths_reached": Program(paths_reached, lambda n: _lengths(n, np.float32), 600),
    "safest_paths": Program(safest_paths, lambda n: (rng(n).random((n, n)),), 600),
    "least_of_columns": Program(
        least_of_columns, lambda n: (floats(n, n, n + 2), np.zeros(n + 2)), 3_000
    ),
    "outliers": Program(
        outliers,
        lambda n: (
            floats(n, n, n + 2).astype(np.float32),
            np.abs(floats(n + 1, n + 2)).astype(np.float32),
            np.zeros(n + 2, np.float32),
        ),
        3_000,
    ),
}  # fmt: skip
