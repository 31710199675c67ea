"""Give the open sizes of an ONNX model's inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import onnx

from weft.errors import ModelError
from weft.frontend.onnx.onnx_graph import Port, Region

Shapes = Mapping[str, Sequence[int]]


def with_shapes(region: Region, shapes: Shapes) -> Region:
    """``region`` with its inputs named in ``shapes`` declared to have these shapes.

    A ``dim_param`` takes its size everywhere among the inputs. Raises ``ModelError`` (WEFT-E0013)
    for unknown inputs and for shapes that contradict the model or each other.
    """
    if not shapes:
        return region
    if not isinstance(shapes, Mapping):
        raise _refusal(f"a {type(shapes).__name__} is given", 'as {"x": (1, 3, 224, 224)}')
    types = {port.name: _copied(port.type) for port in region.inputs}
    sizes: dict[str, int] = {}
    for name, shape in shapes.items():
        if name not in types:
            raise _refusal(f"there is no input {name!r}", f"inputs: {', '.join(types)}")
        if isinstance(shape, str) or not isinstance(shape, Sequence):
            raise _refusal(f"input {name!r} cannot have shape {shape!r}")
        _fix(name, types[name], tuple(shape), sizes)
    for type_ in types.values():
        for dim in type_.tensor_type.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
    ports = [p if p.type is None else Port(p.name, types[p.name]) for p in region.inputs]
    return replace(region, inputs=tuple(ports))


def _copied(type_: onnx.TypeProto | None) -> onnx.TypeProto:
    copy = onnx.TypeProto()
    if type_ is not None:
        copy.CopyFrom(type_)
    return copy


def _refusal(what: str, hint: str = "") -> ModelError:
    return ModelError("WEFT-E0013", f"shapes: {what}", hint=hint)


def _fix(name: str, type_: onnx.TypeProto, shape: tuple[int, ...], sizes: dict[str, int]) -> None:
    """Set the sizes of one input; ``sizes`` collects those of the ``dim_param``s."""
    if type_.WhichOneof("value") != "tensor_type":
        raise _refusal(f"input {name!r} is not a tensor")
    if not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 1 << 62 for n in shape):
        raise _refusal(f"input {name!r} cannot have shape {list(shape)}")
    tensor = type_.tensor_type
    if not tensor.HasField("shape"):
        tensor.shape.dim.extend(onnx.TensorShapeProto.Dimension() for _ in shape)
    if len(tensor.shape.dim) != len(shape):
        raise _refusal(f"input {name!r} has {len(tensor.shape.dim)} dimensions, not {len(shape)}")
    for axis, (dim, size) in enumerate(zip(tensor.shape.dim, shape, strict=True)):
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
