"""A matrix product as the peers see it: the two arrays of a case that is nothing else."""

from __future__ import annotations

import numpy as np
from onnx import helper, numpy_helper

from weft.benchmarks.case import Case

_PRODUCTS = ("MatMul", "Gemm", "MatMulInteger")


def operands(case: Case) -> tuple[np.ndarray, np.ndarray] | None:
    """Both sides as they are multiplied, transposed ones as views; None: it is no product."""
    graph = case.model.graph
    if len(graph.node) != 1 or graph.node[0].op_type not in _PRODUCTS:
        return None
    node = graph.node[0]
    flags = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    values = {t.name: numpy_helper.to_array(t) for t in graph.initializer} | dict(case.inputs)
    a, b = (values[name] for name in node.input[:2])
    return (a.T if flags.get("transA") else a), (b.T if flags.get("transB") else b)


def is_constant(case: Case) -> bool:
    """Whether the right side is known beforehand, so that it may be packed."""
    return case.model.graph.node[0].input[1] in {t.name for t in case.model.graph.initializer}
