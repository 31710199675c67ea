"""Data movement, indexing and set-like handlers: ONNX's own node tests, old opsets, bad nodes."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.frontend.onnx.run_onnx import case_names, check_case, one_node
from weft.frontend.onnx.importer import import_model
from weft.ir.errors import BudgetError, WeftError
from weft.ir.tensor_interpreter import interpret

# The expected imaginary parts are the rounding errors of NumPy's complex64 FFT, up to 1.9e-7 where
# the exact answer is 0, against a tolerance of 1e-7.
NOISE = ("test_dft_inverse", "test_dft_inverse_opset19")


@pytest.mark.parametrize(
    "name",
    case_names(
        "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Shape", "Size", "Expand", "Tile",
        "Transpose", "Identity", "ConstantOfShape", "Constant", "EyeLike", "Range", "Slice",
        "Split", "Concat", "Pad", "Compress", "Trilu", "ReverseSequence", "CenterCropPad",
        "Gather", "GatherElements", "GatherND", "OneHot", "ScatterElements", "Scatter",
        "ScatterND", "TensorScatter", "TopK", "Unique", "NonZero", "NonMaxSuppression", "DFT",
        "STFT", "DepthToSpace", "SpaceToDepth", "TfIdfVectorizer", without=NOISE,
    ),
)  # fmt: skip
def test_onnx_node_suite(name):
    check_case(name)


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def ints(*values):
    return np.array(values, np.int64)


# ---- attributes that became inputs ---------------------------------------------------------------


def test_attributes_of_old_opsets():
    (y,) = one_node("Reshape", [X], opset=1, shape=[4, -1])
    np.testing.assert_array_equal(y, X.reshape(4, 6))
    (y,) = one_node("Unsqueeze", [X], opset=11, axes=[-1, 0])
    assert y.shape == (1, 2, 3, 4, 1)
    (y,) = one_node("Squeeze", [X[:1]], opset=11, axes=[0])
    np.testing.assert_array_equal(y, X[0])
    (y,) = one_node("Slice", [X], opset=1, starts=[1, -3], ends=[1000, -1], axes=[1, 2])
    np.testing.assert_array_equal(y, X[:, 1:1000, -3:-1])
    (y,) = one_node("Pad", [X], opset=1, paddings=[0, 1, 0, 0, 0, 2], value=7.0)
    np.testing.assert_array_equal(y, np.pad(X, [(0, 0), (1, 0), (0, 2)], constant_values=7))
    (y,) = one_node("Tile", [X, ints(3), ints(1)], opset=1)
    np.testing.assert_array_equal(y, np.tile(X, (1, 3, 1)))
    values, indices = one_node("TopK", [X], opset=1, n_outputs=2, k=2)
    np.testing.assert_array_equal(values, X[..., :1:-1])
    np.testing.assert_array_equal(indices, np.broadcast_to([3, 2], (2, 3, 2)))
    parts = one_node("Split", [X], opset=2, n_outputs=2, axis=-1, split=[1, 3])
    for part, expected in zip(parts, np.split(X, [1], -1), strict=True):
        np.testing.assert_array_equal(part, expected)
    (y,) = one_node("Concat", [X, X], opset=1)
    np.testing.assert_array_equal(y, np.concatenate([X, X], 1))


def test_a_sparse_constant_is_dense():
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.array([2.0, 3.0], np.float32), "v"),
        numpy_helper.from_array(ints(1, 5), "i"),
        [2, 3],
    )
    (y,) = one_node("Constant", [], sparse_value=sparse)
    np.testing.assert_array_equal(y, np.array([[0, 2, 0], [0, 0, 3]], np.float32))


@pytest.mark.parametrize("given", [{"value_int": 3}, {"value_ints": [1, 2]}, {"value_float": 1.5}])
def test_constants_of_numbers(given):
    (y,) = one_node("Constant", [], **given)
    ((name, value),) = given.items()
    np.testing.assert_array_equal(y, np.array(value))
    assert y.dtype == (np.int64 if "int" in name else np.float32)


# ---- slices, ranges, pads ------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("size", [0, 1, 5])
@pytest.mark.parametrize("step", [-7, -2, -1, 1, 3])
@pytest.mark.parametrize("start", [-(2**63), -6, -1, 0, 4, 2**63 - 1])
def test_slices_clamp_as_onnx_says(size, start, step):
    """Not as Python does: backwards, a start before the first element is the first element."""
    x = np.arange(size, dtype=np.float32)
    for end in (-(2**63), -6, -2, 0, 3, 2**63 - 1):
        feeds = [ints(start), ints(end), ints(0), ints(step)]
        (y,) = one_node("Slice", [x, *feeds])
        np.testing.assert_array_equal(y, sliced(x, start, end, step))
        open_size = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])]
        nodes = [helper.make_node("Slice", ["x", "b", "e", "a", "s"], ["y"])]
        outputs = [helper.make_empty_tensor_value_info("y")]
        fixed = [numpy_helper.from_array(f, n) for f, n in zip(feeds, "beas", strict=True)]
        graph = import_model(
            helper.make_model(helper.make_graph(nodes, "g", open_size, outputs, fixed))
        )
        values = {**graph.constants, "x": x}
        for n in graph.nodes:
            (values[n.outputs[0].name],) = interpret(
                n.program, [values[v.name] for v in n.inputs], {"n": size}
            )
        np.testing.assert_array_equal(values["y"], sliced(x, start, end, step))


def sliced(x, start, end, step):
    """The standard's words on Slice, of one dimension."""
    n = len(x)
    start, end = (bound + n if bound < 0 else bound for bound in (start, end))
    least, most = (0, n) if step > 0 else (-1, n - 1)
    start = min(max(start, 0), most)
    return x[list(range(start, min(max(end, least), most), step))]


