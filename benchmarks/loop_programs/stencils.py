"""Stencils in time, cellular automata, particles."""

# ruff: noqa: B007, F821
# mypy: disable-error-code="name-defined, valid-type, no-untyped-def, index, operator"

import numpy as np

import weft
from weft.benchmarks.loop_programs.program import Program, floats, whole


@weft.kernel
def red_black_sor(steps: int, u: weft.f64["N", "N"], f: weft.f64["N", "N"]):
    for t in range(steps):
        for colour in range(2):
            for i in range(1, N - 1):
                for j in range(1 + (i + colour) % 2, N - 1, 2):
                    r = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j]
                    u[i, j] += 1.5 * (0.25 * r - u[i, j])


@weft.kernel
def red_black_if(steps: int, u: weft.f64["N", "N"]):
    for t in range(steps):
        for i in range(1, N - 1):
            for j in range(1, N - 1):
                if (i + j) % 2 == 0:
                    u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
        for i in range(1, N - 1):
            for j in range(1, N - 1):
                if (i + j) % 2 == 1:
                    u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])


@weft.kernel
def gauss_seidel_1d(steps: int, x: weft.f64["N"]):
    for t in range(steps):
        for i in range(1, N - 1):
            x[i] = 0.5 * (x[i - 1] + x[i + 1])


@weft.kernel
def gauss_seidel_3d(steps: int, x: weft.f64["N", "N", "N"]):
    for t in range(steps):
        for i in range(1, N - 1):
            for j in range(1, N - 1):
                for k in range(1, N - 1):
                    x[i, j, k] = (
                        x[i - 1, j, k] + x[i + 1, j, k] + x[i, j - 1, k]
                        + x[i, j + 1, k] + x[i, j, k - 1] + x[i, j, k + 1]
                    ) / 6.0  # fmt: skip


@weft.kernel
def heat_1d_in_place(steps: int, x: weft.f64["N"]):
    for t in range(steps):
        left = x[0] if N > 0 else 0.0
        for i in range(1, N - 1):
            here = x[i]
            x[i] = here + 0.2 * (left - 2.0 * here + x[i + 1])
            left = here


@weft.kernel
def heat_2_copies(steps: int, x: weft.f64[2, "N"]):
    for t in range(steps):
        for i in range(1, N - 1):
            x[(t + 1) % 2, i] = 0.3 * (x[t % 2, i - 1] + x[t % 2, i] + x[t % 2, i + 1])


@weft.kernel
def wave(steps: int, p: weft.f64["N", "N"], u: weft.f64["N", "N"], v: weft.f64["N", "N"]):
    for t in range(steps):
        for i in range(1, N - 1):
            for j in range(1, N - 1):
                lap = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j]
                v[i, j] = 2.0 * u[i, j] - p[i, j] + 0.1 * lap
        for i in range(1, N - 1):
            for j in range(1, N - 1):
                p[i, j] = u[i, j]
                u[i, j] = v[i, j]


@weft.kernel
def wave_all_times(u: weft.f64["T", "N"]):
    for t in range(2, T):
        for i in range(1, N - 1):
            u[t, i] = 2.0 * u[t - 1, i] - u[t - 2, i]
            u[t, i] += 0.25 * (u[t - 1, i - 1] - 2.0 * u[t - 1, i] + u[t - 1, i + 1])


@weft.kernel
def life(steps: int, a: weft.u8["N", "M"], b: weft.u8["N", "M"]):
    for t in range(steps):
        for i in range(1, N - 1):
            for j in range(1, M - 1):
                n = a[i - 1, j - 1] + a[i - 1, j] + a[i - 1, j + 1] + a[i, j - 1]
                n += a[i, j + 1] + a[i + 1, j - 1] + a[i + 1, j] + a[i + 1, j + 1]
                b[i, j] = 1 if n == 3 or (n == 2 and a[i, j] == 1) else 0
        for i in range(1, N - 1):
            for j in range(1, M - 1):
                a[i, j] = b[i, j]


