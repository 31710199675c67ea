import ml_dtypes
import numpy as np
import pytest

from tests.frontend.operators.run_operator import run
from weft.frontend.operators.registry import instantiate
from weft.ir import dtypes
from weft.ir.build import placeholder
from weft.ir.errors import ExpressionError

rng = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int4", "uint4", "int2"])
def test_quantising_rounds_to_even_and_saturates(dtype):
    dtype = dtypes.as_dtype(dtype)
    halves = np.arange(-10, 10, dtype=np.float32) / 2
    x = np.concatenate([halves, np.float32([1e30, -1e30, np.inf, -np.inf])])
    zero = np.array(1, dtype.numpy)
    expected = np.clip(np.rint(x) + 1, dtype.lowest, dtype.highest)
    result = run("quantize_linear", x, np.float32(1), zero, dtype=dtype)
    assert result.dtype == dtype.numpy
    np.testing.assert_array_equal(result.astype(np.float64), expected)


def test_nan_is_quantised_to_something_in_range():
    result = run("quantize_linear", np.float32([np.nan]), np.float32(1), np.uint8(7))
    assert result.dtype == np.uint8


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_parameters_along_an_axis(axis):
    x = rng.standard_normal((3, 4, 5)).astype(np.float32) * 10
    shape = [1, 1, 1]
    shape[axis] = x.shape[axis]
    scale = rng.random(x.shape[axis], np.float32) + 0.1
    zero = rng.integers(0, 255, x.shape[axis], np.uint8)
    q = run("quantize_linear", x, scale, zero, axis=axis)
    s, z = scale.reshape(shape), zero.reshape(shape).astype(int)
    np.testing.assert_array_equal(q, np.clip(np.rint(x / s) + z, 0, 255))
    back = run("dequantize_linear", q, scale, zero, axis=axis)
    np.testing.assert_allclose(back, (q.astype(int) - z) * s, rtol=1e-6)


@pytest.mark.parametrize("block", [1, 2, 3, 5, 7])
def test_parameters_of_blocks(block):
    x = rng.standard_normal((2, 5, 3)).astype(np.float32) * 9
    blocks = -(-5 // block)
    scale = rng.random((2, blocks, 3), np.float32) + 0.1
    wide = scale.repeat(block, 1)[:, :5]
    q = run("quantize_linear", x, scale, dtype=dtypes.int8, axis=1, block_size=block)
    np.testing.assert_array_equal(q, np.clip(np.rint(x / wide), -128, 127))
    back = run("dequantize_linear", q, scale, axis=1, block_size=block)
    np.testing.assert_allclose(back, q * wide, rtol=1e-6)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"])
def test_quantising_to_small_floats(name):
    dtype = dtypes.as_dtype(name)
    x = rng.standard_normal(64).astype(np.float32)
    result = run("quantize_linear", x, np.float32(0.5), dtype=dtype)
    np.testing.assert_array_equal(result, (x / np.float32(0.5)).astype(dtype.numpy))
    back = run("dequantize_linear", result, np.float16(0.5), dtype=dtypes.float16)
    np.testing.assert_array_equal(back, result.astype(np.float16) * np.float16(0.5))


def test_saturation_of_small_floats():
    x, one = np.float32([1e6, -1e6]), np.float32(1)
    dtype = dtypes.float8_e5m2
    np.testing.assert_array_equal(
        run("quantize_linear", x, one, dtype=dtype).astype(np.float32), [57344, -57344]
    )
    loose = run("quantize_linear", x, one, dtype=dtype, saturate=False).astype(np.float32)
    np.testing.assert_array_equal(loose, [np.inf, -np.inf])


def test_the_division_is_in_the_precision_asked_for():
    x, scale = np.float16([1000]), np.float16(0.3)
    narrow = np.rint(np.float16(1000) / np.float16(0.3))
    wide = np.rint(np.float32(1000) / np.float32(np.float16(0.3)))
    assert narrow != wide
    assert run("quantize_linear", x, scale, dtype=dtypes.int16)[0] == narrow
    more = run("quantize_linear", x, scale, dtype=dtypes.int16, precision=dtypes.float32)
    assert more[0] == wide


def test_dequantising_extremes_does_not_overflow():
    result = run("dequantize_linear", np.int8([-128, 127]), np.float32(1), np.int8(127))
    np.testing.assert_array_equal(result, [-255, 0])
    big = run("dequantize_linear", np.int32([2**31 - 1]), np.float32(2), None)
    np.testing.assert_array_equal(big, np.float32([2**32]))
    small = run("dequantize_linear", np.array([-8, 7], ml_dtypes.int4), np.float32(1), None)
    np.testing.assert_array_equal(small, [-8, 7])


@pytest.mark.parametrize("low", [-3.0, 2.0, -9.0])
def test_dynamic_quantisation_covers_the_range_and_zero(low):
    x = (rng.random((3, 5)) * 5 + low).astype(np.float32)
    y, scale, zero = run("dynamic_quantize_linear", x)
    least, greatest = min(x.min(), 0), max(x.max(), 0)
    np.testing.assert_allclose(scale, (greatest - least) / 255, rtol=1e-6)
    assert y.dtype == zero.dtype == np.uint8 and zero == np.rint(-least / scale)
    np.testing.assert_allclose((y.astype(int) - zero) * scale, x, atol=scale * 0.51)


@pytest.mark.parametrize(
    ("scale", "attributes"),
    [((3,), {}), ((2, 4), {}), ((2, 2), {"block_size": 4}), ((4,), {"block_size": -1})],
)
def test_parameters_that_do_not_fit_are_refused(scale, attributes):
    tensors = [placeholder((2, 4), name="x"), placeholder(scale, name="scale")]
    with pytest.raises(ExpressionError):
        instantiate("quantize_linear", tensors, axis=1, **attributes)
