"""ONNX's own node tests, run through import and the interpreter of tensor expressions.

Every handler and definition of an operator is driven by ``check_case`` with the data and the
tolerance that the official runner uses; nothing is scheduled or compiled.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence

import numpy as np
import onnx
import onnx.numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from weft.frontend.onnx.importer import import_model
from weft.frontend.tensor_interpreter import interpret
from weft.frontend.tensor_verifier import verify
from weft.graph.operator_graph import Graph


@functools.cache
def node_cases() -> tuple[TestCase, ...]:
    """All node tests of the installed onnx, with seeded data."""
    state = np.random.get_state()
    np.random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = tuple(load_model_tests(kind="node"))
    np.random.set_state(state)
    return cases


def cases_of(*op_types: str) -> list[TestCase]:
    """The tests of one node of ``op_types``; those of expanded function bodies are left out."""
    found = [
        case
        for case in node_cases()
        if len(case.model.graph.node) == 1 and case.model.graph.node[0].op_type in op_types
    ]
    assert found, f"no node test of {op_types}"
    return found


def check_case(case: TestCase) -> None:
    """Import, interpret and compare with the expected outputs as the official runner does."""
    for data in case.data_sets or ():
        inputs, expected = ([_array(item) for item in items] for items in data)
        graph = imported(case.model, inputs)
        arrays = dict(zip((v.name for v in case.model.graph.input), inputs, strict=True))
        given = {value.name: arrays[value.name] for value in graph.inputs}
        Runner.assert_similar_outputs(expected, evaluate(graph, given), case.rtol, case.atol)


def _array(item: object) -> np.ndarray:
    """Data of types that NumPy lacks comes as protobuf."""
    if isinstance(item, onnx.TensorProto):
        return onnx.numpy_helper.to_array(item)
    return np.asarray(item)


def imported(model: onnx.ModelProto, inputs: Sequence[np.ndarray]) -> Graph:
    """The graph of ``model``; its inputs are bound where import needs to know them."""
    names = [value.name for value in model.graph.input]
    arrays = {name: np.asarray(x) for name, x in zip(names, inputs, strict=True)}
    return import_model(
        model,
        shapes={name: x.shape for name, x in arrays.items()},
        known={name: x for name, x in arrays.items() if x.dtype == np.int64 and x.ndim <= 1}
        | {name: x for name, x in arrays.items() if name in ("roi", "scales", "output_shape")},
    )


def evaluate(graph: Graph, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of ``graph``, node by node, each verified before."""
    values = {name: np.asarray(x) for name, x in (*inputs.items(), *graph.constants.items())}
    for node in graph.nodes:
        verify(node.program)
        results = interpret(node.program, [values[v.name] for v in node.inputs])
        for value, result in zip(node.outputs, results, strict=True):
            assert result.shape == value.shape and result.dtype == value.dtype.numpy
            values[value.name] = result
    return [values[value.name] for value in graph.outputs]
