"""Give the open sizes of an ONNX model's inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx

from weft.frontend.onnx.importer import size_name
from weft.frontend.onnx.onnx_graph import Port, Region
from weft.frontend.onnx.tensors import dtype_of
from weft.ir.errors import CallError, ModelError
from weft.ir.scalar_affine import Range
from weft.runtime.arguments import as_array, imported
from weft.runtime.compiled import ArraySpec

Bounds = tuple[int, int | None]  # the least and the greatest, both included
Shapes = Mapping[str, Sequence[int | Bounds | None]]
"""Input name -> its sizes: numbers, ranges of open ones, None for what the model says."""


def with_shapes(region: Region, shapes: Shapes) -> tuple[Region, dict[str, Range]]:
    """``region`` with its inputs named in ``shapes`` declared to have these shapes, and the ranges
    of sizes that stay open, by name.

    A ``dim_param`` takes its size everywhere among the inputs. Raises ``ModelError`` (WEFT-E0013)
    for unknown inputs and for shapes that contradict the model or each other.
    """
    ranges: dict[str, Range] = {}
    if not shapes:
        return region, ranges
    if not isinstance(shapes, Mapping):
        raise _refusal(f"a {type(shapes).__name__} is given", 'as {"x": (1, 3, 224, 224)}')
    types = {port.name: _copied(port.type) for port in region.inputs}
    sizes: dict[str, int] = {}
    for name, shape in shapes.items():
        if name not in types:
            raise _refusal(f"there is no input {name!r}", f"inputs: {', '.join(types)}")
        if isinstance(shape, str) or not isinstance(shape, Sequence):
            raise _refusal(f"input {name!r} cannot have shape {shape!r}")
        _fix(name, types[name], tuple(shape), sizes, ranges)
    for type_ in types.values():
        for dim in type_.tensor_type.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
    if twice := sorted(sizes.keys() & ranges.keys()):
        raise _refusal(f"{twice[0]} has a range and is {sizes[twice[0]]}")
    ports = [p if p.type is None else Port(p.name, types[p.name]) for p in region.inputs]
    return replace(region, inputs=tuple(ports)), ranges


def _copied(type_: onnx.TypeProto | None) -> onnx.TypeProto:
    copy = onnx.TypeProto()
    if type_ is not None:
        copy.CopyFrom(type_)
    return copy


def _refusal(what: str, hint: str = "") -> ModelError:
    return ModelError("WEFT-E0013", f"shapes: {what}", hint=hint)


def _fix(
    name: str,
    type_: onnx.TypeProto,
    shape: tuple[object, ...],
    sizes: dict[str, int],
    ranges: dict[str, Range],
) -> None:
    """Set the sizes of one input; ``sizes`` and ``ranges`` collect those of open ones, by name."""
    if type_.WhichOneof("value") != "tensor_type":
        raise _refusal(f"input {name!r} is not a tensor")
    if not all(size is None or _is_size(size) or _is_range(size) for size in shape):
        raise _refusal(
            f"input {name!r} cannot have shape {list(shape)}",
            "a size is a number, a range (least, greatest), or None for what the model says",
        )
    tensor = type_.tensor_type
    if not tensor.HasField("shape"):
        tensor.shape.dim.extend(onnx.TensorShapeProto.Dimension() for _ in shape)
    if len(tensor.shape.dim) != len(shape):
        raise _refusal(f"input {name!r} has {len(tensor.shape.dim)} dimensions, not {len(shape)}")
    for axis, (dim, size) in enumerate(zip(tensor.shape.dim, shape, strict=True)):
        if isinstance(size, tuple):
            _bound(name, axis, dim, size, ranges)
        elif isinstance(size, int):
            _fix_size(name, axis, dim, size, sizes)


def _is_size(size: object) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 1 << 62


def _is_range(size: object) -> bool:
    if not isinstance(size, tuple) or len(size) != 2 or not _is_size(size[0]):
        return False
    return size[1] is None or (_is_size(size[1]) and size[0] <= size[1])


def _fix_size(name: str, axis: int, dim: Any, size: int, sizes: dict[str, int]) -> None:
    expected = size
    if dim.HasField("dim_value"):
        expected = dim.dim_value
    elif dim.dim_param:
        expected = sizes.setdefault(dim.dim_param, size)
    if size != expected:
        raise _refusal(
            f"input {name!r} has size {expected} in dimension {axis}, not {size}",
            f"{dim.dim_param} is {expected} elsewhere" if dim.dim_param else "",
        )
    if not dim.dim_param:
        dim.dim_value = size


def _bound(name: str, axis: int, dim: Any, given: Bounds, ranges: dict[str, Range]) -> None:
    if dim.HasField("dim_value"):
        what = f"input {name!r} has size {dim.dim_value} in dimension {axis}"
        raise _refusal(f"{what}, which is not open", "the model itself fixes it")
    symbol = size_name(name, axis, dim)
    if ranges.setdefault(symbol, given) != given:
        raise _refusal(f"{symbol} has two ranges, {ranges[symbol]} and {given}")


# ---- Check what a caller gives an ONNX model against what the model declares.


Data = Any  # an array, or on the host a list (a sequence) or None (an empty optional)


def checked_inputs(
    region: Region, inputs: Mapping[str, Data], ranges: Mapping[str, Range] | None = None
) -> dict[str, Data]:
    """``inputs`` as arrays, lists and None in the region's order; ``ranges`` of open sizes by name.

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
    checker = _Checker(valid, ranges or {})
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
    """Checks one call's inputs against what is declared, and ``ranges`` of open sizes by name;
    ``sizes`` remembers which size each ``dim_param`` has."""

    valid: str
    ranges: Mapping[str, Range]
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
                    _Checker(self.valid, {}).value(f"element {i} of {what}", name, inner, x)
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
            elif not self.fits(size, size_name(name, axis, dim)):
                symbol = size_name(name, axis, dim)
                low, high = self.ranges[symbol]
                bounds = f"{symbol} >= {low}" if high is None else f"{low} <= {symbol} <= {high}"
                text = f"{symbol} is {size} in dimension {axis} of {what}"
                raise self.error("WEFT-E0608", f"{text}, compiled for {bounds}")
            elif dim.dim_param:
                expected, first = self.sizes.setdefault(dim.dim_param, (size, name))
                why = f"{dim.dim_param} = {expected} in input {first!r}"
            else:
                continue
            if size != expected:
                text = f"{what} has size {size} in dimension {axis}, expected {expected}"
                raise self.error("WEFT-E0605", text, why)

    def fits(self, size: int, symbol: str) -> bool:
        low, high = self.ranges.get(symbol, (None, None))
        return (low is None or low <= size) and (high is None or size <= high)

    def error(self, code: str, what: str, why: str = "") -> CallError:
        return CallError(code, what, why=why, hint=self.valid)
