"""Runs ONNX models through import and the tensor interpreter; nothing is compiled."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from weft.frontend.onnx.importer import import_model
from weft.frontend.onnx.node_context import NeedsValue
from weft.ir.tensor_interpreter import interpret


@functools.cache
def node_cases() -> dict[str, TestCase]:
    """The installed onnx's tests of single nodes by name, with seeded data."""
    state = np.random.get_state()
    np.random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    np.random.set_state(state)
    return {case.name: case for case in cases if len(case.model.graph.node) == 1}


def case_names(*op_types, without=()):
    """Names of the tests of ``op_types``; tests of whole sequences and of strings left out."""

    def of_tensors(case):
        ports = (*case.model.graph.input, *case.model.graph.output)
        kinds = {port.type.WhichOneof("value") for port in ports}
        types = {port.type.tensor_type.elem_type for port in ports}
        return kinds == {"tensor_type"} and TensorProto.STRING not in types

    found = [
        name
        for name, case in node_cases().items()
        if case.model.graph.node[0].op_type in op_types and of_tensors(case)
    ]
    assert {node_cases()[name].model.graph.node[0].op_type for name in found} == set(op_types)
    return [name for name in found if name not in without]


def check_case(name: str) -> None:
    """Compare with the test's own data as the official runner does."""
    case = node_cases()[name]
    for inputs, outputs in case.data_sets:
        results = run_model(case.model, [_array(item) for item in inputs])
        expected = [_array(item) for item in outputs]
        Runner.assert_similar_outputs(expected, results, rtol=case.rtol, atol=case.atol)


def _array(item):
    """Data of types that NumPy lacks comes as protobuf."""
    return onnx.numpy_helper.to_array(item) if isinstance(item, TensorProto) else np.asarray(item)


def run_model(model: onnx.ModelProto, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The outputs of ``model``; import starts again for every value that it needs."""
    feeds = {v.name: np.asarray(a) for v, a in zip(model.graph.input, inputs, strict=True)}
    shapes = {name: array.shape for name, array in feeds.items()}
    known: dict[str, np.ndarray] = {}
    while True:
        try:
            return run_graph(import_model(model, shapes=shapes, known=known), feeds)
        except NeedsValue as needs:
            (known[needs.name],) = run_graph(needs.graph, feeds)


def run_graph(graph, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    values = {**graph.constants, **feeds}
    for node in graph.nodes:
        results = interpret(node.program, [values[v.name] for v in node.inputs])
        for value, result in zip(node.outputs, results, strict=True):
            assert result.shape == value.shape and result.dtype == value.dtype.numpy
            values[value.name] = result
    return [values[value.name] for value in graph.outputs]


def one_node(op_type, inputs, *, opset=17, domain="", n_outputs=1, **attributes):
    """The outputs of one node; an input that is None is left out."""
    names = ["" if a is None else f"x{n}" for n, a in enumerate(inputs)]
    outputs = [f"y{n}" for n in range(n_outputs)]
    graph = helper.make_graph(
        [helper.make_node(op_type, names, outputs, name="it", domain=domain, **attributes)],
        "one",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in zip(names, inputs, strict=True)
            if a is not None
        ],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
    )
    opsets = [helper.make_opsetid(domain, opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return run_model(model, [a for a in inputs if a is not None])
