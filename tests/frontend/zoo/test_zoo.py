"""The embedded models are the published ones, and behave like trained networks in onnxruntime."""

import math
from collections import Counter
from functools import cache

import numpy as np
import onnx
import pytest

from weft.frontend.zoo.registry import MODELS

PARAMETERS = {
    "resnet18": 11_689_512,  # torchvision's own count
    "mobilenetv2": 3_504_872,  # torchvision's own count
    "minilm": 22_713_216,  # sentence-transformers/all-MiniLM-L6-v2, the pooler included
}
OPERATORS = {
    "resnet18": {"Conv": 20, "BatchNormalization": 20, "Relu": 17, "MaxPool": 1, "Add": 8,
                 "GlobalAveragePool": 1, "Flatten": 1, "Gemm": 1},
    "mobilenetv2": {"Conv": 52, "BatchNormalization": 52, "Clip": 35, "Add": 10,
                    "GlobalAveragePool": 1, "Flatten": 1, "Gemm": 1},
    # A layer adds 6 biases, its mask, 2 residuals and the 1 of GELU.
    "minilm": {"MatMul": 6 * 8 + 1, "Add": 6 * 10 + 3, "Reshape": 24, "Transpose": 24, "Softmax": 6,
               "Div": 12, "Erf": 6, "Mul": 13, "LayerNormalization": 13, "Gather": 4, "Tanh": 1,
               "Unsqueeze": 1, "Cast": 1, "Sub": 1},
}  # fmt: skip
MACS = {"resnet18": 1.814e9, "mobilenetv2": 0.301e9}  # as published, convolutions and Gemm


@cache
def model(name):
    return MODELS[name].build()


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_models_are_valid_and_reproducible(name):
    onnx.checker.check_model(model(name), full_check=True)
    again = MODELS[name].build()
    assert again.SerializeToString(deterministic=True) == model(name).SerializeToString(
        deterministic=True
    )


@pytest.mark.parametrize("name", MODELS)
def test_parameters_and_operators_are_the_published_ones(name):
    trained = [t for t in model(name).graph.initializer if t.name.endswith((".weight", ".bias"))]
    assert sum(math.prod(t.dims) for t in trained) == PARAMETERS[name]
    assert Counter(node.op_type for node in model(name).graph.node) == OPERATORS[name]


@pytest.mark.parametrize("name", MACS)
def test_work_is_the_published_one(name):
    inferred = onnx.shape_inference.infer_shapes(model(name)).graph
    ports = (*inferred.value_info, *inferred.output)
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in ports}
    weights = {t.name: t.dims for t in inferred.initializer}
    work = 0
    for node in inferred.node:
        if node.op_type in ("Conv", "Gemm"):
            work += math.prod(shapes[node.output[0]]) * math.prod(weights[node.input[1]][1:])
    assert work == pytest.approx(MACS[name], rel=0.005)


@pytest.mark.parametrize("name", MODELS)
def test_seeds_give_different_inputs_of_the_declared_types(name):
    one, two = (MODELS[name].seeded_inputs(seed) for seed in (1, 2))
    declared = {v.name: v.type.tensor_type for v in model(name).graph.input}
    assert list(one) == list(declared)
    for key, port in declared.items():
        assert one[key].shape == tuple(d.dim_value for d in port.shape.dim)
        assert one[key].dtype == onnx.helper.tensor_dtype_to_np_dtype(port.elem_type)
        np.testing.assert_array_equal(one[key], MODELS[name].seeded_inputs(1)[key])
    assert any((one[key] != two[key]).any() for key in one)


@pytest.mark.parametrize("name", MODELS)
def test_activations_neither_vanish_nor_explode(name):
    onnxruntime = pytest.importorskip("onnxruntime")
    probed = onnx.ModelProto()
    probed.CopyFrom(model(name))
    every = [n.output[0] for n in probed.graph.node if n.op_type in _PROBED]
    known = {v.name for v in probed.graph.output}
    probed.graph.output.extend(onnx.ValueInfoProto(name=v) for v in every if v not in known)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(probed.SerializeToString(), options)
    runs = [session.run(None, MODELS[name].seeded_inputs(seed)) for seed in (0, 1)]
    for output, first, second in zip(session.get_outputs(), *runs, strict=True):
        assert np.isfinite(first).all(), output.name
        assert 0.2 < first.std() < 5, output.name
        assert np.abs(first - second).mean() > 0.02 * first.std(), output.name


_PROBED = ("Conv", "BatchNormalization", "Relu", "Clip", "LayerNormalization", "Gemm", "Tanh")
