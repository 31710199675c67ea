"""The larger models are the published ones."""

import math
from collections import Counter

import pytest

from weft.benchmarks.model_builders import MODELS

PARAMETERS = {
    "resnet50": 25_557_032,  # torchvision's own count
    "bert_base": 109_482_240,  # transformers' own count of bert-base-uncased, the pooler included
}
OPERATORS = {
    "resnet50": {"Conv": 53, "BatchNormalization": 53, "Relu": 49, "MaxPool": 1, "Add": 16,
                 "GlobalAveragePool": 1, "Flatten": 1, "Gemm": 1},
    "bert_base": {"MatMul": 12 * 8 + 1, "Add": 12 * 10 + 3, "Reshape": 48, "Transpose": 48,
                  "Softmax": 12, "Div": 24, "Erf": 12, "Mul": 25, "LayerNormalization": 25,
                  "Gather": 4, "Tanh": 1, "Unsqueeze": 1, "Cast": 1, "Sub": 1},
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_parameters_and_operators_are_the_published_ones(name: str) -> None:
    graph = MODELS[name].build().graph
    trained = [t for t in graph.initializer if t.name.endswith((".weight", ".bias"))]
    assert sum(math.prod(t.dims) for t in trained) == PARAMETERS[name]
    assert Counter(node.op_type for node in graph.node) == OPERATORS[name]
    assert {i.name for i in graph.input} == set(MODELS[name].seeded_inputs(0))
