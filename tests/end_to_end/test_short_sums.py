"""Short sums inside vectors: unrolled, in registers, in as many lanes as what differs fills."""

# ruff: noqa: F821, UP037  (sizes are names in kernels)

from __future__ import annotations

import numpy as np
import pytest

import weft


@weft.kernel
def smooth(u: weft.f32["H", "W"], out: weft.f32["H", "W"], k: float):
    for y in range(1, H - 1):
        for x in range(1, W - 1):
            change = weft.f32(0.0)
            for s in range(-1, 2, 2):
                down = u[y + s, x] - u[y, x]
                side = u[y, x + s] - u[y, x]
                change += down * max(1 - down * down * weft.f32(k), 0.0)
                change += side * max(1 - side * side * weft.f32(k), 0.0)
            out[y, x] = u[y, x] + 0.2 * change


@weft.kernel
def halve(img: weft.u8["2 * H", "2 * W"], out: weft.u8["H", "W"]):
    for y in range(H):
        for x in range(W):
            total = weft.u16(2)
            for a in range(2):
                for b in range(2):
                    total += weft.u16(img[2 * y + a, 2 * x + b])
            out[y, x] = weft.u8(total // 4)


def smoothed(u: np.ndarray, k: float) -> np.ndarray:
    wide, inner = u.astype(np.float64), np.s_[1:-1, 1:-1]
    moves = [np.roll(wide, s, axis)[inner] - wide[inner] for s in (1, -1) for axis in (0, 1)]
    return wide[inner] + 0.2 * sum(d * np.maximum(1 - d * d * k, 0) for d in moves)


def test_two_sums_share_one_vector_loop() -> None:
    options = weft.Options(threads=1, target="x86-64-v3")
    text = str(weft.schedule(smooth, options=options).automatic())
    assert text.count("vector=") == 1 and text.count("unrolled=") == 2
    assert "<8 x float>" in smooth.compile(options=options).source("llvm")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("strict", [False, True])
def test_smooth(threads: int, strict: bool) -> None:
    run = smooth.compile(options=weft.Options(threads=threads, strict=strict))
    for shape in ((2, 2), (3, 3), (3, 10), (5, 11), (4, 67), (130, 259)):
        u = np.random.default_rng(1).normal(size=shape).astype(np.float32)
        out = np.full(shape, 7, np.float32)
        run(u, out, 0.5)
        np.testing.assert_allclose(out[1:-1, 1:-1], smoothed(u, 0.5), rtol=2e-5, atol=2e-5)
        edge = np.ones(shape, bool)
        edge[1:-1, 1:-1] = False
        assert (out[edge] == 7).all()


def test_every_second_byte_and_none_beyond() -> None:
    """Vectors of bytes end with the last that counts, wherever that is."""
    run = halve.compile()
    for h, w in ((0, 5), (1, 0), (1, 1), (1, 7), (2, 8), (3, 15), (3, 16), (2, 17), (5, 131)):
        img = np.random.default_rng(w).integers(0, 256, (2 * h, 2 * w), np.uint8)
        out = np.zeros((h, w), np.uint8)
        run(img, out)
        wide = img.astype(int)
        quads = (wide[a::2, b::2] for a in (0, 1) for b in (0, 1))
        np.testing.assert_array_equal(out, (sum(quads) + 2) // 4)
