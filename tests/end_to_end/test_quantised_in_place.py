"""Convolutions of what a model itself quantises: rows that later rows of a padded copy read live as
long as those rows take, however the loops around them run."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import weft
from tests.weft.integer_models import qdq_conv

Array = np.ndarray


def quantised(x: Array, scale: Array) -> Array:
    return np.clip(np.round(x / scale), -128, 127)


def reference(model: onnx.ModelProto, x: Array) -> Array:
    """The same in exact numbers: scales are powers of two."""
    c = {t.name: numpy_helper.to_array(t).astype(np.float64) for t in model.graph.initializer}
    padded = np.pad(quantised(x.astype(np.float64), c["small"]), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    sums = np.einsum("nchwrs,fcrs->nfhw", windows, c["w"]) * c["small"] ** 2
    biased = sums + (c["bias"] * c["product"])[None, :, None, None]
    return quantised(biased, c["large"]) * c["large"]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("target", ["host", "x86-64-v3"])
def test_quantised_convolutions(target: str, threads: int) -> None:
    model = qdq_conv()
    x = (np.random.default_rng(3).standard_normal((1, 16, 7, 7)) * 3).astype(np.float32)
    options = weft.Options(cache=False, threads=threads, target=target)
    (found,) = weft.compile(model, options=options).run({"x": x}).values()
    np.testing.assert_array_equal(found, reference(model, x))
