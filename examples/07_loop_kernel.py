"""Plain loops: a Python function in, machine code for all sizes out, on the caller's own arrays."""

# ruff: noqa: F821  (sizes of a signature are names in the function's body)

import numpy as np

import weft


@weft.kernel
def solve(L: weft.f64["N", "N"], x: weft.f64["N"]):
    """L x = b for a lower triangular L, in place: x holds b at first."""
    for i in range(N):
        for j in range(i):
            x[i] -= L[i, j] * x[j]
        x[i] /= L[i, i]


@weft.kernel
def cholesky(A: weft.f64["N", "N"]):
    """The lower triangle of A becomes its Cholesky factor; what is above is 0."""
    for i in range(N):
        for j in range(i):
            for k in range(j):
                A[i, j] -= A[i, k] * A[j, k]
            A[i, j] /= A[j, j]
        for k in range(i):
            A[i, i] -= A[i, k] ** 2
        A[i, i] = np.sqrt(A[i, i])
        for j in range(i + 1, N):
            A[i, j] = 0.0


@weft.kernel
def solve_symmetric(A: weft.f64["N", "N"], b: weft.f64["N"]):
    """A x = b for a symmetric positive definite A; b becomes x. Calls are inlined."""
    L = weft.empty((N, N), weft.f64)
    for i in range(N):
        for j in range(N):
            L[i, j] = A[i, j]
    cholesky(L)
    solve(L, b)
    for i in range(N - 1, -1, -1):  # with the transpose of L
        for j in range(i + 1, N):
            b[i] -= L[j, i] * b[j]
        b[i] /= L[i, i]


rng = np.random.default_rng(0)
for n in (1, 7, 60):  # compiled once
    square = rng.normal(size=(n, n))
    A, b = square @ square.T + n * np.eye(n), rng.normal(size=n)
    x = b.copy()
    solve_symmetric(A, x)
    print(n, "equations, largest residual", np.abs(A @ x - b).max())
    np.testing.assert_allclose(A @ x, b, atol=1e-9)

    again = b.copy()
    solve_symmetric.python(A, again)  # the function itself: slow, and nothing compiled
    np.testing.assert_allclose(again, x)

print(solve.explain())  # statements, dependences, and the schedule that was proved legal


@weft.kernel
def wrong(A: weft.f64["N"], steps: weft.i32["M"]):
    for i in range(N):
        for j in range(steps[i]):
            A[i] += j


try:
    wrong(np.zeros(3), np.ones(3, np.int32))
except weft.KernelError as error:
    print(error)  # file, line and column, why, and what works instead