@pytest.mark.parametrize("start, limit, step", [(0, 10, 3), (5, 5, 1), (3, -4, -2), (2, 9, -1)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
def test_ranges(start, limit, step, dtype):
    given = [np.array(v, dtype) for v in (start, limit, step)]
    (y,) = one_node("Range", given)
    np.testing.assert_array_equal(y, np.arange(start, limit, step, dtype))


def test_a_range_at_the_end_of_int64():
    given = [np.array(v, np.int64) for v in (2**63 - 4, 2**63 - 1, 2)]
    (y,) = one_node("Range", given)
    np.testing.assert_array_equal(y, ints(2**63 - 4, 2**63 - 2))


# ---- sizes that depend on data -------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 0, 2), (3, 5)])
def test_nonzero(shape):
    x = np.random.default_rng(0).integers(0, 2, shape).astype(np.float32)
    (y,) = one_node("NonZero", [x])
    expected = np.array(np.nonzero(np.atleast_1d(x)))
    np.testing.assert_array_equal(y, expected if shape else np.zeros((0, expected.shape[1])))


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_compress(axis):
    chosen = np.array([False, True, True] if axis != 0 else [True, False])
    (y,) = one_node("Compress", [X, chosen], **({} if axis is None else {"axis": axis}))
    np.testing.assert_array_equal(y, np.compress(chosen, X, axis))


def test_compress_to_nothing():
    (y,) = one_node("Compress", [X, np.zeros(2, bool)], axis=0)
    assert y.shape == (0, 3, 4)


@pytest.mark.parametrize("size", [0, 1, 2, 31])
@pytest.mark.parametrize("sorted_", [0, 1])
def test_unique(size, sorted_):
    x = np.random.default_rng(size).integers(-4, 4, size).astype(np.int32)
    y, indices, inverse, counts = one_node("Unique", [x], n_outputs=4, sorted=sorted_)
    values, first, back, number = np.unique(x, True, True, True)
    order = slice(None) if sorted_ else np.argsort(first)
    np.testing.assert_array_equal(y, values[order])
    np.testing.assert_array_equal(indices, first[order])
    np.testing.assert_array_equal(counts, number[order])
    np.testing.assert_array_equal(y[inverse], x)
    assert back.shape == inverse.shape


# ---- bad nodes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "op_type, inputs, attributes, message",
    [
        ("Reshape", [X, ints(5, 5)], {}, "different numbers of elements"),
        ("Reshape", [X, ints(-1, -1)], {}, "more than one -1"),
        ("Reshape", [X, ints(-1, 7)], {}, "does not divide"),
        ("Reshape", [X, ints(1, 2, 3, 0)], {}, "copies a missing size"),
        ("Reshape", [X, ints(-2, 3)], {}, "below -1"),
        ("Flatten", [X], {"axis": 4}, "axis 4"),
        ("Squeeze", [X, ints(1)], {}, "size 3, not 1"),
        ("Unsqueeze", [X, ints(0, 0)], {}, "twice"),
        ("Unsqueeze", [X, ints(9)], {}, "axis 9"),
        ("Transpose", [X], {"perm": [0, 1, 1]}, "twice"),
        ("Transpose", [X], {"perm": [0, 1]}, "perm"),
        ("DepthToSpace", [X[None]], {"blocksize": 3}, "does not divide"),
        ("SpaceToDepth", [X[None]], {"blocksize": 0}, "blocks of 0"),
        ("SpaceToDepth", [X], {"blocksize": 1}, "blocks of 1"),
        ("Expand", [X, ints(5, 4)], {}, "does not broadcast"),
        ("Expand", [X, ints(-1)], {}, "negative size"),
        ("Tile", [X, ints(1, 2)], {}, "2 repeats for 3 dimensions"),
        ("Tile", [X, ints(1, 2, -1)], {}, "negative repeats"),
        ("ConstantOfShape", [ints(2, -3)], {}, "negative size"),
        ("EyeLike", [X], {}, "not 2"),
        ("Range", [ints(0), ints(5), ints(0)], {}, "steps of 0"),
        ("Slice", [X, ints(0), ints(1), ints(0), ints(0)], {}, "a step is 0"),
        ("Slice", [X, ints(0, 0), ints(1)], {}, "do not pair"),
        ("Slice", [X, ints(0), ints(1), ints(3)], {}, "axis 3"),
        ("Split", [X, ints(1, 2)], {"axis": 2}, "do not split"),
        ("Concat", [X, X[:, :2]], {"axis": 0}, "differ"),
        ("Concat", [X, X.astype(np.int32)], {"axis": 0}, "beside"),
        ("Pad", [X, ints(1, 2, 3)], {}, "3 pads"),
        ("Pad", [X, ints(*[1] * 6)], {"mode": "mirror"}, "unknown mode"),
        ("Pad", [X[:0], ints(*[1] * 6)], {"mode": "reflect"}, "empty dimension"),
        ("Trilu", [X[0, 0]], {}, "no triangle"),
        ("ReverseSequence", [X, ints(1, 2)], {"time_axis": 1}, "time_axis is batch_axis"),
        ("Gather", [X, ints(0)], {"axis": 3}, "axis 3"),
        ("GatherElements", [X, ints(0)], {}, "rank 1"),
        ("GatherND", [X, ints(0, 1, 2, 3)], {}, "into"),
        ("GatherND", [X, ints(0)], {"batch_dims": 2}, "batch_dims"),
        ("OneHot", [ints(1), ints(-2), X[0, 0, :2]], {}, "negative"),
        ("OneHot", [ints(1), ints(2), X[0, 0]], {}, "differ"),
        ("ScatterElements", [X, ints(0), X[0, 0, :1]], {}, "into"),
        ("ScatterElements", [X, np.zeros(X.shape, np.int64), X], {"reduction": "xor"}, "xor"),
        ("ScatterND", [X, ints(0), X], {}, "differ"),
        ("TopK", [X, ints(5)], {}, "k = 5"),
        ("TopK", [X, ints(-1)], {}, "k = -1"),
        ("NonMaxSuppression", [X, X], {}, "differ"),
        ("DFT", [X[..., :2], ints(0)], {}, "not positive"),
        ("DFT", [X], {}, "not 1 or 2"),
        ("STFT", [X[..., :1], ints(0)], {}, "step 0"),
    ],
)  # fmt: skip
def test_a_bad_node_is_refused_by_name(op_type, inputs, attributes, message):
    inputs = [i.reshape(()) if op_type in ("Range", "STFT") and i.size == 1 else i for i in inputs]
    with pytest.raises(WeftError, match=message) as caught:
        one_node(op_type, inputs, n_outputs=2 if op_type == "TopK" else 1, **attributes)
    assert "'it'" in caught.value.where and op_type in caught.value.where


def one_step_model(op_type, inputs):
    constants = [numpy_helper.from_array(data, name) for name, data in inputs.items()]
    node = helper.make_node(op_type, list(inputs), ["y"], name="bomb")
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([node], "bomb", [], outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize(
    "op_type, inputs",
    [
        ("ConstantOfShape", {"s": ints(2**20, 2**20)}),
        ("ConstantOfShape", {"s": ints(0, 2**40, 2**40)}),
        ("Expand", {"x": X[:1, :1, :1], "s": ints(2**40, 1, 1)}),
        ("Tile", {"x": X, "r": ints(2**20, 2**20, 2**20)}),
        ("Tile", {"x": X, "r": ints(2**62, 2**62, 1)}),
        ("Range", {"a": np.array(0.0), "b": np.array(1e300), "c": np.array(1e-300)}),
        ("Range", {"a": np.array(0), "b": np.array(2**62), "c": np.array(1)}),
        ("Pad", {"x": X, "p": ints(0, 0, 2**40, 0, 0, 0)}),
        ("OneHot", {"i": ints(0), "d": np.array(2**50), "v": X[0, 0, :2]}),
    ],
)
def test_a_memory_bomb_is_refused_before_it_allocates(op_type, inputs):
    model = one_step_model(op_type, inputs)
    with pytest.raises(BudgetError) as caught:
        import_model(model)
    assert caught.value.code == "WEFT-E0290"
