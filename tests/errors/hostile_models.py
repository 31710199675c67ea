"""Small ONNX models for the tests of bad input: short to write, wrong in one place each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.end_to_end.onnx_suite import Interpreted
from weft.host.onnx_model import load_model
from weft.ir.errors import WeftError


def value(name: str, shape: Sequence[int | str] | None = (2, 3), type_: int = TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, type_, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    *,
    inputs: Sequence[onnx.ValueInfoProto] | None = None,
    outputs: Sequence[str] = ("y",),
    constants: Mapping[str, np.ndarray] | None = None,
    functions: Sequence[onnx.FunctionProto] = (),
    opset: int = 18,
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    """A model from its nodes; one float input ``x`` of shape (2, 3) unless told otherwise."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [value("x")] if inputs is None else list(inputs),
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=10)


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any):
    return helper.make_node(op, list(inputs), list(outputs), **attributes)


def initializer(**fields: object) -> onnx.ModelProto:
    tensor = onnx.TensorProto(name="w")
    for name, data in fields.items():
        if isinstance(data, list):
            getattr(tensor, name).extend(data)
        else:
            setattr(tensor, name, data)
    changed = model([node("Add", ["x", "w"], ["y"])])
    changed.graph.initializer.append(tensor)
    return changed


def outcome(source: Any, inputs: Mapping[str, Any] | None = None) -> str:
    """'fine', or the error as the user reads it; errors that are not Weft's own pass through."""
    try:
        loaded = load_model(source, Interpreted)
        if inputs is not None:
            loaded.run(inputs)
    except WeftError as error:
        return f"{type(error).__name__} {error}"
    return "fine"
