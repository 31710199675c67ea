import numpy as np
import pytest
from onnx.reference.ops.op_mel_weight_matrix import MelWeightMatrix

from tests.frontend.operators.run_operator import run
from weft.ir import dtypes

WINDOWS = {np.hanning: (0.5, 0.5), np.blackman: (0.42, 0.5, 0.08)}


@pytest.mark.parametrize("size", [1, 2, 7, 64])
@pytest.mark.parametrize("reference", WINDOWS)
def test_symmetric_windows_are_those_of_numpy(size, reference):
    result = run(
        "cosine_window",
        size=size,
        coefficients=WINDOWS[reference],
        periodic=False,
        dtype=dtypes.float64,
    )
    expected = (
        reference(size)
        if size > 1
        else [sum(c * (-1) ** k for k, c in enumerate(WINDOWS[reference]))]
    )
    np.testing.assert_allclose(result, expected, atol=1e-15)


def test_a_periodic_window_is_a_symmetric_one_without_its_end():
    result = run("cosine_window", size=10, coefficients=(0.5, 0.5), dtype=dtypes.float64)
    np.testing.assert_allclose(result, np.hanning(11)[:-1], atol=1e-15)


@pytest.mark.parametrize("bins, length, rate", [(8, 16, 8192), (40, 512, 16000), (1, 4, 100)])
def test_mel_filters_are_those_of_onnx(bins, length, rate):
    lower, upper = 0.0, rate / 2
    (expected,) = MelWeightMatrix._run(None, bins, length, rate, lower, upper)
    result = run(
        "mel_weight_matrix",
        n_mel_bins=bins,
        dft_length=length,
        sample_rate=rate,
        lower_hertz=lower,
        upper_hertz=upper,
        dtype=dtypes.float32,
    )
    np.testing.assert_allclose(result, expected, rtol=1e-6)
