"""A node without a handler, replaced by the function with which the ONNX standard defines it."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import defs

from weft.frontend.onnx.onnx_graph import OnnxNode
from weft.frontend.onnx.read_model import inlined
from weft.frontend.onnx.tensors import element_type_of
from weft.ir.operator_graph import Value
from weft.ir.tensor_expr import constant_size


def depends_on_types(node: OnnxNode) -> bool:
    """Whether the standard defines ``node``'s operator by a function of its inputs' types."""
    schema = schema_of(node)
    return schema is not None and bool(schema.has_context_dependent_function)


def expand(node: OnnxNode, values: Sequence[Value | None]) -> list[OnnxNode] | None:
    """The nodes that define ``node`` for inputs of these types; None where there are none."""
    schema = schema_of(node)
    if schema is None or (node.bodies and node.proto is None):
        return None
    data = _definition(schema, node, values)
    if not data:
        return None
    function = onnx.FunctionProto()
    function.ParseFromString(data)
    return list(inlined(node, function))


def schema_of(node: OnnxNode) -> defs.OpSchema | None:
    """The standard's schema of the operator at the node's opset, None where there is none."""
    try:
        return defs.get_schema(node.op_type, max(node.opset, 1), node.domain)
    except defs.SchemaError:
        return None


def _definition(
    schema: defs.OpSchema, node: OnnxNode, values: Sequence[Value | None]
) -> bytes | None:
    data: bytes | None = None
    opset = node.opsets.get("", node.opset)  # definitions are written in the standard domain
    if schema.has_function:
        version = _newest(schema.function_opset_versions, opset)
        if version is not None:
            data = schema.get_function_with_opset_version(version)
    elif schema.has_context_dependent_function:
        version = _newest(schema.context_dependent_function_opset_versions, opset)
        if version is not None:
            data = schema.get_context_dependent_function_with_opset_version(
                version,
                _proto_of(node).SerializeToString(),
                [_type_of(v).SerializeToString() for v in values],
            )
    return data


def _newest(versions: Sequence[int], opset: int) -> int | None:
    return max((v for v in versions if v <= opset), default=None)


def _type_of(value: Value | None) -> onnx.TypeProto:
    if value is None:
        return onnx.TypeProto()
    shape = [constant_size(s) for s in value.shape]
    return onnx.helper.make_tensor_type_proto(element_type_of(value.dtype), shape)


def _proto_of(node: OnnxNode) -> onnx.NodeProto:
    """The node as ONNX writes it."""
    if node.proto is not None:
        return node.proto
    proto = onnx.NodeProto(
        op_type=node.op_type, domain=node.domain, input=node.inputs, output=node.outputs
    )
    for name, value in node.attributes.items():
        if hasattr(value, "dtype"):
            value = onnx.numpy_helper.from_array(value)
        proto.attribute.append(onnx.helper.make_attribute(name, value))
    return proto
