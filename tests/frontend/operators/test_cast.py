import ml_dtypes
import numpy as np
import pytest

from tests.frontend.operators.run_operator import run
from weft.ir import dtypes
from weft.ir.errors import ExpressionError

E8M0 = dtypes.float8_e8m0fnu
VALUES = np.array(
    [1.0, 1.5, 1.499, 2.0, 3.0, 1000.0, 2.0**-127, 2.0**-128, 1.5 * 2.0**127], np.float32
)


@pytest.mark.parametrize("to", [d for d in dtypes.ALL if d != E8M0], ids=str)
@pytest.mark.parametrize("source", ["float32", "int8", "bool", "float16"])
def test_small_numbers_convert_exactly(source, to):
    values = np.array([0, 1], np.float32).astype(source)
    assert run("cast", values, to=to).astype(np.float32).tolist() == [0.0, 1.0]


def test_integers_wrap_and_floats_truncate():
    assert run("cast", np.array([200, -129], np.int16), to=dtypes.int8).tolist() == [-56, 127]
    assert run("cast", np.array([2.9, -2.9]), to=dtypes.int32).tolist() == [2, -2]
    assert run("cast", np.array([0.1, 0.0, -0.0, np.nan]), to=dtypes.bool_).tolist() == [1, 0, 0, 1]
    assert run("cast", np.array([9.0, -9.0, 16.5]), to=dtypes.uint4).astype(int).tolist() == [
        9,
        7,
        0,
    ]


@pytest.mark.parametrize("to", [dtypes.float8_e4m3fn, dtypes.float8_e5m2], ids=str)
def test_eight_bit_floats_saturate_if_asked(to):
    huge = np.array([1e6, -np.inf], np.float32)
    top = float(ml_dtypes.finfo(to.numpy).max)
    assert run("cast", huge, to=to).astype(float).tolist() == [top, -top]
    assert not np.isfinite(run("cast", huge, to=to, saturate=False).astype(float)).any()


@pytest.mark.parametrize(
    "mode, powers", [
        ("up", [0, 1, 1, 1, 2, 10, -127, -127, 127]),
        ("down", [0, 0, 0, 1, 1, 9, -127, -127, 127]),
        ("nearest", [0, 1, 0, 1, 2, 10, -127, -127, 127]),
    ],
)  # fmt: skip
def test_powers_of_two_round_as_told(mode, powers):
    result = run("cast", VALUES, to=E8M0, round_mode=mode).astype(np.float64)
    assert np.log2(result).tolist() == powers


def test_powers_of_two_out_of_range():
    x = np.array([0.0, np.inf, np.nan, 2.0**-130, 1.6 * 2.0**127], np.float32)
    saturated = run("cast", x, to=E8M0).astype(np.float64)
    np.testing.assert_array_equal(saturated, [2.0**-127, 2.0**127, np.nan, 2.0**-127, 2.0**127])
    rounded = run("cast", x, to=E8M0, saturate=False, round_mode="nearest").astype(np.float64)
    assert np.isnan(rounded).all()


def test_an_unknown_rounding_is_refused():
    with pytest.raises(ExpressionError, match="WEFT-E0183"):
        run("cast", VALUES, to=E8M0, round_mode="stochastic")


def test_bits_survive_a_bit_cast():
    x = np.array([0x7FC00001, 0x80000000, 1], np.uint32)
    there = run("bit_cast", x, to=dtypes.float32)
    np.testing.assert_array_equal(run("bit_cast", there, to=dtypes.uint32), x)
    with pytest.raises(ExpressionError, match="WEFT-E0105"):
        run("bit_cast", x, to=dtypes.float64)
