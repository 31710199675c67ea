"""Check what a caller gives an ONNX model against what the model declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

from weft.errors import CallError
from weft.frontend.onnx.onnx_graph import Port, Region
from weft.frontend.onnx.tensors import dtype_of

Data = Any  # an array, or on the host a list (a sequence) or None (an empty optional)


def checked_inputs(region: Region, inputs: Mapping[str, Data]) -> dict[str, Data]:
    """``inputs`` as arrays, lists and None in the region's order.

    Raises ``CallError`` for a missing, unknown or ill-typed input; it lists what is valid.
    """
    ports = {port.name: port for port in region.inputs}
    required = [name for name in ports if name not in region.constants]
    valid = "inputs are " + ", ".join(f"{n!r}: {describe(ports[n])}" for n in ports)
    for name in inputs:
        if name not in ports:
            raise CallError("WEFT-E0601", f"the model has no input {name!r}", hint=valid)
    for name in required:
        if name not in inputs and not _is_optional(ports[name]):
            raise CallError("WEFT-E0601", f"input {name!r} is missing", hint=valid)
    sizes: dict[str, tuple[int, str]] = {}
    return {
        name: _checked(port, inputs.get(name), sizes, valid)
        for name, port in ports.items()
        if name in inputs or name not in region.constants
    }


def describe(port: Port) -> str:
    """The declared type for people: ``float32[2, n]``."""
    if port.type is None:
        return "any"
    kind = port.type.WhichOneof("value")
    if kind != "tensor_type":
        return str(kind or "any").removesuffix("_type")
    tensor = port.type.tensor_type
    is_text = tensor.elem_type == onnx.TensorProto.STRING
    name = "string" if is_text else dtype_of(tensor.elem_type).name
    if not tensor.HasField("shape"):
        return name
    sizes = (
        str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?"
        for d in tensor.shape.dim
    )
    return f"{name}[{', '.join(sizes)}]"


def _is_optional(port: Port) -> bool:
    return port.type is not None and port.type.HasField("optional_type")


def _checked(port: Port, data: Data, sizes: dict[str, tuple[int, str]], valid: str) -> Data:
    kind = None if port.type is None else port.type.WhichOneof("value")
    if kind not in (None, "tensor_type"):
        return data
    if isinstance(data, list) and any(isinstance(item, np.ndarray) for item in data):
        raise CallError("WEFT-E0603", f"input {port.name!r} is a sequence", hint=valid)
    array = np.asarray(data)
    if port.type is None or kind is None:
        return array
    tensor = port.type.tensor_type
    if tensor.elem_type == onnx.TensorProto.STRING:
        if array.dtype.kind == "S":
            array = np.char.decode(array, "utf-8", "replace")
        texts = array.astype(object)
        if array.dtype.kind not in "OU" or not all(isinstance(text, str) for text in texts.flat):
            raise CallError("WEFT-E0603", f"input {port.name!r} takes strings", hint=valid)
        return texts
    expected = dtype_of(tensor.elem_type)
    if array.dtype != expected.numpy:
        given = array.dtype.name
        what = f"input {port.name!r} is {given}, the model takes {expected}"
        raise CallError("WEFT-E0603", what, hint=valid)
    if tensor.HasField("shape"):
        _check_shape(port.name, array.shape, tensor.shape.dim, sizes, valid)
    return array


def _check_shape(
    name: str, shape: tuple[int, ...], dims: Any, sizes: dict[str, tuple[int, str]], valid: str
) -> None:
    if len(shape) != len(dims):
        what = f"input {name!r} has {len(shape)} dimensions, the model takes {len(dims)}"
        raise CallError("WEFT-E0604", what, hint=valid)
    for axis, (size, dim) in enumerate(zip(shape, dims, strict=True)):
        if dim.HasField("dim_value"):
            expected, why = dim.dim_value, "the model fixes it"
        elif dim.dim_param:
            expected, first = sizes.setdefault(dim.dim_param, (size, name))
            why = f"{dim.dim_param} = {expected} in input {first!r}"
        else:
            continue
        if size != expected:
            what = f"input {name!r} has size {size} in dimension {axis}, expected {expected}"
            raise CallError("WEFT-E0605", what, why=why, hint=valid)
