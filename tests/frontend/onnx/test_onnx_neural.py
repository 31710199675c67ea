"""Neural-network operators through their handlers: ONNX's tests, older opsets, bad nodes."""

import numpy as np
import pytest

from tests.frontend.onnx.run_onnx import case_names, check_case, one_node
from weft.ir.errors import ModelError

FAMILIES = (
    "Conv", "ConvTranspose", "DeformConv", "ConvInteger", "QLinearConv", "MatMul", "Gemm",
    "Einsum", "MatMulInteger", "QLinearMatMul", "MaxPool", "AveragePool", "LpPool",
    "GlobalMaxPool", "GlobalAveragePool", "MaxUnpool", "RoiAlign", "BatchNormalization",
    "LayerNormalization", "RMSNormalization", "InstanceNormalization", "GroupNormalization",
    "LpNormalization", "LRN", "MeanVarianceNormalization", "Softmax", "LogSoftmax", "Hardmax",
    "RNN", "GRU", "LSTM", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear",
    "SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss", "GridSample", "AffineGrid", "Upsample",
    "Resize", "Col2Im", "CenterCropPad", "Attention", "LinearAttention", "RotaryEmbedding",
    "Adam", "Adagrad", "Momentum",
)  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", case_names(*FAMILIES))
def test_onnx_suite(name):
    check_case(name)


rng = np.random.default_rng(0)


def test_softmax_flattened_before_opset_13():
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    (y,) = one_node("Softmax", [x], opset=11, axis=1)
    np.testing.assert_allclose(y.sum((1, 2)), 1, rtol=1e-6)
    (y,) = one_node("Softmax", [x], opset=13, axis=1)
    np.testing.assert_allclose(y.sum(1), 1, rtol=1e-6)


def test_batch_normalization_before_opset_14_trains_where_statistics_are_outputs():
    x, p = rng.standard_normal((3, 2, 4)).astype(np.float32), np.ones((4, 2), np.float32)
    (y,) = one_node("BatchNormalization", [x, *p], opset=9)
    np.testing.assert_allclose(y, (x - 1) / np.sqrt(1 + 1e-5) + 1, rtol=1e-5, atol=1e-6)
    results = one_node("BatchNormalization", [x, *p], opset=9, n_outputs=5)
    np.testing.assert_allclose(results[3], x.mean((0, 2)), atol=1e-6)
    np.testing.assert_allclose(results[0].mean((0, 2)), 1, atol=1e-6)


@pytest.mark.parametrize(("mode", "before"), [("SAME_UPPER", 1), ("SAME_LOWER", 2)])
def test_auto_pad(mode, before):
    x, w = rng.standard_normal((1, 1, 7)), rng.standard_normal((1, 1, 4))
    x, w = x.astype(np.float32), w.astype(np.float32)
    (y,) = one_node("Conv", [x, w], auto_pad=mode)
    (expected,) = one_node("Conv", [x, w], pads=[before, 3 - before])
    np.testing.assert_array_equal(y, expected)
    (y,) = one_node("Conv", [x, w], auto_pad="VALID")
    assert y.shape == (1, 1, 4)


def test_conv_transpose_to_an_output_shape():
    x, w = np.ones((1, 1, 3), np.float32), np.ones((1, 1, 3), np.float32)
    (y,) = one_node("ConvTranspose", [x, w], strides=[2], output_shape=[6])
    np.testing.assert_array_equal(y, [[[1, 2, 1, 2, 1, 1]]])
    (y,) = one_node("ConvTranspose", [x, w], strides=[2], output_shape=[6], auto_pad="SAME_UPPER")
    np.testing.assert_array_equal(y, [[[1, 1, 2, 1, 2, 1]]])


def test_resize_of_opset_10_is_asymmetric_and_rounds_down():
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 1, 4)
    scales = np.array([1, 1, 1, 1.5], np.float32)
    (y,) = one_node("Resize", [x, scales], opset=10)
    np.testing.assert_array_equal(y.ravel(), [0, 0, 1, 2, 2, 3])
    (y,) = one_node("Upsample", [x], opset=7, scales=[1.0, 1.0, 2.0, 2.0])
    np.testing.assert_array_equal(y, x.repeat(2, 2).repeat(2, 3))


def test_recurrent_activations_take_their_parameters_in_order():
    x, w, r = (rng.standard_normal(s).astype(np.float32) for s in ((3, 2, 4), (1, 5, 4), (1, 5, 5)))
    (y,) = one_node("RNN", [x, w, r], hidden_size=5, activations=["LeakyRelu"],
                    activation_alpha=[0.3])  # fmt: skip
    h = np.zeros((2, 5))
    for step in x:
        total = step @ w[0].T + h @ r[0].T
        h = np.where(total < 0, 0.3 * total, total)
    np.testing.assert_allclose(y[-1, 0], h, rtol=1e-5)


