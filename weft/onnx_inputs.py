"""Check what a caller gives an ONNX model against what the model declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from weft.arguments import as_array, imported
from weft.compiled import ArraySpec
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
    checker = _Checker(valid)
    return {
        name: checker.input(port, inputs.get(name))
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


@dataclass(slots=True)
class _Checker:
    """Checks one call's inputs; ``sizes`` remembers which size each ``dim_param`` has."""

    valid: str
    sizes: dict[str, tuple[int, str]] = field(default_factory=dict)

    def input(self, port: Port, data: Data) -> Data:
        type_ = port.type if port.type is not None else onnx.TypeProto()
        return self.value(f"input {port.name!r}", port.name, type_, data)

    def value(self, what: str, name: str, type_: onnx.TypeProto, data: Data) -> Data:
        """``data`` as host data of type ``type_``; ``what`` names it in errors."""
        match type_.WhichOneof("value"):
            case "optional_type":
                inner = type_.optional_type.elem_type
                return None if data is None else self.value(what, name, inner, data)
            case "sequence_type":
                if not isinstance(data, list | tuple):
                    raise self.error("WEFT-E0603", f"{what} takes a list")
                inner = type_.sequence_type.elem_type
                return [  # elements need not share their symbolic sizes
                    _Checker(self.valid).value(f"element {i} of {what}", name, inner, x)
                    for i, x in enumerate(data)
                ]
            case "tensor_type" if type_.tensor_type.elem_type == onnx.TensorProto.STRING:
                return self.strings(what, data)
            case "tensor_type":
                return self.tensor(what, name, type_.tensor_type, data)
            case None:
                return self.array(what, data)
        raise self.error("WEFT-E0603", f"{what} is of a type that Weft does not take")

    def strings(self, what: str, data: Data) -> np.ndarray:
        array = np.asarray(data)
        if array.dtype.kind == "S":
            array = np.char.decode(array, "utf-8", "replace")
        texts = array.astype(object)
        if array.dtype.kind not in "OU" or not all(isinstance(text, str) for text in texts.flat):
            raise self.error("WEFT-E0603", f"{what} takes strings")
        return texts

    def tensor(self, what: str, name: str, type_: onnx.TypeProto.Tensor, data: Data) -> np.ndarray:
        if isinstance(data, list) and any(isinstance(item, np.ndarray) for item in data):
            raise self.error("WEFT-E0603", f"{what} is a sequence, the model takes a tensor")
        expected = dtype_of(type_.elem_type)
        number = type(data) in (bool, int, float) and not type_.shape.dim
        spec = ArraySpec(name, expected, ())
        array = as_array(data, spec) if number else self.array(what, data)
        if array.dtype != expected.numpy:
            given = array.dtype.name
            raise self.error("WEFT-E0603", f"{what} is {given}, the model takes {expected}")
        if type_.HasField("shape"):
            self.shape(what, name, array.shape, type_.shape.dim)
        return array

    def array(self, what: str, data: Data) -> np.ndarray:
        return data if type(data) is np.ndarray else imported(data, what, self.valid)

    def shape(self, what: str, name: str, shape: tuple[int, ...], dims: Any) -> None:
        if len(shape) != len(dims):
            text = f"{what} has {len(shape)} dimensions, the model takes {len(dims)}"
            raise self.error("WEFT-E0604", text)
        for axis, (size, dim) in enumerate(zip(shape, dims, strict=True)):
            if dim.HasField("dim_value"):
                expected, why = dim.dim_value, "the model fixes it"
            elif dim.dim_param:
                expected, first = self.sizes.setdefault(dim.dim_param, (size, name))
                why = f"{dim.dim_param} = {expected} in input {first!r}"
            else:
                continue
            if size != expected:
                text = f"{what} has size {size} in dimension {axis}, expected {expected}"
                raise self.error("WEFT-E0605", text, why)

    def error(self, code: str, what: str, why: str = "") -> CallError:
        return CallError(code, what, why=why, hint=self.valid)
