import numpy as np
import pytest

from tests.frontend.operators.run_operator import run
from weft.ir.errors import ExpressionError

RNG = np.random.default_rng(0)


def complex_of(x):
    return x[..., 0] + 1j * x[..., 1] if x.shape[-1] == 2 else x[..., 0]


def parts(z):
    return np.stack([z.real, z.imag], -1)


@pytest.mark.parametrize("size, length", [(1, 1), (2, 2), (7, 7), (8, 5), (6, 13), (12, 12)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("inverse", [False, True])
def test_dft(size, length, axis, channels, inverse):
    x = np.moveaxis(RNG.standard_normal((size, 3, channels)), 0, axis)
    transform = np.fft.ifft if inverse else np.fft.fft
    expected = parts(transform(complex_of(x), length, axis))
    result = run("dft", x, length=length, axis=axis, inverse=inverse, onesided=False)
    np.testing.assert_allclose(result, expected, atol=1e-12)


@pytest.mark.parametrize("length", [1, 2, 7, 12])
def test_one_sided_transforms(length):
    x = RNG.standard_normal((3, 9, 1))
    spectrum = run("dft", x, length=length, axis=1, inverse=False, onesided=True)
    np.testing.assert_allclose(spectrum, parts(np.fft.rfft(x[..., 0], length, 1)), atol=1e-12)
    back = run("dft", spectrum, length=length, axis=1, inverse=True, onesided=True)
    np.testing.assert_allclose(
        back[..., 0], np.fft.irfft(complex_of(spectrum), length, 1), atol=1e-12
    )


def test_long_float32_transforms_are_rounded_once():
    x = RNG.standard_normal((1, 1024, 1)).astype(np.float32)
    result = run("dft", x, length=1024, axis=1, inverse=False, onesided=False)
    expected = parts(np.fft.fft(x[..., 0].astype(np.float64), axis=1))
    np.testing.assert_allclose(result, expected, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("samples, length, step", [(16, 4, 4), (17, 5, 3), (8, 8, 1), (9, 1, 2)])
@pytest.mark.parametrize("onesided", [True, False])
@pytest.mark.parametrize("windowed", [True, False])
@pytest.mark.parametrize("channels", [1, 2])
def test_stft(samples, length, step, onesided, windowed, channels):
    signal = RNG.standard_normal((2, samples, channels))
    window = RNG.standard_normal(length) if windowed else None
    starts = range(0, samples - length + 1, step)
    frames = np.stack([complex_of(signal)[:, s : s + length] for s in starts], 1)
    weighted = frames if window is None else frames * window
    expected = parts(np.fft.fft(weighted, axis=-1))
    if onesided:
        expected = expected[:, :, : length // 2 + 1]
    result = run("stft", signal, window, step=step, length=length, onesided=onesided)
    np.testing.assert_allclose(result, expected, atol=1e-12)


def test_bad_signals_are_refused():
    x = np.zeros((1, 4, 3), np.float32)
    with pytest.raises(ExpressionError, match="not 1 or 2"):
        run("dft", x, length=4, axis=1, inverse=False, onesided=False)
    with pytest.raises(ExpressionError, match="real and imaginary"):
        run("dft", x[..., :2], length=4, axis=2, inverse=False, onesided=False)
    with pytest.raises(ExpressionError, match="frames of 5 in 4 samples"):
        run("stft", x[..., :1], None, step=1, length=5, onesided=True)
    with pytest.raises(ExpressionError, match="a signal of int32"):
        run("dft", x[..., :2].astype(np.int32), length=4, axis=1, inverse=False, onesided=False)
