import itertools

import numpy as np
import pytest

from tests.frontend.operators.run_operator import run
from weft.frontend.operators.registry import instantiate
from weft.ir.build import placeholder, var
from weft.ir.errors import ExpressionError
from weft.ir.scalar_expr import Load, walk
from weft.ir.tensor_interpreter import interpret

X = np.arange(30, dtype=np.float32).reshape(2, 3, 5)


@pytest.mark.parametrize(
    "starts, steps, sizes",
    [((0, 0, 0), (1, 1, 1), (2, 3, 5)), ((1, 2, 4), (-1, -1, -2), (2, 3, 3)),
     ((0, 1, 4), (1, 1, 7), (2, 1, 1)), ((0, 0, 0), (1, 1, 1), (2, 0, 5))],
)  # fmt: skip
def test_strided_slice(starts, steps, sizes):
    picks = [s + t * np.arange(n) for s, t, n in zip(starts, steps, sizes, strict=True)]
    result = run("strided_slice", X, starts=starts, steps=steps, sizes=sizes)
    np.testing.assert_array_equal(result, X[np.ix_(*picks)])


@pytest.mark.parametrize("start, step, size", [(-1, 1, 2), (0, 1, 6), (4, -1, 6), (0, 3, 3)])
def test_a_slice_stays_inside(start, step, size):
    with pytest.raises(ExpressionError, match="leaves dimension 2"):
        run("strided_slice", X, starts=(0, 0, start), steps=(1, 1, step), sizes=(2, 3, size))


@pytest.mark.parametrize("widths", [(1,), (0,), (0, 0), (2, 0, 3), (1, 1, 1, 1, 1), (5, 2)])
def test_concat(widths):
    xs = [np.random.default_rng(n).standard_normal((2, n, 3)) for n in widths]
    np.testing.assert_array_equal(run("concat", *xs, axis=-2), np.concatenate(xs, 1))


def test_hundreds_of_inputs_make_a_shallow_tree():
    xs = [np.full((1,), n, np.int32) for n in range(1000)]
    np.testing.assert_array_equal(run("concat", *xs, axis=0), np.arange(1000, dtype=np.int32))
    tensors = [placeholder((1,), "int32", name=f"x{n}") for n in range(1000)]
    (joined,) = instantiate("concat", tensors, axis=0).outputs
    depths = {}
    for node in walk(joined.operation.values[0]):
        depths[id(node)] = 1 + max((depths[id(c)] for c in node.children), default=0)
    assert max(depths.values()) < 20
    loads = sum(isinstance(n, Load) for n in walk(joined.operation.values[0]))
    assert loads == 1000


def test_concat_of_symbolic_sizes():
    n, m = var("n"), var("m")
    xs = [placeholder((s, 2), name=f"x{k}") for k, s in enumerate((n, m, 3, n))]
    arrays = [np.full((s, 2), s, np.float32) for s in (4, 5, 3, 4)]
    (result,) = interpret(instantiate("concat", xs, axis=0), arrays)
    np.testing.assert_array_equal(result, np.concatenate(arrays))


# ---- pad -----------------------------------------------------------------------------------------

PADS = [
    ((0, 0, 0), (0, 0, 0)),
    ((1, 0, 2), (0, 2, 1)),
    ((1, 2, 4), (1, 2, 4)),
    ((3, 7, 9), (0, 5, 11)),
]


@pytest.mark.parametrize("before, after", PADS)
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pad(before, after, mode):
    widths = list(zip(before, after, strict=True))
    result = run("pad", X, None, before=before, after=after, mode=mode)
    np.testing.assert_array_equal(result, np.pad(X, widths, mode=mode))


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
@pytest.mark.parametrize("before, after", list(itertools.product([0, 1, 5], repeat=2)))
def test_pad_around_one_element(before, after, mode):
    x = np.array([7.0])
    result = run("pad", x, None, before=(before,), after=(after,), mode=mode)
    np.testing.assert_array_equal(result, np.full(1 + before + after, 7.0))


def test_pad_with_a_value_and_in_an_empty_dimension():
    x = np.zeros((0, 2), np.int8)
    result = run("pad", x, np.array([5], np.int8), before=(1, 0), after=(1, 1))
    np.testing.assert_array_equal(result, np.full((2, 3), 5, np.int8))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_negative_pads_remove(mode):
    result = run("pad", X, None, before=(0, -1, 2), after=(0, 1, -2), mode=mode)
    expected = np.pad(X[:, 1:, :-2], [(0, 0), (0, 1), (2, 0)], mode=mode)
    np.testing.assert_array_equal(result, expected)


def test_pad_of_symbolic_sizes():
    n = var("n")
    x = placeholder((n,), name="x")
    data = np.arange(5, dtype=np.float32)
    for mode in ("constant", "edge", "reflect"):
        program = instantiate("pad", [x, None], before=(2,), after=(3,), mode=mode)
        (result,) = interpret(program, [data])
        np.testing.assert_array_equal(result, np.pad(data, (2, 3), mode=mode))


def test_pads_of_many_dimensions_do_not_multiply():
    x = placeholder((2,) * 12, name="x")
    (padded,) = instantiate(
        "pad", [x, None], before=(1,) * 12, after=(1,) * 12, mode="edge"
    ).outputs
    assert sum(1 for _ in walk(padded.operation.values[0])) < 500


# ---- triangles and sequences ---------------------------------------------------------------------


@pytest.mark.parametrize("k", [-9, -1, 0, 2, 2**62])
@pytest.mark.parametrize("upper", [True, False])
def test_trilu(k, upper):
    expected = np.triu(X, min(k, 99)) if upper else np.tril(X, min(k, 99))
    np.testing.assert_array_equal(run("trilu", X, k=k, upper=upper), expected)


@pytest.mark.parametrize("time_axis, batch_axis", [(0, 1), (1, 0), (2, 0), (-1, 1)])
def test_reverse_sequence(time_axis, batch_axis):
    lengths = np.arange(X.shape[batch_axis]) % (X.shape[time_axis] + 1)
    expected = X.copy()
    for b, length in enumerate(lengths):
        part = np.moveaxis(expected, (batch_axis, time_axis), (0, 1))[b]
        part[:length] = part[:length][::-1].copy()
    result = run("reverse_sequence", X, lengths, time_axis=time_axis, batch_axis=batch_axis)
    np.testing.assert_array_equal(result, expected)