@weft.kernel
def lattice(steps: int, f: weft.f64[3, "N"], g: weft.f64[3, "N"]):
    for t in range(steps):
        for i in range(N):
            rho = f[0, i] + f[1, i] + f[2, i]
            vel = f[1, i] - f[2, i]
            g[0, i] = 0.5 * f[0, i] + 0.5 * (0.5 * rho - 0.2 * vel * vel)
            g[1, i] = 0.5 * f[1, i] + 0.5 * (0.25 * rho + 0.5 * vel)
            g[2, i] = 0.5 * f[2, i] + 0.5 * (0.25 * rho - 0.5 * vel)
        for i in range(N):
            f[0, i] = g[0, i]
            f[1, i] = g[1, (i - 1) if i > 0 else N - 1]
            f[2, i] = g[2, (i + 1) if i < N - 1 else 0]


@weft.kernel
def advection(steps: int, u: weft.f64["N"]):
    for t in range(steps):
        for i in range(N - 1, 0, -1):
            u[i] -= 0.4 * (u[i] - u[i - 1])


@weft.kernel
def sweeps(steps: int, u: weft.f64["N", "M"]):
    for t in range(steps):
        for i in range(1, N):
            for j in range(1, M):
                u[i, j] = 0.4 * (u[i - 1, j] + u[i, j - 1]) + 0.1 * u[i, j]
        for i in range(N - 2, -1, -1):
            for j in range(M - 2, -1, -1):
                u[i, j] = 0.4 * (u[i + 1, j] + u[i, j + 1]) + 0.1 * u[i, j]


@weft.kernel
def nbody(x: weft.f64["N", 3], v: weft.f64["N", 3], m: weft.f64["N"]):
    for i in range(N):
        for j in range(N):
            dx = x[j, 0] - x[i, 0]
            dy = x[j, 1] - x[i, 1]
            dz = x[j, 2] - x[i, 2]
            d = dx * dx + dy * dy + dz * dz + 0.01
            s = m[j] / (d * np.sqrt(d))
            v[i, 0] += s * dx
            v[i, 1] += s * dy
            v[i, 2] += s * dz
    for i in range(N):
        for k in range(3):
            x[i, k] += 0.01 * v[i, k]


def _cells(n: int) -> np.ndarray:
    return whole(n, 0, 2, n, n + 1, dtype=np.uint8)


STENCILS = {
    "red_black_sor": Program(
        red_black_sor, lambda n: (4, floats(n, n, n), floats(n + 1, n, n)), 1000
    ),
    "red_black_if": Program(red_black_if, lambda n: (4, floats(n, n, n)), 1000),
    "gauss_seidel_1d": Program(gauss_seidel_1d, lambda n: (n % 100, floats(n, n)), 199_999),
    "gauss_seidel_3d": Program(gauss_seidel_3d, lambda n: (3, floats(n, n, n, n)), 150),
    "heat_1d_in_place": Program(heat_1d_in_place, lambda n: (n % 100, floats(n, n)), 199_999),
    "heat_2_copies": Program(heat_2_copies, lambda n: (n % 100, floats(n, 2, n)), 999_999),
    "wave": Program(wave, lambda n: (5, *(floats(n + i, n, n) for i in range(3))), 1000),
    "wave_all_times": Program(wave_all_times, lambda n: (floats(n, n, n + 1),), 2000),
    "life": Program(life, lambda n: (3, _cells(n), _cells(n)), 2000),
    "lattice": Program(lattice, lambda n: (4, floats(n, 3, n), floats(n, 3, n)), 500_000),
    "advection": Program(advection, lambda n: (20, floats(n, n)), 500_000),
    "sweeps": Program(sweeps, lambda n: (2, floats(n, n, n + 2)), 1500),
    "nbody": Program(nbody, lambda n: (floats(n, n, 3), floats(n, n, 3), floats(n, n)), 2500),
}  # fmt: skip
