import ml_dtypes
import numpy as np
import pytest

from tests.frontend.operators.run_operator import run

FLOATS = np.array([0.0, -0.0, 1.5, -1.5, 2.5, -0.5, np.inf, -np.inf, np.nan, 7.0, -7.0, 1e-40])
INTS = np.array([-(2**31), 2**31 - 1, -7, 7, -1, 0, 1, 3, -3], np.int32)


def pairs(values):
    a, b = np.meshgrid(values, values, indexing="ij")
    return a.ravel(), b.ravel()


def truncated_quotient(a, b):
    """C's division, with Weft's results where C has none: by zero 0, INT_MIN / -1 wraps."""
    exact = [0 if y == 0 else int(abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1) for x, y in
             zip(a.tolist(), b.tolist(), strict=True)]  # fmt: skip
    return np.array(exact, np.int64).astype(np.int32)


@pytest.mark.parametrize(
    "op, reference",
    [
        ("add", np.add),
        ("sub", np.subtract),
        ("mul", np.multiply),
        ("div", np.divide),
        ("fmod", np.fmod),
        ("min", np.minimum),
        ("max", np.maximum),
        ("pow", np.power),
    ],
)
def test_float_operators_on_special_values(op, reference):
    a, b = pairs(FLOATS)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(run(op, a, b), reference(a, b), rtol=1e-15)


@pytest.mark.parametrize(
    "op, reference",
    [
        ("add", np.add),
        ("sub", np.subtract),
        ("mul", np.multiply),
        ("bitwise_and", np.bitwise_and),
        ("bitwise_or", np.bitwise_or),
        ("bitwise_xor", np.bitwise_xor),
        ("min", np.minimum),
        ("max", np.maximum),
        ("div", truncated_quotient),
    ],
)
def test_integer_operators_wrap_and_truncate(op, reference):
    a, b = pairs(INTS)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run(op, a, b), reference(a, b))


def test_modulo_has_the_sign_of_the_divisor_and_fmod_of_the_dividend():
    a, b = np.array([7, -7, 7, -7, 6]), np.array([3, 3, -3, -3, 0])
    assert run("mod", a, b).tolist() == [1, 2, -2, -1, 0]
    assert run("fmod", a, b).tolist() == [1, -1, 1, -1, 0]


@pytest.mark.parametrize(
    "op, reference",
    [
        ("neg", np.negative),
        ("abs", np.abs),
        ("sign", np.sign),
        ("reciprocal", np.reciprocal),
        ("sqrt", np.sqrt),
        ("floor", np.floor),
        ("ceil", np.ceil),
        ("round", np.rint),
    ],
)
def test_unary_operators_on_special_values(op, reference):
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run(op, FLOATS), reference(FLOATS))


def test_abs_and_neg_of_the_least_integer_wrap():
    least = np.array([-(2**31)], np.int32)
    assert run("abs", least) == run("neg", least) == least


def test_power_takes_any_pair_of_types():
    assert run("pow", np.array([2.0, 9.0], np.float32), np.array([10, -1])).tolist() == [
        1024.0,
        np.float32(1 / 9),
    ]
    assert run("pow", np.array([2, 4, 9]), np.array([3, 0.5, 0.5], np.float32)).tolist() == [
        8,
        2,
        3,
    ]
    assert run("pow", np.array([1, 3], np.int8), np.array([2**32, 5], np.int64)).tolist() == [
        1,
        -13,
    ]


def test_shifts_beyond_the_width_leave_nothing():
    x, by = np.array([1, 255, 255, 16], np.uint8), np.array([3, 8, 7, 200], np.uint8)
    assert run("shift_left", x, by).tolist() == [8, 0, 128, 0]
    assert run("shift_right", x, by).tolist() == [0, 0, 1, 0]


def test_bounds_of_clip_may_be_absent_and_nan_stays():
    x = np.array([-2.0, 0.5, 3.0, np.nan])
    np.testing.assert_array_equal(run("clip", x, np.array(-1.0), None), [-1, 0.5, 3, np.nan])
    np.testing.assert_array_equal(run("clip", x, None, np.array(1.0)), [-2, 0.5, 1, np.nan])
    np.testing.assert_array_equal(run("clip", x, None, None), x)
    np.testing.assert_array_equal(run("clip", x, np.array(2.0), np.array(1.0)), [1, 1, 1, np.nan])


def test_variadic_operators_broadcast_all_operands():
    a, b, c = np.ones((2, 1)), np.arange(3.0), np.full((), 5.0)
    np.testing.assert_array_equal(run("sum", a, b, c), a + b + c)
    np.testing.assert_allclose(run("mean", a, b, c), (a + b + c) / 3)
    np.testing.assert_array_equal(run("mean", b), b)


def test_mean_of_narrow_floats_is_rounded_once():
    a = np.array([2048.0], ml_dtypes.bfloat16)
    one = np.array([8.0], ml_dtypes.bfloat16)
    assert run("mean", a, one, one)[0] == ml_dtypes.bfloat16(2064 / 3)
