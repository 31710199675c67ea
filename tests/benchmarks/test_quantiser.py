from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

pytest.importorskip("onnxruntime", reason="pip install 'weft[peers]'")

from weft.benchmarks import quantiser

PRODUCTS = {"QDQ": "DequantizeLinear", "QOperator": "QLinearConv", "dynamic": "ConvInteger"}


def _model() -> onnx.ModelProto:
    weight = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 3, 5, 5))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 4, 3, 3))],
        [numpy_helper.from_array(weight, "w")],
    )
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)


@pytest.mark.parametrize("how", quantiser.FORMATS)
def test_a_format_is_what_it_says(how: str) -> None:
    samples = [{"x": np.random.default_rng(k).random((2, 3, 5, 5), np.float32)} for k in range(2)]
    operators = {node.op_type for node in quantiser.quantised(_model(), how, samples).graph.node}
    assert PRODUCTS[how] in operators


def test_every_network_is_there_in_every_format() -> None:
    names = [planned.name for planned in quantiser.cases(threads=1, quick=False)]
    assert len(set(names)) == len(quantiser.NETWORKS) * len(quantiser.FORMATS)
    assert {planned.name for planned in quantiser.cases(threads=1, quick=True)} < set(names)
