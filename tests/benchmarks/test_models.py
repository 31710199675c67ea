from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from weft.benchmarks import models
from weft.benchmarks.case import error_of
from weft.benchmarks.limits import Limits
from weft.benchmarks.row import Bench


def _model(batch: int | str = 2) -> onnx.ModelProto:
    """(batch, 3, 5, 5) -> a convolution of stride 2 to (batch, 4, 2, 2) -> (batch, 7)."""
    random = np.random.default_rng(0)
    weights = {"w": (4, 3, 3, 3), "v": (16, 7), "u": (7, 7)}
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], strides=[2, 2]),
            helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("Flatten", ["r"], ["f"]),
            helper.make_node("MatMul", ["f", "v"], ["m"]),
            helper.make_node("Gemm", ["m", "u"], ["y"], transB=1),
        ],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (batch, 3, 5, 5))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (batch, 7))],
        [
            numpy_helper.from_array(random.standard_normal(s, np.float32), n)
            for n, s in weights.items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


X = np.random.default_rng(1).standard_normal((2, 3, 5, 5), np.float32)


def test_operations_are_those_of_products_and_convolutions() -> None:
    assert models.operations(_model()) == 2 * (2 * 4 * 2 * 2 * 27 + 2 * 16 * 7 + 2 * 7 * 7)


def test_a_model_is_a_row_with_calls_from_python() -> None:
    case = models.case("small", _model(), {"x": X}, 1, quick=True)
    (reference,) = ReferenceEvaluator(case.model).run(None, {"x": X})
    assert error_of(case.expected()[0], reference) < 1e-5
    row = Bench(1, 0.01, (), Limits(1)).row(case, models.loop_of)
    assert row["right"] and row["weft_ms"] > 0 and row["facts"] == {}


@pytest.mark.long
def test_what_a_process_of_its_own_costs() -> None:
    found = models.costs(_model(), {"x": X}, 1)
    assert found["compile_cached_s"] > 0 and found["compile_s"] > 0
    assert found["compile_peak_mib"] > 20 and found["run_peak_mib"] > 20


def test_files_with_open_sizes_run_and_are_not_saved(tmp_path: Path) -> None:
    path = tmp_path / "small.onnx"
    onnx.save(_model("n"), path)
    (planned,) = models.cases(1, quick=False, files=[path])
    case = planned.build()
    assert planned.name == case.name == "small"
    assert case.inputs["x"].shape == (1, 3, 5, 5) and case.facts() == {}


def test_cases_are_the_embedded_models_unless_others_are_named() -> None:
    names = [planned.name for planned in models.cases(1, quick=True)]
    assert names == ["resnet18", "mobilenetv2", "minilm"]
    built = [planned.name for planned in models.cases(1, quick=True, built=["bert", "resnet50"])]
    assert built == ["bert", "resnet50"]


@pytest.mark.parametrize("name", models.ARCHITECTURES)
def test_inputs_of_architectures(name: str) -> None:
    inputs = models.seeded_inputs(name, 0)
    for port, array in inputs.items():
        if port == "attention_mask":
            assert (array == 1).all()
        elif port == "input_ids":
            assert array.dtype == np.int64 and 0 <= array.min() <= array.max() < 1000
        else:
            assert array.shape == (1, 3, 224, 224) and array.dtype == np.float32
