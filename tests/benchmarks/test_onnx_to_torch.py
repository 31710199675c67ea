"""Each translation beside onnx's own reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from weft.benchmarks.case import error_of, model_of
from weft.benchmarks.peers.onnx_to_torch import Unknown, module_of

torch = pytest.importorskip("torch")
RANDOM = np.random.default_rng(0)


def _random(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape, np.float32)


IMAGE, MATRIX = _random(2, 4, 6, 6), _random(5, 7)
CASES: dict[str, tuple[str, list[np.ndarray], list[np.ndarray], dict[str, Any]]] = {
    "conv": ("Conv", [IMAGE], [_random(6, 2, 3, 3), _random(6)],
             {"strides": [2, 2], "pads": [1, 1, 1, 1], "group": 2}),
    "max pool": ("MaxPool", [IMAGE], [], {"kernel_shape": [3, 3], "strides": [2, 2]}),
    "average": ("GlobalAveragePool", [IMAGE], [], {}),
    "batch norm": ("BatchNormalization", [IMAGE],
                   [_random(4), _random(4), _random(4), _random(4) ** 2], {"epsilon": 1e-3}),
    "gemm": ("Gemm", [_random(7, 5), _random(3, 7)], [_random(3)],
             {"transA": 1, "transB": 1, "alpha": 2.0, "beta": 0.5}),
    "clip": ("Clip", [MATRIX], [np.float32(-0.5), np.float32(0.25)], {}),
    "softmax": ("Softmax", [MATRIX], [], {"axis": 0}),
    "layer norm": ("LayerNormalization", [MATRIX], [_random(7), _random(7)], {"epsilon": 1e-3}),
    "gelu": ("Gelu", [MATRIX], [], {}),
    "gather": ("Gather", [MATRIX], [np.array([[1, 0], [2, 2]])], {"axis": 1}),
    "rows": ("Gather", [MATRIX], [np.array([[1, 0], [4, 2]])], {"axis": 0}),
    "transpose": ("Transpose", [IMAGE], [], {"perm": [0, 2, 3, 1]}),
    "reshape": ("Reshape", [IMAGE], [np.array([0, -1, 3])], {}),
    "unsqueeze": ("Unsqueeze", [MATRIX], [np.array([0, 2])], {}),
    "sum": ("ReduceSum", [IMAGE], [np.array([1, 3])], {"keepdims": 0}),
    "rnn": ("RNN", [_random(3, 2, 5)], [_random(1, 7, 5), _random(1, 7, 7), _random(1, 14)],
            {"hidden_size": 7}),
    "gru": ("GRU", [_random(3, 2, 5)], [_random(1, 21, 5), _random(1, 21, 7), _random(1, 42)],
            {"hidden_size": 7, "linear_before_reset": 1}),
    "lstm": ("LSTM", [_random(3, 2, 5)], [_random(1, 28, 5), _random(1, 28, 7), _random(1, 56)],
             {"hidden_size": 7}),
    "max": ("ReduceMax", [IMAGE], [np.array([2])], {"keepdims": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_module_computes_what_the_model_does(name: str) -> None:
    op, given, constants, attributes = CASES[name]
    values = {f"x{k}": array for k, array in enumerate([*given, *constants])}
    node = helper.make_node(op, list(values), ["y"], **attributes)
    held = list(values)[len(given) :]
    model, inputs = model_of([node], _floats(values), {"y": ((1,), np.float32)}, held)
    (expected,) = ReferenceEvaluator(model).run(None, dict(inputs))
    (found,) = module_of(torch, model)(*map(torch.from_numpy, inputs.values()))
    assert error_of(found.numpy(), expected) < 1e-5


def _floats(values: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.asarray(value) for name, value in values.items()}


def test_what_is_not_translated_says_so() -> None:
    node = helper.make_node("Hardmax", ["x"], ["y"])
    model, _ = model_of([node], {"x": MATRIX}, {"y": ((5, 7), np.float32)})
    with pytest.raises(Unknown, match="Hardmax"):
        module_of(torch, model)


def test_shapes_that_depend_on_data_are_refused() -> None:
    values = {"x": MATRIX, "s": MATRIX}
    model, _ = model_of(
        [helper.make_node("Reshape", ["x", "s"], ["y"])], values, {"y": ((1,), np.float32)}
    )
    with pytest.raises(Unknown, match="depends on data"):
        module_of(torch, model)