F = np.float32
BAD = {
    "zero stride": ("Conv", [F(np.ones((1, 1, 5))), F(np.ones((1, 1, 3)))], {"strides": [0]}),
    "group 0": ("Conv", [F(np.ones((1, 1, 5))), F(np.ones((1, 1, 3)))], {"group": 0}),
    "kernel_shape lies": (
        "Conv", [F(np.ones((1, 1, 5))), F(np.ones((1, 1, 3)))], {"kernel_shape": [2]},
    ),
    "negative kernel": ("MaxPool", [F(np.ones((1, 1, 5)))], {"kernel_shape": [-1]}),
    "no kernel": ("MaxPool", [F(np.ones((1, 1, 5)))], {}),
    "negative pads": ("MaxPool", [F(np.ones((1, 1, 5)))], {"kernel_shape": [1], "pads": [0, -1]}),
    "auto_pad": ("LpPool", [F(np.ones((1, 1, 5)))], {"kernel_shape": [1], "auto_pad": "SOME"}),
    "p = 0": ("LpPool", [F(np.ones((1, 1, 5)))], {"kernel_shape": [1], "p": 0}),
    "rank": ("GlobalAveragePool", [F(np.ones((1, 5)))], {}),
    "channels": ("Conv", [F(np.ones((1, 2, 5))), F(np.ones((1, 1, 3)))], {}),
    "kernel larger than input": ("Conv", [F(np.ones((1, 1, 5))), F(np.ones((1, 1, 9)))], {}),
    "inner sizes": ("MatMul", [F(np.ones((2, 3))), F(np.ones((4, 2)))], {}),
    "equation": ("Einsum", [F(np.ones((2, 3)))], {"equation": "ij->k"}),
    "axis": ("Softmax", [F(np.ones((2, 3)))], {"axis": 2}),
    "groups": ("GroupNormalization", [F(np.ones((1, 3, 2)))] + [F(np.ones(3))] * 2,
               {"num_groups": 2}),
    "direction": ("RNN", [F(np.ones(s)) for s in ((1, 1, 2), (1, 3, 2), (1, 3, 3))],
                  {"direction": "sideways", "hidden_size": 3}),
    "activation": ("RNN", [F(np.ones(s)) for s in ((1, 1, 2), (1, 3, 2), (1, 3, 3))],
                   {"activations": ["Jump"], "hidden_size": 3}),
    "scales": ("Resize", [F(np.ones((1, 1, 2, 2))), None, F([1, 1, 0, 2])], {}),
    "zero point": ("DequantizeLinear", [np.ones(3, np.uint8), F(1), np.int8(1)], {}),
    "block size": ("QuantizeLinear", [F(np.ones((2, 4))), F(np.ones((2, 3)))],
                   {"block_size": 2, "axis": 1}),
    "grid mode": ("GridSample", [F(np.ones((1, 1, 2, 2))), F(np.ones((1, 2, 2, 2)))],
                  {"mode": "quintic"}),
    "grid size": ("AffineGrid", [F(np.ones((1, 2, 3))), np.int64([1, 1, 4])], {}),
    "grid batch": ("AffineGrid", [F(np.ones((3, 2, 3))), np.int64([2, 1, 4, 4])], {}),
    "col2im blocks": ("Col2Im", [F(np.ones((1, 5, 4))), np.int64([3, 3]), np.int64([2, 2])], {}),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_malformed_nodes_are_refused(what):
    op_type, inputs, attributes = BAD[what]
    with pytest.raises(ModelError) as caught:
        one_node(op_type, inputs, opset=21, **attributes)
    assert caught.value.where == f"node 'it' ({op_type})"


@pytest.mark.parametrize("size", [(1, 1, 3, 4), (2, 3, 2, 3, 4), (2, 3, 0, 4)])
def test_one_map_and_empty_grids(size):
    """Where the standard's own definition of AffineGrid goes wrong, without ``align_corners``."""
    theta = rng.standard_normal((size[0], len(size) - 2, len(size) - 1)).astype(np.float32)
    (y,) = one_node("AffineGrid", [theta, np.int64(size)], opset=20)
    places = [np.arange(1 - s, s, 2) / max(s, 1) for s in size[2:]]
    every = np.stack([*np.meshgrid(*places, indexing="ij")[::-1], np.ones(size[2:])], -1)
    np.testing.assert_allclose(y, np.einsum("nij,...j->n...i", theta, every), atol=1e-5)


def test_a_default_is_the_float32_that_the_standard_has():
    x = np.array([-1.0, 2.0])
    (y,) = one_node("LeakyRelu", [x])
    np.testing.assert_array_equal(y, [-float(np.float32(0.01)), 2.0])
    (same,) = one_node("LeakyRelu", [x], alpha=0.01)
    np.testing.assert_array_equal(y, same)


def test_col2im_of_flags_is_whether_any_is_set():
    x = rng.random((2, 4, 12)) < 0.3
    feeds = [np.int64([4, 5]), np.int64([2, 2])]
    (y,) = one_node("Col2Im", [x, *feeds], opset=18)
    (counts,) = one_node("Col2Im", [x.astype(np.int32), *feeds], opset=18)
    assert y.dtype == bool and counts.max() > 1
    np.testing.assert_array_equal(y, counts > 0)
