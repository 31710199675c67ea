"""Which loop becomes a vector: seen in the trees of small kernels."""

# ruff: noqa: F821
# mypy: disable-error-code="name-defined, valid-type, no-untyped-def, index"

import numpy as np

import weft
from tests.polyhedral.policy import time_programs as programs


def test_a_few_taps_are_no_vector_but_the_row_is() -> None:
    @weft.kernel
    def blur(x: weft.f32["H", "W"], w: weft.f32[3], y: weft.f32["H", "W"]):
        for i in range(H):
            for j in range(W - 2):
                y[i, j] = 0.0
                for k in range(3):
                    y[i, j] += x[i, j + k] * w[k]

    text = programs.text(blur)
    assert "k = k    vector" not in text
    assert text.count("vector") == 1 and "RegisterTile(rows=()" in text  # zeros, sums


def test_half_a_vector_is_one_and_three_elements_are_not() -> None:
    @weft.kernel
    def scaled(a: weft.f32["N", 8], b: weft.f32["N", 3]):
        for i in range(N):
            for j in range(8):
                a[i, j] *= 2.0
        for i in range(N):
            for j in range(3):
                b[i, j] *= 2.0

    text = programs.text(scaled)
    assert "j = j    vector" in text and text.count("vector") <= 2
    assert "j_2 = j_2    vector" not in text


def test_scattered_updates_run_one_by_one() -> None:
    @weft.kernel
    def histogram(pixels: weft.u8["N"], bins: weft.i64[256]):
        for i in range(N):
            bins[pixels[i]] += 1

    assert "vector" not in programs.text(histogram)


def test_rows_that_come_from_the_row_before_are_whole_vectors() -> None:
    @weft.kernel
    def pascal(C: weft.i64["N", "M"]):
        for i in range(1, N):
            for j in range(1, M):
                C[i, j] = C[i - 1, j - 1] + C[i - 1, j]

    text = programs.text(pascal)
    assert "j = j    vector" in text
    assert "_t" not in text  # each element is written once: nothing for time tiles to gain


def test_short_rows_are_vectors_that_are_not_full() -> None:
    @weft.kernel
    def scaled(A: weft.f64["N"], B: weft.f64[5], C: weft.f64["N", 9]):
        for i in range(N):
            for j in range(5):
                C[i, j] = A[i] * B[j]

    text = programs.text(scaled)
    assert "j = j    vector" in text and "i = i    vector" not in text


def test_rows_that_data_choose_are_vectors() -> None:
    @weft.kernel
    def sums(label: weft.i32["N"], x: weft.f64["N", "D"], c: weft.f64["K", "D"]):
        for i in range(N):
            for d in range(D):
                c[label[i], d] += x[i, d]

    assert "d = d    vector" in programs.text(sums)


def test_what_three_lines_write_of_a_row_is_one_vector() -> None:
    """Each alone leaves gaps; all three together fill them."""

    @weft.kernel
    def turned(p: weft.f32["N", 3], q: weft.f32["N", 3]):
        for i in range(N):
            q[i, 2] = p[i, 2] + 1
            q[i, 0] = 0.75 * p[i, 0] + 0.5 * p[i, 1]
            q[i, 1] = 0.75 * p[i, 1] - 0.5 * p[i, 0]

    @weft.kernel
    def gaps(q: weft.f32["N", 3]):
        for i in range(N):
            q[i, 0] = 1.0
            q[i, 1] = 2.0

    assert "i = i    vector" in programs.text(turned)
    assert "vector" not in programs.text(gaps)
    for n in (0, 1, 5, 16, 37):
        p = np.arange(3 * n, dtype=np.float32).reshape(n, 3) % 7
        q, wanted = np.zeros_like(p), np.empty_like(p)
        wanted[:, 2] = p[:, 2] + 1
        wanted[:, 0] = np.float32(0.75) * p[:, 0] + np.float32(0.5) * p[:, 1]
        wanted[:, 1] = np.float32(0.75) * p[:, 1] - np.float32(0.5) * p[:, 0]
        turned(p, q)
        np.testing.assert_array_equal(q, wanted)
