import numpy as np
import pytest

from tests.frontend.operators.run_operator import run
from weft.frontend.operators.registry import instantiate
from weft.frontend.operators.shape import resolve_shape
from weft.ir import dtypes
from weft.ir.build import placeholder, var
from weft.ir.errors import BudgetError, ExpressionError
from weft.ir.tensor_interpreter import interpret

SHAPES = [(), (1,), (0,), (7,), (2, 3, 5), (3, 0, 2), (1, 4, 1)]


def numbers(shape):
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("shape", SHAPES)
def test_transpose(shape):
    x = numbers(shape)
    perm = tuple(np.random.default_rng(0).permutation(len(shape)).tolist())
    np.testing.assert_array_equal(run("transpose", x, perm=perm), x.transpose(perm))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("repeat", [0, 1, 3])
def test_tile(shape, repeat):
    x = numbers(shape)
    repeats = tuple((repeat + d) % 4 for d in range(len(shape)))
    np.testing.assert_array_equal(run("tile", x, repeats=repeats), np.tile(x, repeats))


@pytest.mark.parametrize(
    "shape, target",
    [((3, 1), (2, 1, 6)), ((2, 3), (1,)), ((1,), (0, 4)), ((), (5,)), ((4,), ()), ((1, 0), (3, 1))],
)
def test_expand_is_broadcasting_both_ways(shape, target):
    x = numbers(shape)
    expected = np.broadcast_to(x, np.broadcast_shapes(shape, target))
    np.testing.assert_array_equal(run("expand", x, shape=target), expected)


@pytest.mark.parametrize("k", [-7, -1, 0, 2, 9])
@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (0, 2), (1, 1)])
def test_eye(shape, k):
    result = run("eye", rows=shape[0], columns=shape[1], k=k, dtype=dtypes.int16)
    np.testing.assert_array_equal(result, np.eye(*shape, k, dtype=np.int16))


@pytest.mark.parametrize(
    "value, dtype",
    [(2**63 - 1, "int64"), (2**64 - 1, "uint64"), (-0.0, "float32"), (float("nan"), "float16"),
     (1, "bool"), (1.5, "bfloat16")],
)  # fmt: skip
def test_fill(value, dtype):
    dtype = dtypes.as_dtype(dtype)
    expected = np.full((2, 3), value).astype(dtype.numpy)
    np.testing.assert_array_equal(run("fill", shape=(2, 3), value=value, dtype=dtype), expected)


@pytest.mark.parametrize(
    "old, target, allowzero, new",
    [
        ((2, 3, 4), [0, -1], False, [2, 12]),
        ((2, 3, 4), [4, -1, 0, 1], False, None),
        ((0, 3), [0, -1], False, [0, 3]),  # any would do; a size that is copied cancels
        ((0, 3), [-1, 0], False, [0, 3]),
        ((0, 3), [3, -1], False, [3, 0]),
        ((0, 3), [3, 0], True, [3, 0]),
        ((2, 3), [-1], False, [6]),
        ((), [-1, 1], False, [1, 1]),
    ],
)
def test_targets_of_reshape(old, target, allowzero, new):
    if new is None:
        with pytest.raises(ExpressionError):
            resolve_shape(old, target, allowzero=allowzero)
    else:
        assert resolve_shape(old, target, allowzero=allowzero) == new


def test_symbols_cancel_in_targets_of_reshape():
    n, m = var("n"), var("m")
    assert resolve_shape((n, 4, 6), [0, -1], allowzero=False) == [n, 24]
    assert resolve_shape((n, 4, 6), [-1, 12], allowzero=False) == [n * 2, 12]
    assert resolve_shape((n, m, 6), [0, 0, 2, -1], allowzero=False) == [n, m, 2, 3]
    assert resolve_shape((n, 3), [-1, 2], allowzero=False) == [n * 3 // 2, 2]


def test_symbolic_sizes():
    n = var("n")
    x = placeholder((n, 3), name="x")
    data = numbers((5, 3))
    for op, attributes, expected in [
        ("transpose", {"perm": (1, 0)}, data.T),
        ("tile", {"repeats": (2, 3)}, np.tile(data, (2, 3))),
        ("expand", {"shape": (2, 1, 1)}, np.broadcast_to(data, (2, 5, 3))),
        ("shape_of", {"start": 0, "end": 2}, np.array([5, 3])),
        ("size_of", {}, np.array(15)),
    ]:
        (result,) = interpret(instantiate(op, [x], **attributes), [data])
        np.testing.assert_array_equal(result, expected)


def test_no_tensor_above_the_cap():
    x = placeholder((2**16,), name="x")
    with pytest.raises(BudgetError, match="at most 16 GiB"):
        instantiate("expand", [x], shape=(2**20, 1))
    with pytest.raises(BudgetError):
        placeholder((0, 2**61, 4), name="x")
    placeholder((2**32,), name="exactly 16 GiB")
    with pytest.raises(ExpressionError, match="negative"):
        placeholder((3, -1), name="x")
